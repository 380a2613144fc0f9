"""Fleet log: what happened to the nodes of a simulated fleet, for its measures. Times are seconds since the start."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple


class Outage(NamedTuple):
    """A change of one node: out of service, or back. `needless`: its host had no fault when it was taken out."""

    at: float
    node: int
    up: bool
    needless: bool


@dataclass(slots=True)
class FleetLog:
    """The outages of nodes, the counts of actions and pages, and the hours that cases waited, by reason."""

    outages: list[Outage] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    waited: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    _down: set[int] = field(default_factory=set)

    def update(self, node: int, at: float, *, serving: bool, faulty: bool) -> None:
        """Record whether a node serves now; a node that is already recorded so is not recorded again."""
        if serving is (node not in self._down):
            return
        if serving:
            self._down.discard(node)
        else:
            self._down.add(node)
            self.counts["evictions"] += 1
            self.counts["needless_evictions"] += not faulty
        self.outages.append(Outage(at, node, serving, not faulty))
