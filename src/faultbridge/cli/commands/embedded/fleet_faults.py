"""The faults that `faultbridge fleet break` injects into nodes of the embedded stack.

Each fault defines what the node reports, and whether the diagnostics of its instance fail.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

# The link is listed as configured: an unused link may be down, and that is no fault.
_LINK = (
    '{"interfaces": [{"ifname": "ib0", "flags": ["BROADCAST", "UP"%s], "operstate": "%s", "link_type": "infiniband"}],'
    ' "configured": ["ib0"]}'
)
LINK_UP = _LINK % (', "LOWER_UP"', "UP")
"""A health snapshot of the links of a node in which no link is down."""


class FleetFault(StrEnum):
    """The names of the faults that can be injected into nodes of the embedded stack."""

    GPU_LOST = "gpu-lost"
    GPU_MEMORY = "gpu-memory"
    LINK_DOWN = "link-down"


@dataclass(frozen=True, slots=True)
class Injection:
    """One injected fault: the record that reports it, and whether the diagnostics of the instance fail.

    Diagnostics that fail pass again after a replacement of the instance or after `faultbridge fleet heal`. If `until`
    is `reset`, they also pass again after a GPU reset.
    """

    source: str
    record: str
    fails_diagnostics: bool = True
    until: str | None = None


INJECTIONS: Mapping[FleetFault, Injection] = {
    FleetFault.GPU_LOST: Injection(
        "kernel-log", "NVRM: Xid (PCI:0000:c1:00): 79, pid=1234, name=python, GPU has fallen off the bus.\n"
    ),
    FleetFault.GPU_MEMORY: Injection(
        "kernel-log",
        "NVRM: Xid (PCI:0000:c1:00): 48, pid=1234, name=python, An uncorrectable double bit error (DBE) has been"
        " detected on GPU.\n",
        until="reset",
    ),
    FleetFault.LINK_DOWN: Injection("link-state", _LINK % ("", "DOWN"), fails_diagnostics=False),
}
