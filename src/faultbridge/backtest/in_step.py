"""In step: replays a node while the tested policy decides as recorded (the two are in step)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from faultbridge.backtest.cluster import ClusterReplay
from faultbridge.backtest.course import Decision, Track
from faultbridge.backtest.facts import FactReader, in_status, placed
from faultbridge.backtest.record import Commit, Event
from faultbridge.backtest.recorded_case import REQUEUED, follow_case, ordered, with_request
from faultbridge.domain.cases import INSTANCE_ADDED, Case, RepairAction, WaitingFor
from faultbridge.domain.edges import Actor, CaseStatus
from faultbridge.domain.entries import Draft, EntryType
from faultbridge.domain.nodes import Isolation, NodeState
from faultbridge.domain.times import from_text
from faultbridge.pipeline.decide.admit import closed_window
from faultbridge.pipeline.decide.approval_timeout import expire_approval
from faultbridge.pipeline.decide.decide import decide
from faultbridge.pipeline.decide.governing_rules import governing_rules, rule_to_ask, with_governing_rules
from faultbridge.pipeline.decide.repair_actions import choose_repair_action, next_higher, next_repair_action
from faultbridge.pipeline.fold.changes import Change

BY_POLICY = frozenset({WaitingFor.BUDGET, WaitingFor.BREAKER, WaitingFor.APPROVAL, WaitingFor.WINDOW, WaitingFor.WAIT})
"""Reasons to wait that depend on the policy. All others, such as missing capacity, do not."""

NOTHING = "nothing"
_ORDER = list(RepairAction)
_DECIDED = {(None, "open"), ("open", "queued"), ("open", "resolved"), ("queued", "resolved"), ("open", "escalated")}


@dataclass(slots=True)
class InStep:
    """Compares recorded decisions about a node with the tested policy, until two decisions differ."""

    reader: FactReader
    cluster: ClusterReplay

    def replay(self, track: Track, commit: Commit) -> list[Decision]:
        """Replay one commit of a node, update `track.state`, and return the compared decisions.

        If a decision differs, `track.state` is the node without the recorded decision.
        """
        before = placed(track.state, commit)
        changes, conditions = self.reader.changes(before, commit)
        before = replace(before, conditions=conditions)
        recorded = commit.of_type(EntryType.CASE_STATUS)
        decisions: list[Decision] = []
        decided: NodeState | None = None
        if _is_stage(commit, changes, recorded):
            decisions, decided = self._stage(before, changes, commit, recorded)
        elif commit.actor is Actor.DISPATCH:
            track.state = before
            decisions = self._dispatch(track, commit, recorded)
        elif commit.actor in {Actor.STEP, Actor.CLOSE}:
            decisions = self._next_actions(before, commit, recorded)
        if any(not one.same for one in decisions):
            track.state = decided or before
            return decisions
        track.state = self._agreed(decided or before, commit)
        return decisions

    def _agreed(self, state: NodeState, commit: Commit) -> NodeState:
        """Apply a recorded commit, with whose decisions the tested policy agrees, to a node.

        The case of the node keeps the rule that the tested policy selected, not the recorded rule.
        """
        policy = self.cluster.rules.policy
        rule = state.live_case.rule if state.live_case else None
        state = follow_case(_with_recorded_id(state, commit), commit, policy.limits, self.reader.catalog)
        case = state.live_case
        if case is not None and rule is not None:
            case = replace(case, rule=rule)
            case = with_governing_rules(state, case, policy) if _starts_or_acts(commit) else case
            state = replace(state, case=case)
        asked = [one for one in commit.notes("approval") if one["data"].get("stage") == "begun"]
        for event in asked:
            if case is not None:
                action = RepairAction(event["data"]["facts"]["repair_action"])
                asking = rule_to_ask(state, case, policy, action, case.attempts + 1)
                deadline = (asking or policy.rule_named(case.rule)).approval_deadline
                state = with_request(state, action, commit.at, commit.at + deadline)
        return in_status(state, commit)

    def _stage(
        self,
        state: NodeState,
        changes: Iterable[Change],
        commit: Commit,
        recorded: Iterable[Event],
    ) -> tuple[list[Decision], NodeState]:
        theirs = [_of_event(one) for one in recorded if _is_decided(one)]
        if any(text.startswith("open") for text in theirs) and state.ignored is not None:
            state = replace(state, ignored=None)
        if any(one["data"]["facts"].get("order") == "replace" for one in commit.notes("operator")):
            state = ordered(state, "replace")
        rules = self.cluster.rules
        decided = expire_approval(decide(state, changes, rules, commit.at), commit.at)
        mine = [_of_draft(one) for one in decided.drafts if one.type is EntryType.CASE_STATUS]
        if not theirs and not mine:
            return [], decided.state
        decision = Decision(commit.at, state.key.node, _case_id(commit), _text(theirs), _text(mine))
        return [decision], _isolation_requested(decided.state)

    def _dispatch(self, track: Track, commit: Commit, recorded: Iterable[Event]) -> list[Decision]:
        case = track.state.live_case
        if case is None:
            return []
        found = []
        for event in recorded:
            if event["data"]["to"] == CaseStatus.IN_PROGRESS.value:
                theirs = f"start {event['data']['repair_action']}"
                found.append(self._compared(track, case, commit, theirs))
                if found[-1].same:
                    self.cluster.take_slot(case, RepairAction(event["data"]["repair_action"]), commit.at)
            elif event["data"]["to"] == CaseStatus.ESCALATED.value:
                found.append(self._compared(track, case, commit, "escalate"))
        for event in commit.notes("refused"):
            waiting = WaitingFor(event["data"]["facts"]["waiting_for"])
            if waiting in BY_POLICY:
                found.append(self._compared(track, case, commit, "wait"))
                if not found[-1].same and self.cluster.is_behind(case, commit.at):
                    found[-1] = replace(found[-1], replayed="wait", reason="more urgent cases come first")
        if not found and any(one["data"].get("stage") == "begun" for one in commit.notes("approval")):
            found.append(self._compared(track, case, commit, "wait"))
        return found

    def _compared(self, track: Track, case: Case, commit: Commit, theirs: str) -> Decision:
        action, refused = self.admission(track, case, commit.at)
        mine = "escalate" if action is None else "wait" if refused else f"start {action.value}"
        return Decision(commit.at, track.state.key.node, case.id, theirs, mine, refused)

    def admission(self, track: Track, case: Case, now: datetime) -> tuple[RepairAction | None, str]:
        """Return the repair action of the next attempt, and the reason why the attempt must wait.

        The action is None if an operator must act. The reason is empty if the attempt need not wait.
        """
        policy = self.cluster.rules.policy
        action = choose_repair_action(track.state, case, policy).repair_action
        if action is None:
            return None, ""
        refused = self.cluster.refusal(track, case, case.repair_action, now)
        if refused is not None:
            return action, refused.reason
        asking = rule_to_ask(track.state, case, policy, action, case.attempts + 1)
        if asking is not None:
            return action, f"{action.value} requires approval: rule {asking.name}"
        return action, closed_window(governing_rules(track.state, case, policy, action), action, now) or ""

    def _next_actions(self, state: NodeState, commit: Commit, recorded: Iterable[Event]) -> list[Decision]:
        case, found = state.live_case, []
        for event in recorded:
            data = event["data"]
            failed = data["from"] == CaseStatus.IN_PROGRESS.value and data["to"] == CaseStatus.QUEUED.value
            if case is not None and failed and data["waiting_for"] in REQUEUED and not case.cancelled:
                recorded_action = RepairAction(data["repair_action"])
                if _ORDER.index(recorded_action) < _ORDER.index(case.repair_action):
                    continue  # the faults ended meanwhile: the node is only verified
                action = self.next_action(case, recorded_action)
                mine = f"retry with {action.value}" if action else "escalate"
                theirs = f"retry with {recorded_action.value}"
                found.append(Decision(commit.at, state.key.node, case.id, theirs, mine))
        return found

    def next_action(self, case: Case, at_least: RepairAction | None = None) -> RepairAction | None:
        """Return the action after a failed attempt, not weaker than `at_least`; None if an operator must act."""
        policy = self.cluster.rules.policy
        higher = next_higher(case.repair_action) or case.repair_action
        least = max(higher, at_least or higher, key=_ORDER.index)
        action = next_repair_action(policy.rule_named(case.rule), at_least=least)
        exhausted = action is case.repair_action and case.counted_attempts >= policy.limits.attempts
        return None if exhausted else action


def _is_stage(commit: Commit, changes: object, recorded: Iterable[Event]) -> bool:
    """Return True if the decision stages produced a commit.

    The stages run in the sweep, after records that changed conditions, and after an operator order that changed a
    condition.
    """
    recorded = list(recorded)
    if any(not _is_decided(one) and one["data"]["rule"] != "" for one in recorded):
        return False
    if commit.actor is Actor.CLI:
        orders = {str(one["data"]["facts"].get("order")) for one in commit.notes("operator")}
        return bool(changes) and not orders & {"return", "cancelled"}
    return commit.actor is Actor.SWEEP or (commit.actor is Actor.INGEST and bool(changes))


def _starts_or_acts(commit: Commit) -> bool:
    started = any(one["data"]["to"] == CaseStatus.IN_PROGRESS.value for one in commit.of_type(EntryType.CASE_STATUS))
    return started or any(one["data"]["step"] == "intent" for one in commit.of_type(EntryType.REPLACEMENT_STEP))


def _is_decided(event: Event) -> bool:
    data = event["data"]
    timed_out = (data["from"], data["to"]) == ("queued", "escalated")
    by_inventory = data["rule"] == "inventory" or data["cause"]["code"] == INSTANCE_ADDED
    from_outside = by_inventory or data["resolution"] not in {None, "recovered"}
    return ((data["from"], data["to"]) in _DECIDED or timed_out) and not from_outside


def _of_event(event: Event) -> str:
    return _describe(event["data"], from_text(event["metadata"]["recorded_at"]))


def _of_draft(draft: Draft) -> str:
    return _describe(draft.data, draft.occurred_at)


def _describe(data: Mapping[str, Any], at: datetime) -> str:
    if data["to"] != CaseStatus.OPEN.value:
        return {"queued": "queue", "resolved": "close", "escalated": "escalate"}[data["to"]]
    wait = (from_text(data["not_before"]) - at).total_seconds() if data["not_before"] else 0
    after = f" after {wait:.0f} s" if wait else ""
    return f"open {data['repair_action']} for {data['cause']['code']}{after}"


def _text(decisions: Iterable[str]) -> str:
    return ", ".join(decisions) or NOTHING


def _case_id(commit: Commit) -> str | None:
    return next((one["metadata"]["case_id"] for one in commit.events if one["metadata"]["case_id"]), None)


def _with_recorded_id(state: NodeState, commit: Commit) -> NodeState:
    """Replace the id of a new case by its recorded id, because later entries name the case by this id."""
    opened = [one for one in commit.of_type(EntryType.CASE_STATUS) if one["data"]["from"] is None]
    if not opened or state.case is None:
        return state
    return replace(state, case=replace(state.case, id=opened[0]["metadata"]["case_id"]))


def _isolation_requested(state: NodeState) -> NodeState:
    case = state.live_case
    needed = case is not None and case.isolate and state.isolation is Isolation.NONE
    return replace(state, isolation=Isolation.REQUESTED) if needed else state
