"""Fleet log: what happened to the nodes of a simulated fleet; the measures are computed from it.

Times are seconds since the start of the scenario.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple


class Outage(NamedTuple):
    """A change of a node: it went out of service, or it returned to service (`up` is True).

    `needless` is True if the node's host had no fault at that time.
    """

    at: float
    node: int
    up: bool
    needless: bool


@dataclass(slots=True)
class FleetLog:
    """The outages of nodes, the numbers of actions and pages, and the hours that cases waited, by reason."""

    outages: list[Outage] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    waited: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    _down: set[int] = field(default_factory=set)

    def update(self, node: int, at: float, *, serving: bool, faulty: bool) -> None:
        """Record that a node went out of service or returned; an unchanged node adds no outage.

        `faulty` states whether the node's host has a fault.
        """
        if serving is (node not in self._down):
            return
        if serving:
            self._down.discard(node)
        else:
            self._down.add(node)
            self.counts["evictions"] += 1
            self.counts["needless_evictions"] += not faulty
        self.outages.append(Outage(at, node, serving, not faulty))
