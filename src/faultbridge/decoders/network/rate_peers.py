"""Compares the rates of ports of the same kind within one record.

Two ports are of the same kind if they have the same model, link type and fabric. A port is slower than its peers if its
rate is below the rate that most ports of its kind have. A rate alone proves no fault, because a switch can be slower
than a card. Units: Gb/s.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable

from faultbridge.dataclass import dataclass
from faultbridge.domain.faults import Component, Fault, Snapshot

SLOWER = "net.rate_below_peers"


@dataclass(frozen=True, slots=True)
class PortRate:
    """The rate in Gb/s of a port whose link is up. Only ports with an equal `kind` are compared."""

    component: Component
    kind: Hashable
    rate: int


def compare_rates(source: str, rates: Iterable[PortRate]) -> Snapshot | None:
    """Return a health snapshot of the ports whose rates can be compared, or None if none can.

    Ports can be compared if more than half of the ports of their kind have the same rate.
    """
    kinds: defaultdict[Hashable, dict[Component, int]] = defaultdict(dict)
    for one in rates:
        kinds[one.kind][one.component] = one.rate
    covered: list[Component] = []
    present: list[Fault] = []
    for ports in kinds.values():
        usual, count = Counter(ports.values()).most_common(1)[0]
        if len(ports) > 1 and 2 * count > len(ports):
            covered += ports
            present += (_slower(source, port, rate, usual) for port, rate in ports.items() if rate < usual)
    return Snapshot(source, {SLOWER: tuple(covered)}, tuple(present)) if covered else None


def _slower(source: str, port: Component, rate: int, usual: int) -> Fault:
    text = f"{port.name} has a rate of {rate} Gb/s; most ports of its kind have {usual} Gb/s."
    return Fault(source, SLOWER, port, text, None, text, {"rate": str(rate), "rate_of_peers": str(usual)})
