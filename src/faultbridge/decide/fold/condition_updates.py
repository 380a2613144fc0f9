"""Condition updates: create a condition, add a repeated fault to it, and merge two conditions."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache

from faultbridge.decide.fold.capacity import MAX_ATTRIBUTE_BYTES, limit_attributes, limit_reporters
from faultbridge.decide.fold.changes import ADDED_CODE, Arrival
from faultbridge.decide.fold.rating import rated
from faultbridge.decide.normalize.resolve import IncarnationMatch
from faultbridge.decide.normalize.timestamp import clock_has_moved
from faultbridge.model.catalog import Catalog
from faultbridge.model.conditions import (
    Condition,
    Reporter,
    Tombstone,
    code_of,
    component_key,
    condition_key,
    counted_at,
    identity,
    reporter_key,
    row_of,
    source_of,
    without_row,
)
from faultbridge.model.faults import Component, Fault, Snapshot
from faultbridge.model.times import earliest
from faultbridge.model.values import replace

MAX_DIGESTS = 8
MAX_ADDED_CODES, ADDED_WITHIN = 8, timedelta(hours=1)
"""Updates of a condition within an hour because of a further fault code."""


def merge_conditions(first: Condition, second: Condition, catalog: Catalog) -> Condition:
    """Merge two conditions of a device; the first one's texts and the newer reports are kept."""
    merged = replace(
        first,
        since=min(first.since, second.since),
        last_at=max(first.last_at, second.last_at),
        severity=max(first.severity, second.severity, key=lambda one: one.rank),
        action=max(first.action, second.action, key=lambda one: one.rank),
        known_incarnation=first.known_incarnation or second.known_incarnation,
        reporters=limit_reporters(_newest(first.reporters, second.reporters)),
        confirmed_at=first.confirmed_at if second.confirmed_at else None,
        claimed_until=earliest(first.claimed_until, second.claimed_until),
    )
    counts = (first.count, second.count, *(_counted(merged.reporters, key) for key in merged.reporters))
    return rated(replace(merged, count=max(counts)), catalog)


def _newest(first: Mapping[str, Reporter], second: Mapping[str, Reporter]) -> dict[str, Reporter]:
    reporters = {**second, **first}
    for key in first.keys() & second.keys():
        older, newer = sorted((second[key], first[key]), key=lambda one: one.last_at)
        hours = {hour: older.hours.get(hour, 0) + newer.hours.get(hour, 0) for hour in {**older.hours, **newer.hours}}
        reporters[key] = replace(newer, count=older.count + newer.count, hours=hours)
    return reporters


def _counted(reporters: Mapping[str, Reporter], key: str) -> int:
    """Return the number of observations by the source and the code of a reporter."""
    if len(reporters) == 1:
        return reporters[key].count
    report = without_row(key)
    return sum([one.count for other, one in reporters.items() if other == key or without_row(other) == report])


def new_condition(catalog: Catalog, fault: Fault, arrival: Arrival, ended: Tombstone | None) -> Condition:
    """Create a condition from its first fault. `ended` is the tombstone of the same condition, or None."""
    former = {key: Reporter(False, at) for key, at in ended.reporters.items()} if ended else {}
    row = catalog.row_of(fault)
    reporter = reporter_key(fault.source, row.code)
    condition = Condition(
        code=fault.code,
        mode=row.mode,
        component=fault.component,
        severity=fault.severity or row.severity,
        action=fault.action or row.action,
        scope=row.scope,
        ends_on=row.ends_on,
        since=arrival.at,
        last_at=arrival.at,
        message=fault.message,
        count=fault.count,
        known_incarnation=arrival.incarnation is IncarnationMatch.CURRENT,
        reporters=limit_reporters({**former, reporter: _report(fault, arrival, None)}, reporter),
        attributes=limit_attributes(fault.attributes, MAX_ATTRIBUTE_BYTES),
        ended_before=ended.ended_at if ended else None,
        family=row.family,
    )
    return rated(condition, catalog)


def reporter_of(fault: Fault, catalog: Catalog) -> str:
    """Return the key of the reporter of a fault: its source, and the catalog row that describes the fault."""
    return reporter_key(fault.source, catalog.row_of(fault).code)


def _repeat(
    condition: Condition, key: str, fault: Fault, arrival: Arrival, unspecific_key: str | None = None
) -> Condition:
    """Add one more fault of the reporter `key` to a condition; `unspecific_key` is the key of an unspecific fault.

    Message and attributes stay unchanged, except for a newer fault of the node's clock whose error has changed
    (`clock_has_moved`).
    """
    before = condition.reporters.get(key)
    updated = _report(fault, arrival, before, unspecific_key)
    reporters = limit_reporters({**condition.reporters, key: updated}, key)
    if arrival.at >= condition.last_at and clock_has_moved(condition.attributes, fault.attributes):
        attributes = limit_attributes(fault.attributes, MAX_ATTRIBUTE_BYTES)
        condition = replace(condition, attributes=attributes, message=fault.message)
    return replace(
        condition,
        count=max(condition.count, _counted(reporters, key)),
        since=min(condition.since, arrival.at),
        last_at=max(condition.last_at, arrival.at),
        known_incarnation=condition.known_incarnation or arrival.incarnation is IncarnationMatch.CURRENT,
        reporters=reporters,
    )


