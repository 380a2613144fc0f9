"""Observations: the decoded content of raw records, before the catalog and the policy apply.

A `Fault` reports that something is wrong. A `Clear` reports that a named fault is over. A `Snapshot` is one complete
health check: everything that the check could read, and the faults that it found. A `CounterSample` holds counters of a
port or device; only the difference from the previous sample can be a fault.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from faultbridge.model.fault_enums import Action, ComponentType, Severity

ELLIPSIS = "\u2026"
"""The last character of a text that a decoder truncated."""

GPU_PARTS = frozenset({ComponentType.GPU, ComponentType.NVLINK})
"""Components whose identifiers are those of a GPU."""


class Component:
    """A component of a node, with the identifiers that the source reported.

    `pci` is `dddd:bb:dd` in lower case; the PCI function is appended only when it is not 0. A component is never
    changed. `unknown_attributes` holds the attributes of a stored component that a later release wrote.
    """

    __slots__ = ("index", "link", "name", "pci", "serial", "type", "unknown_attributes", "uuid")

    def __init__(
        self,
        type: ComponentType,  # noqa: A002 - the name in events
        pci: str | None = None,
        uuid: str | None = None,
        index: int | None = None,
        serial: str | None = None,
        link: int | None = None,
        name: str | None = None,
        unknown_attributes: Mapping[str, object] | None = None,
    ) -> None:
        self.type, self.pci, self.uuid, self.index = type, pci, uuid, index
        self.serial, self.link, self.name, self.unknown_attributes = serial, link, name, unknown_attributes

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Component:
        """Return the component that the data of an entry or the attribute of an item describes."""
        known = {name: data.get(name) for name in IDENTIFIERS}
        unknown_attributes = {name: value for name, value in data.items() if name not in known and name != "type"}
        return cls(ComponentType(data["type"]), **known, unknown_attributes=unknown_attributes or None)

    def document(self) -> dict[str, object]:
        """Return the type and the identifiers by name; an unknown identifier is None."""
        return {"type": self.type.value, **{name: getattr(self, name) for name in IDENTIFIERS}}

    def _key(self) -> tuple[object, ...]:
        return self.type, self.pci, self.uuid, self.index, self.serial, self.link, self.name

    def __eq__(self, other: object) -> bool:
        if self is other:  # the usual case: a decoder names a device once
            return True
        return self._key() == other._key() if isinstance(other, Component) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        known = (f"{name}={value!r}" for name, value in self.document().items() if value is not None)
        return f"Component({', '.join(known)})"

    def __replace__(self, **changes: Any) -> Component:  # noqa: ANN401 - the values of the attributes
        return Component(**{name: getattr(self, name) for name in self.__slots__} | changes)


IDENTIFIERS = ("pci", "uuid", "index", "serial", "link", "name")
"""The attributes of a component that identify it."""
NODE_COMPONENT = Component(ComponentType.NODE)


@dataclass(frozen=True, slots=True)
class Fault:
    """One observation that something is wrong.

    A decoder sets `severity` and `action` only if the source states them for this fault. `Catalog.classify` sets the
    missing values. `observed_at` is None if the input contains no time.
    """

    source: str
    code: str
    component: Component
    message: str
    observed_at: datetime | None = None
    evidence: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)
    severity: Severity | None = None
    action: Action | None = None
    node: str | None = None
    count: int = 1

    @property
    def is_truncated(self) -> bool:
        """Return whether a decoder cut the evidence to the size that an event can carry."""
        return self.evidence.endswith(ELLIPSIS)

    def classified(self, severity: Severity, action: Action) -> Fault:
        """Return the fault with this severity and action. A value that its source stated is kept."""
        # Runs for every fault; dataclasses.replace takes five times as long as the constructor.
        return Fault(
            self.source,
            self.code,
            self.component,
            self.message,
            self.observed_at,
            self.evidence,
            self.attributes,
            self.severity or severity,
            self.action or action,
            self.node,
            self.count,
        )


@dataclass(frozen=True, slots=True)
class Clear:
    """One observation that a named fault is over, such as a resolved alert."""

    source: str
    code: str
    component: Component
    message: str
    observed_at: datetime | None = None
    evidence: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)
    node: str | None = None


@dataclass(frozen=True, slots=True)
class EfaRates:
    """The link rates of a node's EFA devices, and the expected rate by EC2 instance type, in Gb/s."""

    reported: Mapping[Component, int]
    expected: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One complete health check of a node by one source.

    - `covers` maps each fault code that the check can detect to the components that the check could read. The snapshot
      clears faults with this code only on these components. A lost component is not read, and stays faulty.
    - `present` holds the faults that the check found. `devices` are all devices of the node, or empty if not known.
    - `part` names the check if a source reports several checks. Each check has its own latest snapshot.
    - `efa_rates` are compared with the expected rates later, when the instance type of the node is known.
    """

    source: str
    covers: Mapping[str, tuple[Component, ...]]
    present: tuple[Fault, ...] = ()
    observed_at: datetime | None = None
    node: str | None = None
    devices: tuple[Component, ...] = ()
    part: str = ""
    efa_rates: EfaRates | None = None

    @property
    def reporter_key(self) -> str:
        """Return the key under which the time of the last snapshot is stored.

        The key is the source, followed by the name of the check (`part`) if the source reports several checks.
        """
        return f"{self.source}#{self.part}" if self.part else self.source


@dataclass(frozen=True, slots=True)
class CounterSample:
    """Counters and states of one port or device at one time.

    Only the difference between two samples can be a fault.
    """

    source: str
    component: Component
    values: Mapping[str, int | str]
    observed_at: datetime | None = None
    node: str | None = None


Observation = Fault | Clear | Snapshot | CounterSample


def faults_of(observation: Observation) -> tuple[Fault, ...]:
    """Return the faults in an observation: a fault itself, the faults of a health snapshot, else none."""
    if isinstance(observation, Snapshot):
        return observation.present
    return (observation,) if isinstance(observation, Fault) else ()


def normalize_pci(text: str) -> str:
    """Return a PCI address as `dddd:bb:dd[.f]`; raises ValueError for any other text.

    Accepts `53:00.0`, `0000:53:00`, `00000000:53:00.0`, `PCI:0000:53:00`; the domain has at least four digits.
    """
    *domains, bus, rest = text.strip().lower().removeprefix("pci:").split(":")
    (domain,) = domains or ("0",)
    device, _, function = rest.partition(".")
    numbers = [int(part, 16) for part in (domain, bus, device, function or "0")]
    address = f"{numbers[0]:04x}:{numbers[1]:02x}:{numbers[2]:02x}"
    return f"{address}.{numbers[3]:x}" if numbers[3] else address
