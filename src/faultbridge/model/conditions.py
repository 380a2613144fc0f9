"""Conditions: active faults of a node, one per failure mode and component, and their reporters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from functools import lru_cache

from msgspec import field

from faultbridge.model.catalog import Scope, WorkEffect
from faultbridge.model.fault_enums import Action, ComponentType, Family, Severity
from faultbridge.model.faults import Component
from faultbridge.model.stored import Stored
from faultbridge.model.values import replace

HOURS_KEPT = 24
REMEMBERED = 512
"""The cache size of `_shortest_quiet`. The catalog has fewer different values of `ends_on`."""

_HOUR = len("2026-02-03T12")
_DEVICE = re.compile(r"([a-z]+)/(pci|uuid|index)=(.+?)(?:/link=([0-9]+))?", re.DOTALL)


class Reporter(Stored, frozen=True):
    """The latest report of one source about one condition, under one fault code and one catalog row.

    A condition stores its reporters by `reporter_key`.

    - `active` is True while the source asserts the condition under this code and row.
    - `last_at` is the time of the latest observation. An observation from before that time changes nothing.
    - `digests` identify up to 8 observations made exactly at `last_at`, so that their duplicates change nothing either.
    - `unspecific_key` is set if the report named no specific code or no device, and was counted for this condition
      (`pipeline.fold.attribution`). It is the condition key of the report itself.
    - `claimed` is True if the sender of the report did not prove to be the node: an operator listed the sender, or the
      sender is a webhook. Otherwise it is None, which is not stored.
    - `severity` and `action` are those of the source or of the catalog row, the strongest of its reports.
    - `count` is the number of its observations of the condition. `hours` counts those of the last day by hour.
    """

    active: bool
    last_at: datetime
    digests: tuple[str, ...] = ()
    unspecific_key: str | None = None
    claimed: bool | None = None
    severity: Severity | None = None
    action: Action | None = None
    count: int = 0
    hours: Mapping[str, int] = field(default_factory=dict)


def reporter_key(source: str, row: str) -> str:
    """Return the key of a reporter: `<source> <code of the catalog row>`, such as `kernel-log xid.74:finding`.

    The code of a row is the fault code, or begins with the fault code and a colon.
    """
    return f"{source} {row}"


def source_of(reporter: str) -> str:
    """Return the source in the key of a reporter."""
    return reporter.partition(" ")[0]


def row_of(reporter: str) -> str:
    """Return the code of the catalog row in the key of a reporter."""
    return reporter.partition(" ")[2]


def code_of(reporter: str) -> str:
    """Return the fault code in the key of a reporter, as the source reported it."""
    return row_of(reporter).partition(":")[0]


def without_row(reporter: str) -> str:
    """Return the key of a reporter with its fault code as the row, so that it names only a source and a code."""
    return reporter_key(source_of(reporter), code_of(reporter))


class Condition(Stored, frozen=True):
    """One failure that is active on a node: a failure mode on a component.

    - `code` is the fault code of the first report. The others are those of the reporters (`codes`).
    - `count` is the largest number of observations of one source under one code. It can be too low, because counts that
      were not yet stored are lost if a worker stops (`fold.write_filter`).
    - `reported_severity` and `reported_action` are the strongest values of the active reporters (`fold.rating`).
      `severity` and `action` are the values after the policy changed them.
    - `scope`, `ends_on` and `family` are those of the failure mode, unless a catalog row has its own.
    - `ended_before` is when the previous condition with this key ended. Observations up to that time are ignored.
    - `known_incarnation` is False until an observation is certain to be about the current instance and boot.
    - `event_id` is the id of the entry that recorded the detection.
    - `because_of` is the key of the active condition that explains this one (`decide/explained.py`).
    - `rule` is the first policy rule that changed its severity or action, or None.
    - `codes_added` are the times of the last eight updates that recorded a further code.
    - `confirmed_at` is when a failed verification confirmed the condition, which only claims reported until then.
    - `claimed_until` is when the condition ends if only claims report it and nothing confirmed it.
    - `work` is what the condition does to the work on the node now, and `work_changes_at` is when time changes that
      (`decide/work.py`).
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
    event_id: str | None = None
    family: Family | None = None
    confirmed_at: datetime | None = None
    claimed_until: datetime | None = None
    work: WorkEffect | None = None
    work_changes_at: datetime | None = None
    codes_added: tuple[datetime, ...] = ()
    because_of: str | None = None
    rule: str | None = None
    mode: str = ""

    @property
    def key(self) -> str:
        """Return the key of the condition in the state of its node."""
        return condition_key(self.mode, self.component)

    @property
    def codes(self) -> frozenset[str]:
        """Return the fault codes under which reporters assert the condition now."""
        return frozenset([code_of(key) for key, reporter in self.reporters.items() if reporter.active])

    @property
    def reported_codes(self) -> tuple[str, ...]:
        """Return all fault codes so far under which sources reported the condition, sorted."""
        reported = {code_of(key) for key, one in self.reporters.items() if one.active or one.severity is not None}
        return tuple(sorted(reported)) or (self.code,)

    @property
    def as_reported(self) -> Condition:
        """Return the condition with the severity and action that it had before the policy applied."""
        severity, action = self.reported
        if (severity, action) == (self.severity, self.action):
            return self
        return replace(self, severity=severity, action=action)

    @property
    def reported(self) -> tuple[Severity, Action]:
        """Return the severity and action that the condition had before the policy applied."""
        return self.reported_severity or self.severity, self.reported_action or self.action

    @property
    def active(self) -> bool:
        """Return whether at least one reporter asserts the condition."""
        for reporter in self.reporters.values():  # noqa: SIM110 - read very often; a generator doubles the time
            if reporter.active:
                return True
        return False

    @property
    def claimed(self) -> bool:
        """Return whether each reporter that asserts the condition is claimed: no sender proved to be the node."""
        return all([one.claimed for one in self.reporters.values() if one.active])  # noqa: C419 - as `active`

    @property
    def sources(self) -> frozenset[str]:
        """Return the sources that assert the condition."""
        return frozenset([source_of(key) for key, reporter in self.reporters.items() if reporter.active])

    @property
    def quiet_for(self) -> timedelta | None:
        """Return the period without observations that ends the condition; None if it does not end by time."""
        return _shortest_quiet(self.ends_on)

    @property
    def quiet_until(self) -> datetime | None:
        """Return when the condition ends unless it is observed again; None if it does not end by time."""
        quiet = self.quiet_for
        return None if quiet is None else self.last_at + quiet

    def counted_within(self, hours: int) -> int:
        """Count one source's observations under one code, the most, in the last of these hours and those before it.

        The last hour is that of the last observation.
        """
        earliest = hour_of(self.last_at - timedelta(hours=hours - 1))
        counts: dict[str, int] = {}
        for key, reporter in self.reporters.items():
            seen = sum(count for hour, count in reporter.hours.items() if hour >= earliest)
            counts[without_row(key)] = counts.get(without_row(key), 0) + seen
        return max(counts.values(), default=0)


