"""The cluster in a replay: repair slots and breakers under the tested policy, and recorded pauses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from faultbridge.backtest.course import Track
from faultbridge.backtest.record import Commit, Event
from faultbridge.domain.cases import Case, RepairAction
from faultbridge.domain.cluster.breakers import Breaker, BreakerLimit, BreakerScope, BreakerState, breaker_name
from faultbridge.domain.cluster.state import Control, QueuedCase
from faultbridge.domain.edges import Actor, CaseStatus, NodeStatus
from faultbridge.domain.entries import EntryType
from faultbridge.domain.faults import Severity
from faultbridge.pipeline.decide.admit import Refused, admit, recent_starts
from faultbridge.pipeline.decide.breaker import close_manually, evaluate_breakers, failing_node
from faultbridge.pipeline.decide.open_case import Rules

STAYS_OPEN = "it stays open"
"""The text in an entry about a breaker that only an operator can close."""


@dataclass(slots=True)
class ClusterReplay:
    """The nodes, repair slots and breakers of one cluster in a replay under the tested policy."""

    rules: Rules
    control: Control
    tracks: dict[str, Track] = field(default_factory=dict)
    recorded_limits: tuple[BreakerLimit, ...] | None = None

    @property
    def follows_breakers(self) -> bool:
        """Whether the recorded breaker states apply in the replay.

        They apply if the policy that was in force has the same breaker limits as the tested policy.
        """
        return self.recorded_limits == self.rules.policy.breakers

    def apply(self, commit: Commit) -> None:
        """Apply the recorded pauses and breaker changes of a commit.

        If the breaker limits of the recorded and the tested policy differ, the only breaker change that is applied is
        an operator's order to close the breakers.
        """
        for event in commit.of_type(EntryType.CLUSTER_SAFETY):
            data = event["data"]
            if data["kind"] == "pause":
                self.control = replace(self.control, paused=data["to"] == "paused")
            elif data["kind"] == "breaker" and self.follows_breakers:
                self._set_breakers({_name(data): self._recorded(data, commit.at)})
            elif data["kind"] == "breaker" and commit.actor is Actor.CLI:
                tripped = self.control.breakers.items()
                self._set_breakers({name: close_manually(one, commit.at) for name, one in tripped if _is_tripped(one)})

    def _recorded(self, data: Event, at: datetime) -> Breaker:
        scope = BreakerScope.DOMAIN if data["domain"] else BreakerScope.CLUSTER
        trial = next((one.trial for one in self.rules.policy.breakers if one.scope is scope), 1)
        return Breaker(BreakerState(data["to"]), at, trial, stays_open=STAYS_OPEN in data["reason"])

    def _set_breakers(self, changed: Mapping[str, Breaker]) -> None:
        self.control = replace(self.control, breakers={**self.control.breakers, **changed})

    def update_breakers(self, now: datetime) -> None:
        """Open and close breakers under the tested policy, by the number of nodes with live cases.

        Absorbed cases do not count. Nothing changes if the recorded breaker states apply.
        """
        limits = self.rules.policy.breakers
        if self.follows_breakers:
            return
        known = [track.state for track in self.tracks.values() if track.state.status not in {None, NodeStatus.RETIRED}]
        failing = [
            failing_node(one, one.live_case)
            for one in known
            if one.live_case is not None and one.status is not None and one.live_case.status is not CaseStatus.ABSORBED
        ]
        if not limits or (not failing and not self.control.breakers):
            return
        counts: Counter[str | None] = Counter(one.placement.domain for one in known if one.placement.domain)
        counts[None] = max(self.rules.config.expected, len(known))
        moved = evaluate_breakers(self.control.breakers, limits, failing, counts, now)
        self._set_breakers({one.name: one.breaker for one in moved})

    def refusal(self, track: Track, case: Case, action: RepairAction, now: datetime) -> Refused | None:
        """Return why admission under the tested policy refuses a queued case now; None if it admits the case.

        Other queued cases are not considered.
        """
        refused = admit(self.control, self.rules.policy, (_queued(track, case, action),), now).refusals
        return refused[0] if refused else None

    def is_behind(self, case: Case, now: datetime) -> bool:
        """Return True if admission of all queued cases at the same time would not start this case now."""
        waiting = [
            _queued(one, one.state.live_case, one.state.live_case.repair_action)
            for one in self.tracks.values()
            if one.state.live_case is not None and one.state.live_case.status is CaseStatus.QUEUED
        ]
        return all(pick.case != case.id for pick in admit(self.control, self.rules.policy, waiting, now).picks)

    def take_slot(self, case: Case, action: RepairAction, now: datetime) -> None:
        """Occupy a repair slot for an attempt, if its repair action needs a slot."""
        if action.needs_slot:
            starts = (*recent_starts(self.control, now), now)
            self.control = replace(self.control, holders={**self.control.holders, case.id: now}, starts=starts)

    def free_slot(self, case_id: str) -> None:
        """Release the repair slot of a case, if the case has one."""
        holders = {name: since for name, since in self.control.holders.items() if name != case_id}
        self.control = replace(self.control, holders=holders)


def _queued(track: Track, case: Case, action: RepairAction) -> QueuedCase:
    state = track.state
    return QueuedCase(
        key=state.key,
        case=case.id,
        repair_action=action,
        priority=len(Severity) - 1 - case.severity.rank,
        since=case.opened_at,
        not_before=case.not_before,
        rule=case.rule,
        domain=state.placement.domain,
        group=state.placement.group,
        approved=case.approves(action, case.attempts + 1),
        approval_pending=case.pending_approval is not None,
    )


def _name(data: Event) -> str:
    return breaker_name(BreakerScope.DOMAIN if data["domain"] else BreakerScope.CLUSTER, data["domain"])


def _is_tripped(breaker: Breaker) -> bool:
    return breaker.state is not BreakerState.CLOSED
