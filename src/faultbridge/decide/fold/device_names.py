"""Device names: rename stored keys when a device becomes known by another name.

A GPU can first be known by its index and later by its PCI address. Its conditions, its tombstones (the times of ended
conditions) and its notes are stored under its name. Without a renaming, a repeated record of an ended fault would open
a new condition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from faultbridge.decide.fold.changes import Arrival, Change, ChangeKind
from faultbridge.decide.fold.condition_updates import merge_conditions
from faultbridge.model.conditions import Condition, Tombstone, component_key, condition_key, identity, parse_component
from faultbridge.model.copies import replace
from faultbridge.model.faults import Component


def rename_key(key: str, devices: Iterable[Component]) -> str:
    """Return a condition key with the current name of its device; other keys are returned unchanged."""
    code, separator, name = key.partition("@")
    component = parse_component(name) if separator else None
    return key if component is None else f"{code}@{component_key(identity(component, devices))}"


def rename_tombstones(tombstones: Mapping[str, Tombstone], devices: Iterable[Component]) -> dict[str, Tombstone]:
    """Return tombstones under the current names of their devices; of two, the later times are kept."""
    devices = tuple(devices)
    renamed: dict[str, Tombstone] = {}
    for key, tombstone in tombstones.items():
        new_key = rename_key(key, devices)
        renamed[new_key] = _merge(renamed[new_key], tombstone) if new_key in renamed else tombstone
    return renamed


def rename_notes(noted: Mapping[str, str], devices: Iterable[Component]) -> dict[str, str]:
    """Return the day of each note under the current names of devices; of two, the later day is kept."""
    devices = tuple(devices)
    renamed: dict[str, str] = {}
    for key, day in noted.items():
        new_key = rename_key(key, devices)
        renamed[new_key] = max(day, renamed.get(new_key, day))
    return renamed


def rename_conditions(
    conditions: dict[str, Condition], devices: Iterable[Component], arrival: Arrival
) -> Iterator[Change]:
    """Give conditions the current names of their devices, merge equal ones, and yield the changes."""
    devices = tuple(devices)
    for key in tuple(conditions):
        before = conditions[key]
        condition = rename_reports(before, devices)
        new_key = condition_key(condition.code, condition.component)
        if new_key == key:
            conditions[key] = condition if condition.reporters != before.reporters else before
            continue
        del conditions[key]
        other = conditions.get(new_key)
        merged = conditions[new_key] = condition if other is None else merge_conditions(other, condition)
        yield Change(
            ChangeKind.UPDATED,
            arrival.at,
            merged,
            None,
            arrival.record_id,
            "device identified",
            changed_parts=("component",),
        )


def rename_reports(condition: Condition, devices: Iterable[Component]) -> Condition:
    """Return a condition with the current device name in its component and in its reporters' keys."""
    devices = tuple(devices)
    reporters = {
        source: replace(reporter, unspecific_key=rename_key(reporter.unspecific_key, devices))
        if reporter.unspecific_key
        else reporter
        for source, reporter in condition.reporters.items()
    }
    return replace(condition, component=identity(condition.component, devices), reporters=reporters)


def _merge(first: Tombstone, second: Tombstone) -> Tombstone:
    times = [first.reporters, second.reporters]
    sources = {source for reporters in times for source in reporters}
    return Tombstone(
        ended_at=max(first.ended_at, second.ended_at),
        reporters={source: max(each[source] for each in times if source in each) for source in sorted(sources)},
    )
