"""Conditions: active faults of a node, one per canonical code and component, with their reporters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import field
from datetime import datetime, timedelta

from faultbridge.dataclass import dataclass
from faultbridge.domain.catalog import Scope
from faultbridge.domain.copies import replace
from faultbridge.domain.faults import Action, Component, ComponentType, Family, Severity

HOURS_KEPT = 24
_HOUR = len("2026-02-03T12")
_DEVICE = re.compile(r"([a-z]+)/(pci|uuid|index)=(.+?)(?:/link=([0-9]+))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Reporter:
    """The latest report of one source about one condition.

    `last_at` is the watermark: an older observation changes nothing. `digests` identify the observations made exactly
    at `last_at` (at most 8), so that a duplicate of one of them changes nothing either. `unspecific_key` is the key of
    the source's own report when that named no specific code or no device (see `pipeline.fold.attribution`). `claimed`
    is set if a listed sender reported it, which proves nothing about the node; else it is None, which is not stored.
    """

    active: bool
    last_at: datetime
    digests: tuple[str, ...] = ()
    unspecific_key: str | None = None
    claimed: bool | None = None


@dataclass(frozen=True, slots=True)
class Condition:
    """One fault that is active on a node; `count` is a lower bound of its observations.

    `severity` and `action` are in effect after the policy. `reported_severity` and `reported_action` come from the
    catalog and the source; the policy applies to these each time.
    `ended_before` is when the same condition last ended: observations up to then belong to the ended condition.
    `hours` counts the observations of the last day by hour. `known_incarnation` is false while no observation is
    certain to be about the current instance and boot. `event_id` is the id of the entry that recorded its detection.
    """

    code: str
    component: Component
    severity: Severity
    action: Action
    scope: Scope
    ends_on: tuple[str, ...]
    since: datetime
    last_at: datetime
    message: str
    count: int = 1
    known_incarnation: bool = True
    reporters: Mapping[str, Reporter] = field(default_factory=dict)
    attributes: Mapping[str, str] = field(default_factory=dict)
    ended_before: datetime | None = None
    reported_severity: Severity | None = None
    reported_action: Action | None = None
    hours: Mapping[str, int] = field(default_factory=dict)
    event_id: str | None = None
    family: Family | None = None

    @property
    def as_reported(self) -> Condition:
        """Return the condition with its severity and action as they were before the policy applied."""
        severity, action = self.reported_severity or self.severity, self.reported_action or self.action
        if (severity, action) == (self.severity, self.action):
            return self
        return replace(self, severity=severity, action=action)

    @property
    def active(self) -> bool:
        """Return whether at least one reporter asserts the condition."""
        for reporter in self.reporters.values():  # noqa: SIM110 - read very often; a generator doubles the time
            if reporter.active:
                return True
        return False

    @property
    def claimed(self) -> bool:
        """Return whether only claimed reports assert the condition: nothing proves that the node sent any of them."""
        return all(reporter.claimed for reporter in self.reporters.values() if reporter.active)

    @property
    def sources(self) -> frozenset[str]:
        """Return the sources that assert the condition."""
        return frozenset(source for source, reporter in self.reporters.items() if reporter.active)

    def counted_within(self, hours: int) -> int:
        """Count the observations in the clock hour of the last observation and in the `hours - 1` hours before it."""
        earliest = hour_of(self.last_at - timedelta(hours=hours - 1))
        return sum(count for hour, count in self.hours.items() if hour >= earliest)


def hour_of(at: datetime) -> str:
    """Return the hour of an instant as text that sorts by time: `2026-02-03T12`."""
    return at.isoformat(timespec="hours")[:_HOUR]


def counted_at(hours: Mapping[str, int], at: datetime, count: int) -> dict[str, int]:
    """Add observations to the counter of their hour; a new hour drops the counters older than a day."""
    hour = hour_of(at)
    if hour in hours:
        return {**hours, hour: hours[hour] + count}
    earliest = hour_of(at - timedelta(hours=HOURS_KEPT - 1))
    return {recent: number for recent, number in hours.items() if recent >= earliest} | {hour: count}


@dataclass(frozen=True, slots=True)
class Tombstone:
    """The times that are kept of an ended condition: when it ended, and the watermark of each reporter."""

    ended_at: datetime
    reporters: Mapping[str, datetime] = field(default_factory=dict)


def identity(component: Component, devices: Iterable[Component]) -> Component:
    """Add to a component the identifiers that the node's device list has for the same device."""
    for device in devices:
        if device.type == component.type and _same_device(device, component):
            return Component(
                type=component.type,
                pci=device.pci or component.pci,
                uuid=device.uuid or component.uuid,
                index=device.index if device.index is not None else component.index,
                serial=device.serial or component.serial,
                link=component.link,
                name=component.name or device.name,
            )
    return component


def _same_device(device: Component, component: Component) -> bool:
    # A serial number does not identify a device: two GPUs of a Grace-Blackwell module share one.
    if component.pci is not None:
        return device.pci == component.pci
    if component.uuid is not None:
        return device.uuid == component.uuid
    return component.index is not None and device.index == component.index


def component_key(component: Component) -> str:
    """Return the canonical name of a component: by PCI address if known, else UUID, index, name or serial."""
    if component.type is ComponentType.NODE:
        return "node"
    name = "any"
    for identifier in ("pci", "uuid", "index", "name", "serial"):
        value = getattr(component, identifier)
        if value is not None:
            name = f"{identifier}={value}"
            break
    link = "" if component.link is None else f"/link={component.link}"
    return f"{component.type.value}/{name}{link}"


def parse_component(key: str) -> Component | None:
    """Return the component of a canonical name with a PCI address, a UUID or an index; None for any other name."""
    found = _DEVICE.fullmatch(key)
    if found is None:
        return None
    kind, identifier, value, link = found.groups()
    return Component(
        ComponentType(kind),
        pci=value if identifier == "pci" else None,
        uuid=value if identifier == "uuid" else None,
        index=int(value) if identifier == "index" else None,
        link=None if link is None else int(link),
    )


def condition_key(code: str, component: Component) -> str:
    """Return the key of a condition: `<canonical code>@<canonical component>`."""
    return f"{code}@{component_key(component)}"


def worst_severity(conditions: Iterable[Condition]) -> Severity | None:
    """Return the worst severity among the conditions, or None if there is none."""
    return max((condition.severity for condition in conditions), key=lambda severity: severity.rank, default=None)
