"""Compares the rates of the ports of one kind in one record.

A port is of the kind of another one if it has the same model, link type and fabric. A port below the rate that most
ports of its kind have is slower than its peers. A rate alone proves nothing: a switch can be slower than a card. Units:
Gb/s.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable

from faultbridge.dataclass import dataclass
from faultbridge.domain.faults import Component, Fault, Snapshot

SLOWER = "net.rate_below_peers"


@dataclass(frozen=True, slots=True)
class PortRate:
    """The rate of a port whose link is up, and what it must have in common with the ports it is compared with."""

    component: Component
    kind: Hashable
    rate: int


def compare_rates(source: str, rates: Iterable[PortRate]) -> Snapshot | None:
    """Return a health snapshot of the ports that can be compared; None if no rate is that of most ports of a kind."""
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
