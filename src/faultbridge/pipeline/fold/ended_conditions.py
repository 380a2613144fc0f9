"""Ended conditions: decide whether a late fault can be about a condition of a node that has ended.

A tombstone contains the times of one ended condition. A node stores a limited number of tombstones. When one is
evicted, the end of its condition stays as the time of its code in `NodeState.evicted`. `NodeState.floor` is one time
for all codes: the start of the last verified instance, or the latest end in a code that `evicted` had no room for.

- A fault that is not later than the times of its tombstone is known, and is stale.
- Any other fault that is not later than the floor or, without a tombstone, than the time of its code may be about an
  evicted condition, or may never have been seen. It becomes a note and opens no condition: no fault is lost, and no
  fault that was repaired is repaired again.
- Each later fault opens a condition. The end of conditions with other codes has no effect on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from faultbridge.domain.catalog import Catalog
from faultbridge.domain.conditions import Condition, Tombstone
from faultbridge.domain.faults import Fault
from faultbridge.pipeline.fold import attribution

MAX_EVICTED_CODES = 32
NOTED_BECAUSE = "older than what is stored about ended faults, so it may be one of them"


def last_time(tombstone: Tombstone) -> datetime:
    """Return the latest of the times of an ended condition: its end, or the last report of a source."""
    return max((tombstone.ended_at, *tombstone.reporters.values()))


def tombstone_of(condition: Condition, at: datetime) -> Tombstone:
    """Return the tombstone of a condition that ended at `at`; without an active reporter, its last one withdrew it.

    A fault and its withdrawal by one source can have the same time. The fault then counts, whichever arrives first, so
    a withdrawal covers the time up to the millisecond before it.
    """
    end = at if condition.active else at - timedelta(milliseconds=1)
    times = {source: reporter.last_at for source, reporter in condition.reporters.items()}
    return Tombstone(end, {source: end if last_at == at else last_at for source, last_at in times.items()})


def has_tombstone_after(
    key: str, fault: Fault, at: datetime, tombstones: Mapping[str, Tombstone], catalog: Catalog
) -> bool:
    """Return whether a fault belongs to a condition whose tombstone is stored, so that the fault is stale."""
    tombstone = tombstones.get(key)
    if tombstone is not None:
        return at <= max(tombstone.ended_at, tombstone.reporters.get(fault.source, tombstone.ended_at))
    return attribution.belongs_to_ended(fault, at, tombstones, catalog)


def keep_end(code: str, ended_at: datetime, evicted: dict[str, datetime], floor: datetime | None) -> datetime | None:
    """Store in `evicted` that a condition whose tombstone is removed ended at `ended_at`; return the new floor.

    If `evicted` has no room for another code, its oldest time becomes the floor, unless the floor is later.
    """
    evicted[code] = max(ended_at, evicted.get(code, ended_at))
    if len(evicted) <= MAX_EVICTED_CODES:
        return floor
    oldest = evicted.pop(min(evicted, key=evicted.__getitem__))
    return oldest if floor is None else max(floor, oldest)


def last_evicted(fault: Fault, evicted: Mapping[str, datetime], catalog: Catalog) -> datetime | None:
    """Return the latest time of the evicted tombstones that a fault may be about, or None.

    A fault that names no device or only a general code can be about a condition with any code.
    """
    if attribution.is_unspecific(fault, catalog):
        return max(evicted.values(), default=None)
    return evicted.get(catalog.canonical(fault.code))
