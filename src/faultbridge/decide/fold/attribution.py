"""Attribution: assign an unspecific report to the specific condition that another reporter named.

Example: HyperPod reports that a node must be replaced, its agent reports that some GPU is unhealthy, and the kernel log
names the Xid and the GPU. These are one condition with three reporters.

A report is unspecific if its code is a general one (`stands_for` in the catalog) or if it names no device. It is
assigned to a condition of severity error or worse that it can mean, if one of these is true:

- It was observed at most 15 minutes before the start or after the last observation of the condition; at most an hour
  if it has the failure mode of the condition, and only names no device.
- An earlier report of its source with the same code and component was assigned to the condition.

A late fault can also be about a condition that has ended:

A tombstone contains the times of one ended condition. A node stores a limited number of tombstones. When one is
evicted, the end of its condition stays as the time of its mode in `NodeState.evicted`. `NodeState.floor` is one time
for all modes: the start of the last verified instance, or the latest end in a mode that `evicted` had no room for.

- A fault that is not later than the times of its tombstone is known, and is stale. If no source reported the condition
  under the code of the fault before it ended, the fault becomes a note.
- Any other fault that is not later than the floor or, without a tombstone, than the time of its mode may be about an
  evicted condition, or may never have been seen. It becomes a note and opens no condition: no fault is lost, and no
  fault that was repaired is repaired again.
- Each later fault opens a condition. The end of conditions with other modes has no effect on it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from itertools import islice

from faultbridge.model.catalog import Catalog, Row
from faultbridge.model.conditions import (
    Condition,
    Tombstone,
    code_of,
    component_key,
    condition_key,
    reporter_key,
    source_of,
    without_row,
)
from faultbridge.model.fault_enums import ComponentType, Severity
from faultbridge.model.faults import Component, Fault

MAX_ABSORBED = 8
MAX_DISTANCE, MAX_DISTANCE_OF_MODE = timedelta(minutes=15), timedelta(hours=1)
"""How long before or after a condition a report can mean it; the second one is for a report of the same mode."""
MAX_EVICTED = 32
NOTED_BECAUSE = "older than what is stored about ended faults, so it may be one of them"
OTHER_INSTANCE = "older than the end of the same fault of an earlier instance of the node"
NEW_CODE = "older than the end of the same fault, which was not reported under this code before it ended"

Conditions = Mapping[str, Condition]


def specific_condition(
    reported_key: str, fault: Fault, at: datetime, conditions: Conditions, catalog: Catalog
) -> str | None:
    """Return the key of the worst, then latest condition that an unspecific fault can mean, or None."""
    row, component = catalog.row_of(fault), fault.component
    if not (row.stands_for or _without_device(component)):
        return None
    matching = [
        (condition.severity.rank, condition.last_at, key)
        for key, condition in _active(conditions)
        if _stands_for(row, component, condition)
        and (_near(condition, at, row.mode) or _reported_as(condition, fault.source, reported_key))
    ]
    return max(matching)[2] if matching else None


def unspecific_conditions(specific: Condition, conditions: Conditions, catalog: Catalog) -> list[str]:
    """Return the keys of at most 8 active unspecific conditions that a specific one explains."""
    matching = (
        key
        for key, condition in _active(conditions)
        if _near(condition, specific.last_at, specific.mode)
        and any(_stands_for(catalog.row(code), condition.component, specific) for code in condition.codes)
    )
    return list(islice(matching, MAX_ABSORBED))


def unnamed_condition(fault: Fault, mode: str, at: datetime, conditions: Conditions) -> str | None:
    """Return the key of an active condition of this failure mode whose device this fault is the first to name."""
    key = condition_key(mode, Component(fault.component.type))
    condition = conditions.get(key)
    if condition is None or _without_device(fault.component) or not _near(condition, at, mode):
        return None
    return key


def is_unspecific(fault: Fault, catalog: Catalog) -> bool:
    """Return whether a fault names no device or only a general code."""
    return bool(catalog.row_of(fault).stands_for) or _without_device(fault.component)


def belongs_to_ended(fault: Fault, at: datetime, ended: Mapping[str, Tombstone], catalog: Catalog) -> bool:
    """Return whether an unspecific fault can mean an ended condition, so that the fault is stale."""
    if not is_unspecific(fault, catalog):
        return False
    row = catalog.row_of(fault)
    for key, tombstone in ended.items():
        mode, _, component = key.partition("@")
        earliest = min((*tombstone.reporters.values(), tombstone.ended_at)) - MAX_DISTANCE
        if not earliest <= at <= tombstone.ended_at:
            continue
        codes = {code_of(reporter) for reporter in tombstone.reporters}
        severe = any(catalog.row(code).severity.rank >= Severity.ERROR.rank for code in (mode, *codes))
        if severe and _covers(row, fault.component, mode, codes, component):
            return True
    return False


def last_time(tombstone: Tombstone) -> datetime:
    """Return the latest of the times of an ended condition: its end, or the last report of a source."""
    return max((tombstone.ended_at, *tombstone.reporters.values()))


def tombstone_of(condition: Condition, at: datetime, instance: int) -> Tombstone:
    """Return the tombstone of a condition of an instance; without an active reporter, its last one withdrew it.

    A fault and its withdrawal by one source can have the same time. The fault then counts, whichever arrives first, so
    a withdrawal covers the time up to the millisecond before it.
    """
    end = at if condition.active else at - timedelta(milliseconds=1)
    times: dict[str, datetime] = {}
    for key, reporter in condition.reporters.items():
        report, last_at = without_row(key), end if reporter.last_at == at else reporter.last_at
        times[report] = max(last_at, times.get(report, last_at))
    return Tombstone(end, times, instance)


def has_tombstone_after(
    key: str, fault: Fault, at: datetime, tombstones: Mapping[str, Tombstone], catalog: Catalog
) -> bool:
    """Return whether a fault belongs to a condition whose tombstone is stored.

    Catalog rows of one code can have several failure modes. What a source reported under a code ended with the
    condition of any of them on the component.
    """
    tombstone, report = tombstones.get(key), reporter_key(fault.source, fault.code)
    if tombstone is not None:
        return at <= max(tombstone.ended_at, tombstone.reporters.get(report, tombstone.ended_at))
    component = f"@{component_key(fault.component)}"
    others = (one for other, one in tombstones.items() if report in one.reporters and other.endswith(component))
    if any(at <= max(one.ended_at, one.reporters[report]) for one in others):
        return True
    return belongs_to_ended(fault, at, tombstones, catalog)


def is_reported_code(code: str, reporters: Iterable[str]) -> bool:
    """Return whether one of these reporters, of a condition or its tombstone, reported a fault code."""
    return any(code_of(reporter) == code for reporter in reporters)


def keep_end(mode: str, ended_at: datetime, evicted: dict[str, datetime], floor: datetime | None) -> datetime | None:
    """Store an evicted end by its failure mode; without room, the oldest raises the floor, which is returned."""
    evicted[mode] = max(ended_at, evicted.get(mode, ended_at))
    if len(evicted) <= MAX_EVICTED:
        return floor
    oldest = evicted.pop(min(evicted, key=evicted.__getitem__))
    return oldest if floor is None else max(floor, oldest)


def last_evicted(fault: Fault, evicted: Mapping[str, datetime], catalog: Catalog) -> datetime | None:
    """Return the latest end of evicted tombstones of a fault's failure mode, for an unspecific one of any mode."""
    if is_unspecific(fault, catalog):
        return max(evicted.values(), default=None)
    return evicted.get(catalog.row_of(fault).mode)


