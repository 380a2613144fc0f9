"""Replay: passes recorded entries of a cluster through the decision stages under the tested policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from faultbridge.decide.backtest.in_step import ClusterReplay, Counterfactual, InStep, timers
from faultbridge.decide.backtest.record import (
    Commit,
    Event,
    FactReader,
    Replayed,
    Track,
    Trail,
    commits,
    follow_case,
    in_status,
    placed,
    trails,
    typical_durations,
)
from faultbridge.decide.case_moves import Rules
from faultbridge.model.catalog import Catalog
from faultbridge.model.cluster.state import Control
from faultbridge.model.enums import CaseStatus, NodeStatus
from faultbridge.model.event_data import NodeStatusData
from faultbridge.model.nodes import NodeKey, NodeState
from faultbridge.model.policy import Policy
from faultbridge.model.values import replace

TICK = timedelta(milliseconds=1)
AFTER_END = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a replay reads besides entries: the fault catalog, and the known policies by version."""

    catalog: Catalog
    policies: Mapping[str, Policy]


def replay(events: Sequence[Event], rules: Rules, evidence: Evidence) -> Replayed:
    """Replay the recorded entries of one cluster under the tested policy, which `rules` contains."""
    found = trails(events)
    reader = FactReader(evidence.catalog, evidence.policies)
    cluster = ClusterReplay(rules, Control(rules.config.cluster))
    result = Replayed()
    in_step = InStep(reader, cluster)
    alone = Counterfactual(in_step, typical_durations(found.values()), result)
    run = _Run(rules.config.cluster, in_step, alone, result, found)
    for commit in commits(events):
        run.advance(commit.at)
        run.take(commit)
    run.finish()
    result.add_gap(
        "the severity before the recorded policy is not in the record: the catalog's is used", len(reader.guessed)
    )
    result.add_gap("a case was opened before the record begins", sum(not one.complete for one in found.values()))
    return result


@dataclass(slots=True)
class _Run:
    cluster: str
    in_step: InStep
    alone: Counterfactual
    result: Replayed
    trails: Mapping[str, Trail]
    at: datetime | None = None

    def take(self, commit: Commit) -> None:
        self.at = commit.at
        self._note_policy(commit)
        if commit.node is None:
            self.in_step.cluster.apply(commit)
            return
        track = self.in_step.cluster.tracks.get(commit.node)
        if track is None:
            empty = NodeState(NodeKey(self.cluster, commit.node), status=_first_status(commit))
            track = self.in_step.cluster.tracks[commit.node] = Track(empty, empty)
        self._record(track, commit)
        self.in_step.cluster.update_breakers(commit.at)
        if track.diverged:
            self.result.not_compared.add((commit.at, commit.node))
            track.state = placed(track.state, commit)
            self.alone.observe(track, commit)
        else:
            decisions = self.in_step.replay(track, commit)
            self.result.decisions += decisions
            case = track.state.case
            if case is not None and case.status is not CaseStatus.IN_PROGRESS:
                self.in_step.cluster.free_slot(case.id)
            if any(not one.same for one in decisions):
                self.alone.leave(track, commit.at)
        self.alone.rejoin(track, commit.at)

    def _note_policy(self, commit: Commit) -> None:
        """Store the breaker limits of the policy that a commit names, if this policy is known."""
        version = next((one.data.policy for one in commit.events if hasattr(one.data, "policy")), "")
        policy = self.in_step.reader.policies.get(version)
        if policy is not None:
            self.in_step.cluster.recorded_limits = policy.breakers

    def advance(self, until: datetime) -> None:
        while True:
            due = timers(self.in_step.cluster.tracks.values(), self.alone)
            if not due or due[0][0] > until:
                return
            at, track = due[0]
            self.at = at
            self.in_step.cluster.update_breakers(at)
            track.retry_at = None
            self.alone.settle(track, at)
            if self.alone.next_timer(track) == at:
                track.retry_at = at + TICK
            self.alone.rejoin(track, at)

    def finish(self) -> None:
        if self.at is not None:
            self.advance(self.at + AFTER_END)
        live = sum(one.course is not None for one in self.in_step.cluster.tracks.values())
        self.result.add_gap("a case is still live under the other policy a day after the record ends", live)

    def _record(self, track: Track, commit: Commit) -> None:
        state = placed(track.recorded, commit)
        _, conditions = self.in_step.reader.changes(state, commit)
        policy, catalog = self.in_step.cluster.rules.policy, self.in_step.reader.catalog
        state = follow_case(replace(state, conditions=conditions), commit, policy.limits, catalog)
        track.recorded = in_status(state, commit)
        case = track.recorded.case
        if case is not None and case.id in self.trails:
            track.trail = self.trails[case.id]


def _first_status(commit: Commit) -> NodeStatus:
    """Return the status that a node had before its first recorded entry; HEALTHY if it is unknown."""
    before = (one.data.from_ for one in commit.of_type(NodeStatusData) if one.data.from_)
    return next(before, NodeStatus.HEALTHY)
