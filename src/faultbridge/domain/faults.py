"""Observations: what a decoder makes of raw text, before anybody judges it.

Four kinds: a `Fault` says something is wrong, a `Clear` that a named thing is right again, a `Snapshot` what one
full look could read and what of that was wrong, a `CounterSample` counters that mean something only beside the last ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class Severity(StrEnum):
    """How bad a fault is for the node, mildest first: noted, watch, repair when drained, unusable now."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    FATAL = "fatal"

    @property
    def rank(self) -> int:
        """Return 0 for the mildest, rising with harm."""
        return _SEVERITY_RANK[self]


_SEVERITY_RANK = {severity: rank for rank, severity in enumerate(Severity)}


class Action(StrEnum):
    """What helps against a fault, weakest first."""

    NONE = "none"
    RESTART_APP = "restart_app"
    RUN_DIAGNOSTICS = "run_diagnostics"
    RESET_GPU = "reset_gpu"
    REBOOT_NODE = "reboot_node"
    REPLACE_NODE = "replace_node"
    CONTACT_SUPPORT = "contact_support"

    @property
    def rank(self) -> int:
        """Return 0 for the weakest, rising with how much it takes from the job."""
        return _ACTION_RANK[self]

    @property
    def opens_case(self) -> bool:
        """Tell whether the action concerns the node: restarting an application does not."""
        return self.rank >= _ACTION_RANK[Action.RUN_DIAGNOSTICS]


_ACTION_RANK = {action: rank for rank, action in enumerate(Action)}


class ComponentType(StrEnum):
    """What part of a node a fault is about."""

    GPU = "gpu"
    NVSWITCH = "nvswitch"
    NVLINK = "nvlink"
    NIC = "nic"
    NODE = "node"
    DISK = "disk"
    MEMORY = "memory"
    CPU = "cpu"
    JOB = "job"


@dataclass(frozen=True, slots=True)
class Component:
    """A part of a node, by whichever of its names the source knew.

    `pci` is `dddd:bb:dd` in lower case, the function appended only when it is not 0.
    """

    type: ComponentType
    pci: str | None = None
    uuid: str | None = None
    index: int | None = None
    serial: str | None = None
    link: int | None = None
    name: str | None = None


NODE_COMPONENT = Component(ComponentType.NODE)


@dataclass(frozen=True, slots=True)
class Fault:
    """One observation that something is wrong.

    A decoder leaves `severity` and `action` empty unless the source itself states them for this very event;
    `classify` fills what is empty from the catalog. `observed_at` is None where the input carries no time.
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

    def classified(self, severity: Severity, action: Action) -> Fault:
        """Fill in what the source left open."""
        # Every fault passes here; replace() takes five times as long as the plain constructor.
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
    """One observation that a named fault is over (a recovery action back to none, an alert resolved)."""

    source: str
    code: str
    component: Component
    message: str
    observed_at: datetime | None = None
    evidence: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)
    node: str | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One full look by one source at a node.

    `covers` maps each code that the source is authoritative for to the components on which it could be read:
    a component whose field said N/A, or that was absent or lost, is not listed, and so clears nothing.
    `present` are the faults that this look did see. `part` names the one of several checks that looked, where a
    source lets each of them speak for itself: what one of them says last is no news of another.
    """

    source: str
    covers: Mapping[str, tuple[Component, ...]]
    present: tuple[Fault, ...] = ()
    observed_at: datetime | None = None
    node: str | None = None
    devices: tuple[Component, ...] = ()
    part: str = ""

    @property
    def looker(self) -> str:
        """Name who looked, for whom the time of the last look is kept."""
        return f"{self.source}#{self.part}" if self.part else self.source


@dataclass(frozen=True, slots=True)
class CounterSample:
    """Counters and states of one port or device; only a difference to the reading before can be a fault."""

    source: str
    component: Component
    values: Mapping[str, int | str]
    observed_at: datetime | None = None
    node: str | None = None


Observation = Fault | Clear | Snapshot | CounterSample


def faults_of(observation: Observation) -> tuple[Fault, ...]:
    """Return the faults that an observation asserts: itself, or those that a health snapshot saw."""
    if isinstance(observation, Snapshot):
        return observation.present
    return (observation,) if isinstance(observation, Fault) else ()


def normalize_pci(text: str) -> str:
    """Turn any spelling of a PCI address into `dddd:bb:dd[.f]`; raises ValueError on anything else.

    Accepts `53:00.0`, `0000:53:00`, `00000000:53:00.0`, `PCI:0000:53:00`; the domain keeps at least four digits.
    """
    *domains, bus, rest = text.strip().lower().removeprefix("pci:").split(":")
    (domain,) = domains or ("0",)
    device, _, function = rest.partition(".")
    numbers = [int(part, 16) for part in (domain, bus, device, function or "0")]
    address = f"{numbers[0]:04x}:{numbers[1]:02x}:{numbers[2]:02x}"
    return f"{address}.{numbers[3]:x}" if numbers[3] else address
