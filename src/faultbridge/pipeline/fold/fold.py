"""Fold: apply observations to a node's conditions; duplicates and reordering change nothing.

Records are not stored, only their effects. An observation that is older than the policy's `remember_for` is too old.
For a later observation, one of these times decides whether it is too old:

- watermark: the time of the latest counted observation of a reporter, stored in the condition.
- snapshot time: the time of the last health snapshot of a reporter.
- tombstone: the watermarks of a condition that ended, and the time of its end.
- evicted: by code, the latest end of the conditions whose tombstones were evicted.
- floor: one time for all conditions of the node. It rises when the verification of a new instance passes.

A fault that these two times exclude was possibly never seen, so it becomes a note (`attribution`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime

from faultbridge.domain.catalog import Catalog
from faultbridge.domain.faults import Clear, Fault, Snapshot
from faultbridge.domain.nodes import NodeState
from faultbridge.domain.policy import Limits
from faultbridge.domain.records import Outcome
from faultbridge.pipeline.fold.changes import Arrival, ChangeKind, Folded
from faultbridge.pipeline.fold.claims import Claims, with_damped
from faultbridge.pipeline.fold.daily_notes import LATE, UNREGISTERED
from faultbridge.pipeline.fold.node_conditions import NodeConditions
from faultbridge.pipeline.normalize.resolve import IncarnationMatch


def fold(
    state: NodeState,
    arrivals: Iterable[Arrival],
    *,
    now: datetime,
    catalog: Catalog,
    limits: Limits,
    changed: int = 0,
    damped: Collection[str] = (),
) -> Folded:
    """Apply observations to a node in the order of their times, up to the limit of changes of one commit.

    `changed` is the number of changes that the commit already contains. Claims of the sources in `damped` are notes.
    """
    conditions = NodeConditions(state, catalog, changed)
    claims = Claims(conditions, state, catalog, now, now + limits.claim_ttl, damped)
    outcomes: dict[str, Outcome] = {}
    ordered = sorted(arrivals, key=lambda arrival: arrival.at)
    applied = 0
    for arrival in ordered:
        if conditions.is_full:
            break
        outcome = _apply(conditions, claims, arrival, oldest=now - limits.remember_for)
        strongest = outcomes.get(arrival.record_id)
        if strongest is None or outcome.rank > strongest.rank:
            outcomes[arrival.record_id] = outcome
        if conditions.interrupted:
            break
        applied += 1
    folded = with_damped(conditions.state(), claims.refuted, now) if claims.refuted else conditions.state()
    return Folded(folded, tuple(conditions.changes), outcomes, tuple(ordered[applied:]))


def _apply(conditions: NodeConditions, claims: Claims, arrival: Arrival, *, oldest: datetime) -> Outcome:
    if arrival.at < oldest:
        return Outcome.STALE
    if arrival.incarnation is IncarnationMatch.EARLIER:
        return _record_late_fault(conditions, arrival)
    if not arrival.claimed:
        return _apply_observation(conditions, claims, arrival)
    rest, noted = claims.note_damped(arrival)
    if rest is None:
        return noted
    outcome = _apply_observation(conditions, claims, rest)
    claims.limit()
    return max(outcome, noted, key=lambda one: one.rank)


def _apply_observation(conditions: NodeConditions, claims: Claims, arrival: Arrival) -> Outcome:
    observation = arrival.observation
    if isinstance(observation, Fault):
        return conditions.apply_fault(observation, arrival)
    if isinstance(observation, Clear):
        return conditions.apply_clear(observation, arrival)
    if isinstance(observation, Snapshot):
        refuted = claims.refute(arrival)
        applied = refuted if conditions.interrupted else conditions.apply_snapshot(observation, arrival)
        return max(refuted, applied, key=lambda outcome: outcome.rank)
    return Outcome.CLEAN


def _record_late_fault(conditions: NodeConditions, arrival: Arrival) -> Outcome:
    """Record a fault of another instance or an earlier boot as a note, once per day and code.

    The fault changes no condition. An observation that is not a fault is stale, and nothing is recorded.
    """
    fault = arrival.observation
    if not isinstance(fault, Fault):
        return Outcome.STALE
    group = LATE if conditions.is_own_instance(arrival.instance_id) else UNREGISTERED
    reason = "about an earlier incarnation" if group == LATE else "reported by an instance that never backed this node"
    noted = conditions.note(ChangeKind.LATE, group, fault.code, fault, arrival, reason)
    return noted if noted is Outcome.RECORDED else Outcome.STALE
