"""Compares the rates of ports of the same kind within one record.

The caller defines the kind of a port, for example by its model, link type and fabric. A port is slower than its peers
if its rate is below the rate that most ports of its kind have. This is a fault. The rate of a single port proves no
fault, because the switch at its other end can be slower than the card. Units: Gb/s.
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
    """Return a health snapshot with a fault for each port that is slower than its peers.

    The ports of a kind can be compared if there are at least two, and if more than half of them have the same rate. A
    port with a lower rate than this is faulty. The result is None if no ports can be compared.
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
