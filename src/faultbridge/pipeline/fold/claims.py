"""Claims: the life of a condition that only senders report that did not prove to be the node.

A report of such a sender is a claim. A condition that only claims assert ends

- when a health snapshot of the node itself, later than the claim, checks for the fault and does not find it,
- when a verification passes that covers the fault,
- at the time `claimed_until`: the policy's `claim_ttl` after the first claim was received, whatever follows.

A report of the node proves the condition, and a failed verification confirms it.
"""

from __future__ import annotations

from datetime import datetime

from faultbridge.domain.catalog import Catalog
from faultbridge.domain.conditions import Condition, Reporter
from faultbridge.domain.copies import replace
from faultbridge.domain.faults import Snapshot
from faultbridge.domain.nodes import NodeState
from faultbridge.domain.records import Outcome
from faultbridge.pipeline.fold.changes import Arrival, Change, ChangeKind
from faultbridge.pipeline.fold.condition_updates import absent_conditions
from faultbridge.pipeline.fold.node_conditions import NodeConditions
from faultbridge.pipeline.normalize.resolve import IncarnationMatch


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
    """Return when a condition ends because only claims report it, or None if it is proven or confirmed."""
    return condition.claimed_until if condition.claimed_until and is_unproven(state, condition) else None


def limit_claims(conditions: NodeConditions, until: datetime) -> None:
    """Let each condition that is claimed for the first time end at the time `until`."""
    for key, condition in conditions.active.items():
        if condition.claimed_until is None and _claims(condition):
            conditions.active[key] = replace(condition, claimed_until=until)


def refute_claims(conditions: NodeConditions, state: NodeState, arrival: Arrival, catalog: Catalog) -> Outcome:
    """End the claims that a health snapshot refutes, whatever its source.

    A snapshot refutes an earlier claim if it checked for the fault on the component and did not find it. Its sender
    must have proved to be the node, and it must be about the current instance and boot. A condition that a failed
    verification confirmed is not refuted.
    """
    snapshot = arrival.observation
    proven = not arrival.claimed and arrival.incarnation is IncarnationMatch.CURRENT
    if not isinstance(snapshot, Snapshot) or not proven or not any(map(_claims, conditions.active.values())):
        return Outcome.CLEAN
    ended = Outcome.CLEAN
    for key in sorted(absent_conditions(snapshot, catalog, conditions.devices) & conditions.active.keys()):
        condition = conditions.active[key]
        earlier = [source for source in _claims(condition) if condition.reporters[source].last_at < arrival.at]
        confirmed = condition.claimed and not is_unproven(state, condition)
        if not earlier or confirmed:
            continue
        if conditions.interrupt():
            break
        _end_claims(conditions, key, earlier, arrival, f"refuted by the health snapshot of {snapshot.source}")
        ended = Outcome.RECORDED
    return ended


def _claims(condition: Condition) -> list[str]:
    return [source for source, one in condition.reporters.items() if one.active and one.claimed]


def _end_claims(conditions: NodeConditions, key: str, sources: list[str], arrival: Arrival, reason: str) -> None:
    condition = conditions.active[key]
    ended = {source: Reporter(False, arrival.at, claimed=True) for source in sources}
    remaining = replace(condition, reporters={**condition.reporters, **ended})
    if not remaining.active:
        conditions.end(key, remaining, arrival.at, reason, arrival.record_id)
        return
    conditions.active[key] = remaining
    changed = ("reporters",)
    conditions.changes.append(
        Change(ChangeKind.UPDATED, arrival.at, remaining, None, arrival.record_id, reason, changed)
    )