def add_report(
    condition: Condition, catalog: Catalog, fault: Fault, arrival: Arrival, unspecific_key: str | None = None
) -> Condition:
    """Add one more fault to a condition. A claimed fault never makes a confirmed condition worse.

    A fault or condition is claimed if no sender proved to be the node. A condition is confirmed if it is not claimed,
    or if a failed verification confirmed it.

    - A claimed fault adds a reporter and its time to a confirmed condition, but no count, and neither severity nor
      action above those of the condition.
    - A fault that is not claimed, and that names the device and an exact code (`unspecific_key` is None), replaces
      severity, action, message and count of a claimed condition (`rating`).
    - Any other fault is added with its severity, action and count.

    A fault that lasts longer than its mode permits (`max_age`) is rated as its row, however its source rates it. In
    each case, a fault of the node's clock can also replace attributes and message (`repeat_condition`).
    """
    row = catalog.row_of(fault)
    key = reporter_key(fault.source, row.code)
    if fault.severity is not None and _is_overdue(condition, catalog, arrival):
        fault = replace(fault, severity=row.severity, action=row.action)
    if arrival.claimed and (not condition.claimed or condition.confirmed_at is not None):
        fault = _limited(fault, condition.as_reported)
    elif condition.claimed and not arrival.claimed and unspecific_key is None:
        uncounted = {other: replace(one, count=0, hours={}) for other, one in condition.reporters.items()}
        claimed = replace(condition, message=fault.message, count=0, reporters=uncounted)
        return _as_reported(rated(_repeat(claimed, key, fault, arrival), catalog))
    added = _repeat(condition, key, fault, arrival, unspecific_key)
    before, after = condition.reporters.get(key), added.reporters[key]
    return added if before is not None and _rates_as(before, after) else rated(added, catalog)


def _as_reported(condition: Condition) -> Condition:
    reported = condition.as_reported
    return replace(condition, severity=reported.severity, action=reported.action)


def _limited(fault: Fault, condition: Condition) -> Fault:
    severity = min(fault.severity or condition.severity, condition.severity, key=lambda one: one.rank)
    action = min(fault.action or condition.action, condition.action, key=lambda one: one.rank)
    return replace(fault, severity=severity, action=action, count=0)


def _rates_as(before: Reporter, after: Reporter) -> bool:
    """Return whether a later report of a reporter changes nothing in the rating of its condition."""
    is_rated_as = before.severity == after.severity and before.action == after.action
    is_same = before.active == after.active and before.claimed == after.claimed
    return is_rated_as and is_same and before.unspecific_key == after.unspecific_key


def _is_overdue(condition: Condition, catalog: Catalog, arrival: Arrival) -> bool:
    mode = catalog.modes.get(condition.mode)
    lasted = (arrival.at - condition.since).total_seconds()
    return mode is not None and mode.max_age is not None and lasted >= mode.max_age


def absorb_unspecific(specific: Condition, unspecific: Condition, unspecific_key: str, catalog: Catalog) -> Condition:
    """Merge an unspecific condition, with its reporters, into the specific one that explains it."""
    reporters = {
        key: replace(reporter, unspecific_key=reporter.unspecific_key or unspecific_key)
        for key, reporter in unspecific.reporters.items()
    }
    return merge_conditions(specific, replace(unspecific, reporters=reporters), catalog)


def identified(condition: Condition, key: str, component: Component) -> Condition:
    """Return the condition `key`, whose reports name no device, as one of the device that a report names now."""
    reporters = {
        name: replace(one, unspecific_key=one.unspecific_key or key) for name, one in condition.reporters.items()
    }
    return replace(condition, component=component, reporters=reporters)


def absent_conditions(snapshot: Snapshot, catalog: Catalog, devices: Sequence[Component]) -> set[str]:
    """Return the keys of the conditions that a snapshot checked on these devices and did not find."""

    def key(code: str, component: Component) -> str:
        return condition_key(catalog.row(code).mode, identity(component, devices))

    covered = {key(code, component) for code, components in snapshot.covers.items() for component in components}
    found = [(fault, identity(fault.component, devices)) for fault in snapshot.present]
    return covered - {
        condition_key(row.mode, on) for one, on in found for row in (catalog.row_of(one), catalog.row(one.code))
    }