@lru_cache(REMEMBERED)
def _shortest_quiet(ends_on: tuple[str, ...]) -> timedelta | None:
    seconds = [int(end.removeprefix("quiet:")) for end in ends_on if end.startswith("quiet:")]
    return timedelta(seconds=min(seconds)) if seconds else None


def hour_of(at: datetime) -> str:
    """Return the hour of a time as text that sorts by time: `2026-02-03T12`."""
    return at.isoformat(timespec="hours")[:_HOUR]


def counted_at(hours: Mapping[str, int], at: datetime, count: int) -> dict[str, int]:
    """Return the hourly counters of a reporter after `count` observations are added to the hour of `at`.

    The first observation in an hour removes all counters except those of the last 24 hours.
    """
    hour = hour_of(at)
    if hour in hours:
        return {**hours, hour: hours[hour] + count}
    earliest = hour_of(at - timedelta(hours=HOURS_KEPT - 1))
    return {recent: number for recent, number in hours.items() if recent >= earliest} | {hour: count}


class Tombstone(Stored, frozen=True):
    """What is kept of an ended condition: its end, and the last observation time of each source and fault code.

    It prevents a late report from opening the condition again. The keys of `reporters` are those of `reporter_key`,
    with the fault code as the row. `instance` is the number of the node's instance at the end; 0 is not known.
    """

    ended_at: datetime
    reporters: Mapping[str, datetime] = field(default_factory=dict)
    instance: int = 0


def last_end(active: Iterable[Condition], tombstones: Iterable[Tombstone]) -> datetime | None:
    """Return the latest end of a condition of a node, or None if no ended condition came back.

    An active condition with a fault family came back if it has an earlier end (`ended_before`). The result is the
    latest of these ends and of all ends in `tombstones`.
    """
    again = [one.ended_before for one in active if one.family is not None and one.ended_before is not None]
    return max((*again, *(one.ended_at for one in tombstones))) if again else None


def identity(component: Component, devices: Iterable[Component]) -> Component:
    """Return a component with the identifiers of its device in the device list, unchanged if it is not listed."""
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


def is_another(component: Component, other: Component, devices: Iterable[Component]) -> bool:
    """Return whether two components of one type are certainly different devices of a node.

    `devices` is the device list of the node, which can add identifiers to both components.
    """
    devices = tuple(devices)
    one, two = identity(component, devices), identity(other, devices)
    known = ((getattr(one, name), getattr(two, name)) for name in ("pci", "uuid", "index", "name"))
    pair = next(((mine, theirs) for mine, theirs in known if mine is not None and theirs is not None), None)
    return one.type is two.type and pair is not None and pair[0] != pair[1]


def component_key(component: Component) -> str:
    """Return the canonical name of a component, such as `gpu/pci=0000:53:00`; `node` for the node itself.

    The name contains the first known identifier of PCI address, UUID, index, name and serial number, or else `any`. The
    number of the link is appended if the component has one.
    """
    if component.type is ComponentType.NODE:
        return "node"
    name = "any"
    for identifier in ("pci", "uuid", "index", "name", "serial"):
        value = getattr(component, identifier)
        if value is not None:
            name = f"{identifier}={value}"
            break
    link = "" if component.link is None else f"/link={component.link}"
    return f"{component.type}/{name}{link}"


def parse_component(key: str) -> Component | None:
    """Return the component of a canonical name such as `gpu/pci=0000:53:00`.

    Returns None without a PCI address, UUID or index. Raises ValueError for an unknown component type.
    """
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


def condition_key(mode: str, component: Component) -> str:
    """Return the key of a condition (an active failure): `<failure mode>@<canonical component>`."""
    return f"{mode}@{component_key(component)}"


def worst_severity(conditions: Iterable[Condition]) -> Severity | None:
    """Return the worst severity among these conditions, or None if there is no condition."""
    return max((condition.severity for condition in conditions), key=lambda severity: severity.rank, default=None)
