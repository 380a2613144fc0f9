"""Fold: observations into conditions. A duplicate, a reorder or a replay changes nothing.

No record is remembered; its effects are. Each reporter of a condition keeps the time up to which its observations
are counted, an ended condition leaves a tombstone with these times, and an evicted tombstone raises the node's floor.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from faultbridge.domain.catalog import Catalog
from faultbridge.domain.faults import Clear, Fault, Snapshot
from faultbridge.domain.nodes import NodeState
from faultbridge.domain.policy import Limits
from faultbridge.domain.records import Outcome
from faultbridge.pipeline.fold.changes import Arrival, Change, ChangeKind, Folded
from faultbridge.pipeline.fold.folding import Folding
from faultbridge.pipeline.normalize.resolve import Sits


def fold(state: NodeState, arrivals: Iterable[Arrival], *, now: datetime, catalog: Catalog, limits: Limits) -> Folded:
    """Let observations change a node's conditions, in the order of their time."""
    folding = Folding(state, catalog)
    outcomes: dict[str, Outcome] = {}
    for arrival in sorted(arrivals, key=lambda arrival: arrival.at):
        outcome = _take(folding, arrival, oldest=now - limits.remember_for)
        best = outcomes.get(arrival.record_id)
        outcomes[arrival.record_id] = outcome if best is None else max(best, outcome, key=lambda one: one.rank)
    return Folded(folding.state(), tuple(folding.changes), outcomes)


def _take(folding: Folding, arrival: Arrival, *, oldest: datetime) -> Outcome:
    if arrival.at < oldest:
        return Outcome.STALE
    observation = arrival.observation
    if arrival.sits is Sits.EARLIER:
        return _late(folding, arrival)
    if isinstance(observation, Fault):
        return folding.fault(observation, arrival)
    if isinstance(observation, Clear):
        return folding.clear(observation, arrival)
    if isinstance(observation, Snapshot):
        return folding.snapshot(observation, arrival)
    return Outcome.CLEAN


def _late(folding: Folding, arrival: Arrival) -> Outcome:
    # A former instance's log tail belongs on the record once a day and code, and triggers nothing.
    fault = arrival.observation
    if not isinstance(fault, Fault):
        return Outcome.STALE
    if not folding.first_of_the_day(f"late:{fault.code}", arrival.at):
        return Outcome.STALE
    folding.changes.append(
        Change(ChangeKind.LATE, arrival.at, None, fault, arrival.record_id, "about an earlier incarnation")
    )
    return Outcome.RECORDED