def reports_on(source: str, code: str, component: Component, conditions: Conditions) -> dict[str, list[str]]:
    """Return, by condition key, the active reporters of a source with a code on a component.

    Rows of one code can have several failure modes. A report that was counted for another condition is found by the
    component that it named itself.
    """
    report, on = reporter_key(source, code), component_key(component)
    found: dict[str, list[str]] = {}
    for key, condition in conditions.items():
        for name, one in condition.reporters.items():
            if one.active and without_row(name) == report and (one.unspecific_key or key).partition("@")[2] == on:
                found.setdefault(key, []).append(name)
    return found


def _active(conditions: Conditions) -> Iterator[tuple[str, Condition]]:
    return ((key, condition) for key, condition in conditions.items() if condition.active)


def _reported_as(condition: Condition, source: str, reported_key: str) -> bool:
    return any(
        one.unspecific_key == reported_key and source_of(reporter) == source
        for reporter, one in condition.reporters.items()
    )


def _near(condition: Condition, at: datetime, mode: str) -> bool:
    distance = MAX_DISTANCE_OF_MODE if mode == condition.mode else MAX_DISTANCE
    return condition.since - distance <= at <= condition.last_at + distance


def _stands_for(row: Row, component: Component, specific: Condition) -> bool:
    severe = specific.severity.rank >= Severity.ERROR.rank
    return severe and _covers(row, component, specific.mode, specific.codes, component_key(specific.component))


def _covers(row: Row, component: Component, mode: str, codes: Collection[str], specific_component: str) -> bool:
    """Return whether the row and component of an unspecific report can mean a specific failure on a component."""
    own = component_key(component)
    if row.mode == mode:
        same_type = specific_component.startswith(f"{component.type.value}/")
        return _without_device(component) and specific_component != own and same_type
    if not (component.type is ComponentType.NODE or _without_device(component) or specific_component == own):
        return False
    return any(_matches(pattern, code) for pattern in row.stands_for for code in codes)


def _matches(pattern: str, code: str) -> bool:
    return code == pattern or (pattern.endswith("*") and code.startswith(pattern[:-1]))


def _without_device(component: Component) -> bool:
    return component_key(component) == f"{component.type.value}/any"
