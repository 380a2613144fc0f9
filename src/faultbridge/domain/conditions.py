"""Conditions: a canonical code on a canonical component, active while a reporter asserts it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from faultbridge.domain.catalog import Scope
from faultbridge.domain.faults import Action, Component, ComponentType, Severity

HOURS_KEPT = 24
_HOUR = len("2026-02-03T12")


@dataclass(frozen=True, slots=True)
class Reporter:
    """What one source last said about one condition.

    `last_at` is its watermark: an older observation changes nothing. `digests` are those of the observations made
    at exactly `last_at` (at most 8), so that a repetition of one of them changes nothing either. `word` is the key
    under which it spoke, where that was a word without a code or a device.
    """

    active: bool
    last_at: datetime
    digests: tuple[str, ...] = ()
    word: str | None = None


@dataclass(frozen=True, slots=True)
class Condition:
    """Something that is wrong with a node; `count` is a lower bound of how often it was observed.

    `severity` and `action` are those that hold, after the policy had its say; `reported_severity` and `reported_action` those
    of the catalog and the source, which the policy judges anew each time. `ended_before` is when the same trouble
    last ended: what was observed up to then belongs to its former life. `hours` counts its observations by the hour in
    which they were made, for the last day.
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

    @property
    def as_reported(self) -> Condition:
        """Return the condition as it was before any policy."""
        severity, action = self.reported_severity or self.severity, self.reported_action or self.action
        if (severity, action) == (self.severity, self.action):
            return self
        return replace(self, severity=severity, action=action)

    @property
    def active(self) -> bool:
        """Tell whether any reporter still asserts it."""
        return any(reporter.active for reporter in self.reporters.values())

    @property
    def sources(self) -> frozenset[str]:
        """Return who asserts it."""
        return frozenset(source for source, reporter in self.reporters.items() if reporter.active)

    def counted_within(self, hours: int) -> int:
        """Return how often it was observed at least, in whole hours of the clock up to its last observation."""
        earliest = hour_of(self.last_at - timedelta(hours=hours - 1))
        return sum(number for hour, number in self.hours.items() if hour >= earliest)


def hour_of(at: datetime) -> str:
    """Name the hour of an instant so that later ones sort behind."""
    return at.isoformat(timespec="hours")[:_HOUR]


def counted_at(hours: Mapping[str, int], at: datetime, count: int) -> dict[str, int]:
    """Count an observation in its hour, and forget with a new hour what is older than a day."""
    hour = hour_of(at)
    if hour in hours:
        return {**hours, hour: hours[hour] + count}
    earliest = hour_of(at - timedelta(hours=HOURS_KEPT - 1))
    return {one: number for one, number in hours.items() if one >= earliest} | {hour: count}


@dataclass(frozen=True, slots=True)
class Tombstone:
    """What is remembered of an ended condition: until when each reporter's observations are already counted."""

    ended_at: datetime
    reporters: Mapping[str, datetime] = field(default_factory=dict)


def identity(component: Component, devices: Iterable[Component]) -> Component:
    """Complete a component's names from the devices known to sit in the node."""
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
    # The serial is no proof: two GPUs of a Grace-Blackwell module share one.
    if component.pci is not None:
        return device.pci == component.pci
    if component.uuid is not None:
        return device.uuid == component.uuid
    return component.index is not None and device.index == component.index


def component_key(component: Component) -> str:
    """Name a component canonically: by PCI address where known, else by UUID, index or name."""
    if component.type is ComponentType.NODE:
        return "node"
    name = "any"
    for kind in ("pci", "uuid", "index", "name", "serial"):
        value = getattr(component, kind)
        if value is not None:
            name = f"{kind}={value}"
            break
    link = "" if component.link is None else f"/link={component.link}"
    return f"{component.type.value}/{name}{link}"


def condition_key(code: str, component: Component) -> str:
    """Name a condition: one canonical code on one canonical component."""
    return f"{code}@{component_key(component)}"


def worst_severity(conditions: Iterable[Condition]) -> Severity | None:
    """Return the worst severity among the conditions, or None where there are none."""
    return max((condition.severity for condition in conditions), key=lambda one: one.rank, default=None)