def absent_reporters(
    snapshot: Snapshot, conditions: Mapping[str, Condition], catalog: Catalog, devices: Sequence[Component]
) -> dict[str, list[str]]:
    """Return, by condition key, the active reporters that a snapshot of their source checked and did not find.

    The snapshot checked the code of such a reporter on its component, and contains no fault of its catalog row there.
    """

    def component(one: Component) -> str:
        return component_key(identity(one, devices))

    asserted = [
        (key, reporter, (one.unspecific_key or key).partition("@")[2])
        for key, condition in conditions.items()
        for reporter, one in condition.reporters.items()
        if one.active and source_of(reporter) == snapshot.source
    ]
    if not asserted:
        return {}
    present = {(catalog.row_of(fault).code, component(fault.component)) for fault in snapshot.present}
    absent: dict[str, list[str]] = {}
    for key, reporter, on in asserted:
        covered = () if (row_of(reporter), on) in present else snapshot.covers.get(code_of(reporter), ())
        if any(component(one) == on for one in covered):
            absent.setdefault(key, []).append(reporter)
    return absent


def is_known(condition: Condition, key: str, fault: Fault, arrival: Arrival) -> bool:
    """Return whether a report of the reporter `key` adds nothing to a condition.

    A report is claimed if its sender did not prove to be the node.

    - While a report that is not claimed is active, a claimed report of the same reporter adds nothing.
    - While a claimed report is active, a report of the same reporter that is not claimed always adds to the condition.
    - Any other report adds nothing if it is older than the reporter's newest report. A report of the same time adds
      nothing if it was counted already, or if `MAX_DIGESTS` reports of this time were counted.
    - The first report of a catalog row adds nothing if its source withdrew the same code later.
    """
    reporter = condition.reporters.get(key)
    if reporter is None:
        report = without_row(key)
        return any(
            not one.active and arrival.at < one.last_at and without_row(other) == report
            for other, one in condition.reporters.items()
        )
    if bool(reporter.claimed) is not arrival.claimed and reporter.active:
        return arrival.claimed
    if arrival.at != reporter.last_at:
        return arrival.at < reporter.last_at
    return len(reporter.digests) == MAX_DIGESTS or digest(fault) in reporter.digests


def note_code(before: Condition, after: Condition, at: datetime) -> Condition:
    """Return a condition that was reported under a further code at `at`, unless eight of an hour are recorded."""
    if after.reporters.keys() == before.reporters.keys() or set(after.reported_codes) <= set(before.reported_codes):
        return after
    recent = tuple(one for one in before.codes_added if abs(at - one) < ADDED_WITHIN)
    return after if len(recent) >= MAX_ADDED_CODES else replace(after, codes_added=(*recent, at))


def changed_parts(before: Condition, after: Condition) -> tuple[str, ...]:
    """Return the parts of a condition to record; a count only at a new power of ten."""
    parts: tuple[str, ...] = () if after.component == before.component else ("component",)
    if len(str(after.count)) > len(str(before.count)):
        parts += ("count",)
    if after.reported != before.reported:
        parts += ("severity",)
    # Runs for each fault: the sources of a condition are compared only if its active reporters changed.
    is_same = _asserting(before) == _asserting(after)
    if not is_same and (after.sources != before.sources or after.claimed != before.claimed):
        parts += ("reporters",)
    if after.codes_added != before.codes_added:
        parts += (ADDED_CODE,)
    return parts


def _asserting(condition: Condition) -> dict[str, bool | None]:
    return {key: one.claimed for key, one in condition.reporters.items() if one.active}


def digest(fault: Fault) -> str:
    """Return a short hash that distinguishes faults observed at the same time."""
    text = "\0".join((fault.source, fault.code, _component_text(fault.component), fault.message, fault.evidence))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@lru_cache(1024)
def _component_text(component: Component) -> str:
    # Cached: this is half the cost of a digest, and an event storm concerns only a few devices.
    return str(component)


def _report(fault: Fault, arrival: Arrival, before: Reporter | None, unspecific_key: str | None = None) -> Reporter:
    """Return a reporter after one more fault; while it is active, its strongest values are kept."""
    before = before or Reporter(False, arrival.at)
    severity, action = fault.severity, fault.action
    if before.active and bool(before.claimed) is arrival.claimed:
        if before.severity is not None and (severity is None or before.severity.rank > severity.rank):
            severity = before.severity
        if before.action is not None and (action is None or before.action.rank > action.rank):
            action = before.action
    digests = before.digests if before.last_at == arrival.at else ()
    return Reporter(
        True,
        arrival.at,
        (*digests, digest(fault))[-MAX_DIGESTS:],
        unspecific_key,
        arrival.claimed or None,
        severity,
        action,
        before.count + fault.count,
        counted_at(before.hours, arrival.at, fault.count) if fault.count else before.hours,
    )
