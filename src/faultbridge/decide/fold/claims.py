"""Claims: the life of a condition that only senders report that did not prove to be the node.

A report of such a sender is a claim. A condition that only claims assert ends

- when a health snapshot of the node itself, later than the claim, checks for the fault and does not find it,
- when a verification passes that covers the fault,
- at the time `claimed_until`: the policy's `claim_ttl` after the first claim was received, whatever follows.

A report of the node proves the condition, and a failed verification confirms it. After a condition ended in one of
these ways, further claims of its sources of the same failure mode are only notes for 24 hours: the sources are damped.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta

from msgspec import Struct, field

from faultbridge.decide.fold.changes import Arrival, Change, ChangeKind
from faultbridge.decide.fold.condition_updates import absent_conditions
from faultbridge.decide.fold.daily_notes import DAMPED
from faultbridge.decide.fold.node_conditions import NodeConditions
from faultbridge.decide.fold.rating import rated
from faultbridge.decide.normalize.resolve import IncarnationMatch
from faultbridge.model.catalog import Catalog
from faultbridge.model.conditions import Condition, source_of
from faultbridge.model.faults import Fault, Snapshot, faults_of
from faultbridge.model.nodes import NodeState
from faultbridge.model.records import Outcome
from faultbridge.model.values import replace

DAMPED_FOR = timedelta(hours=24)
MAX_DAMPED = 16
"""Maximum sources and codes that a node stores as damped. The oldest are dropped."""


def is_unproven(state: NodeState, condition: Condition) -> bool:
    """Return whether only claims assert a condition, and no failed verification has confirmed it.

    A failed verification confirms the claimed conditions that are active at that time, for the instance and the boot
    that failed. A condition that is claimed later needs a verification of its own.
    """
    if not condition.claimed:
        return False
    since = state.incarnation.since if state.incarnation else None
    return condition.confirmed_at is None or (since is not None and condition.confirmed_at < since)


def confirm_claims(state: NodeState, now: datetime) -> NodeState:
    """Return the node after a failed verification, which confirms the claimed conditions that are active now."""
    claimed = {key: replace(one, confirmed_at=now) for key, one in state.conditions.items() if one.claimed}
    return replace(state, conditions={**state.conditions, **claimed})


def claim_end(state: NodeState, condition: Condition) -> datetime | None:
    """Return when a condition ends because only claims report it, or None if it is proven or confirmed.

    While the node is out of service, the result is None too: if the claim ended, the verification of the node would no
    longer be one for a claim, and would not wait for running work to end.
    """
    in_service = state.status is not None and state.status.in_service
    return condition.claimed_until if in_service and is_unproven(state, condition) else None


def with_damped(state: NodeState, refuted: Iterable[Condition], now: datetime) -> NodeState:
    """Return the node after conditions ended that only claims reported, and that nothing proved or confirmed.

    Further claims of their sources of the same failure modes are notes for 24 hours.
    """
    until = {name: now + DAMPED_FOR for condition in refuted for name in _names(condition)}
    if not until:
        return state
    latest = sorted(((at, name) for name, at in {**state.damped, **until}.items() if at > now), reverse=True)
    return replace(state, damped={name: at for at, name in latest[:MAX_DAMPED]})


def _names(condition: Condition) -> list[str]:
    """Return the names in `NodeState.damped` of the claims of a condition; none if it was proven or confirmed."""
    reporters = condition.reporters.items()
    proven = any(not one.claimed for _, one in reporters if one.active or one.last_at >= condition.since)
    if proven or condition.confirmed_at is not None:
        return []
    return [
        damped_name(source_of(reporter), (one.unspecific_key or condition.mode).partition("@")[0])
        for reporter, one in reporters
        if one.active
    ]


def damped_name(source: str, mode: str) -> str:
    """Return the key of `NodeState.damped` for the claims of a source of a failure mode."""
    return f"{source} {mode}"


class Claims(Struct):
    """Applies the rules of claims while the observations of a commit are applied to the conditions of a node.

    `state` is the node before the commit. `until` is when a condition ends that is claimed for the first time now.
    `sources` are those whose claims the cluster ignores. `refuted` are the conditions that health snapshots refuted.
    """

    conditions: NodeConditions
    state: NodeState
    catalog: Catalog
    now: datetime
    until: datetime
    sources: Collection[str] = ()
    refuted: list[Condition] = field(default_factory=list)

    def note_damped(self, arrival: Arrival) -> tuple[Arrival | None, Outcome]:
        """Record the claims in an observation whose source is damped as notes, and return the rest of it.

        If nothing remains, the first value is None. Each source and code has one note a day.
        """
        observation, damped = arrival.observation, [one for one in faults_of(arrival.observation) if self._damps(one)]
        outcome = Outcome.CLEAN
        for fault in damped:
            key, reason = self._name(fault), "a claim is ignored because earlier ones were refuted or expired"
            noted = self.conditions.note(ChangeKind.NOTED, DAMPED, key, self.catalog.classify(fault), arrival, reason)
            outcome = max(outcome, noted, key=lambda one: one.rank)
        if not damped or not isinstance(observation, Snapshot):
            return (None if damped else arrival), outcome
        codes = {one.code for one in damped}
        covers = {code: on for code, on in observation.covers.items() if code not in codes}
        present = tuple(one for one in observation.present if one not in damped)
        return replace(arrival, observation=replace(observation, covers=covers, present=present)), outcome

    def _damps(self, fault: Fault) -> bool:
        return fault.source in self.sources or self.state.damped.get(self._name(fault), self.now) > self.now

    def _name(self, fault: Fault) -> str:
        return damped_name(fault.source, self.catalog.row_of(fault).mode)

    def limit(self) -> None:
        """Let each condition that is claimed for the first time end at the time `until`."""
        for key, condition in self.conditions.active.items():
            if condition.claimed_until is None and _claims(condition):
                self.conditions.active[key] = replace(condition, claimed_until=self.until)

    def refute(self, arrival: Arrival) -> Outcome:
        """End the claims that a health snapshot refutes, whatever its source.

        A snapshot refutes an earlier claim if it checked for the fault on the component and did not find it. Its sender
        must have proved to be the node, and it must be about the current instance and boot. A condition that a failed
        verification confirmed is not refuted.
        """
        snapshot, active = arrival.observation, self.conditions.active
        proven = not arrival.claimed and arrival.incarnation is IncarnationMatch.CURRENT
        if not isinstance(snapshot, Snapshot) or not proven or not any(map(_claims, active.values())):
            return Outcome.CLEAN
        ended = Outcome.CLEAN
        for key in sorted(absent_conditions(snapshot, self.catalog, self.conditions.devices) & active.keys()):
            condition = active[key]
            earlier = [one for one in _claims(condition) if condition.reporters[one].last_at < arrival.at]
            confirmed = condition.claimed and not is_unproven(self.state, condition)
            if not earlier or confirmed:
                continue
            if self.conditions.interrupt():
                break
            self._end(key, earlier, arrival, f"refuted by the health snapshot of {snapshot.source}")
            ended = Outcome.RECORDED
        return ended

    def _end(self, key: str, reporters: list[str], arrival: Arrival, reason: str) -> None:
        condition = self.conditions.active[key]
        ended = {
            one: replace(condition.reporters[one], active=False, last_at=arrival.at, digests=()) for one in reporters
        }
        remaining = rated(replace(condition, reporters={**condition.reporters, **ended}), self.catalog)
        if not remaining.active:
            self.refuted.append(condition)
            self.conditions.end(key, remaining, arrival.at, reason, arrival.record_id)
            return
        self.conditions.active[key] = remaining
        changed = ("reporters",)
        self.conditions.changes.append(
            Change(ChangeKind.UPDATED, arrival.at, remaining, None, arrival.record_id, reason, changed)
        )


def _claims(condition: Condition) -> list[str]:
    return [reporter for reporter, one in condition.reporters.items() if one.active and one.claimed]
