"""Hosts: what is really wrong with each host, whatever any policy believes, and the pool that replaces hosts."""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass
from random import Random

from faultbridge.domain.cases import RepairAction
from faultbridge.domain.copies import replace
from faultbridge.lab.fault_process import HostFault
from faultbridge.lab.scenario import Scenario
from faultbridge.lab.trace import DAY

ACTIONS = list(RepairAction)
LONGEST_GAP = 7 * DAY
"""Gaps of the trace up to this long are used for faults that a restart only hides."""


@dataclass(frozen=True, slots=True)
class Active:
    """A fault of a host: hidden while no monitor can see it; `tests` counts the verifications that ran on it."""

    fault: HostFault
    hidden: bool = False
    tests: int = 0


class Hosts:
    """The true state of all hosts of a scenario. Times are seconds since its begin."""

    def __init__(self, scenario: Scenario) -> None:
        """Start without faults; the hosts that back no node form the pool of replacements."""
        self.scenario = scenario
        self.active: dict[int, Active] = {}
        self.reappearing: list[tuple[float, int]] = []
        self._free = deque(range(scenario.nodes, scenario.hosts))
        self._away: list[tuple[float, int]] = []
        self._gaps = scenario.trace.return_gaps(LONGEST_GAP) or [DAY]

    def begin(self, fault: HostFault, *, serving: bool) -> bool:
        """Begin a fault; hidden on a host that runs no work. Returns whether a monitor can see it.

        A host that already has a fault, or is under repair outside of the fleet, gets no other one: returns False.
        """
        if fault.host in self.active or any(host == fault.host for _, host in self._away):
            return False
        self.active[fault.host] = Active(fault, hidden=not serving)
        return serving

    def reappear(self, host: int) -> bool:
        """Make a hidden fault visible. Returns False if it was cured in the meantime."""
        known = self.active.get(host)
        if known is None or not known.hidden:
            return False
        self.active[host] = replace(known, hidden=False)
        return True

    def is_down(self, host: int) -> bool:
        """Return whether a visible fault makes the host unusable."""
        known = self.active.get(host)
        return known is not None and not known.hidden

    def cure_of(self, fault: HostFault) -> RepairAction:
        """Return the mildest repair action that cures a fault."""
        if fault.repair > self.scenario.physics.soft_repair:
            return RepairAction.REPLACE_NODE
        return RepairAction.RESET_GPU if fault.kind.startswith("GPU") else RepairAction.REBOOT_NODE

    def restarted(self, host: int, action: RepairAction, at: float) -> None:
        """Apply a finished reset or reboot: it cures the fault, or hides it for a while."""
        known = self.active.get(host)
        if known is None:
            return
        if ACTIONS.index(action) >= ACTIONS.index(self.cure_of(known.fault)):
            del self.active[host]
        elif not known.hidden:
            self.active[host] = replace(known, hidden=True)
            self.hide(host, at)

    def hide(self, host: int, at: float) -> None:
        """Schedule when the hidden fault of a host is seen again."""
        heapq.heappush(self.reappearing, (at + self._draw(host).choice(self._gaps), host))

    def cured(self, host: int) -> None:
        """End the fault of a host that an operator repaired."""
        self.active.pop(host, None)

    def passes(self, host: int) -> bool:
        """Run one verification; returns True if the host has no fault, or by chance if its fault is hidden."""
        known = self.active.get(host)
        if known is None:
            return True
        self.active[host] = replace(known, tests=known.tests + 1)
        return known.hidden and self._draw(host).random() >= self.scenario.physics.detection

    def release(self, host: int, at: float) -> None:
        """Take a host out of the fleet; it joins the pool after the repair time that the trace states for its fault."""
        known = self.active.pop(host, None)
        away = known.fault.repair if known else 0.0
        heapq.heappush(self._away, (at + max(away, self.scenario.physics.inspection), host))

    def free(self, at: float) -> int:
        """Return the number of hosts in the pool."""
        while self._away and self._away[0][0] <= at:
            self._free.append(heapq.heappop(self._away)[1])
        return len(self._free)

    def take(self, at: float) -> int | None:
        """Take the host that waited longest from the pool, maybe one with a hidden fault; None if the pool is empty."""
        if not self.free(at):
            return None
        host = self._free.popleft()
        known = self.active.get(host)
        if known is not None and known.fault.start + known.fault.repair <= at:
            del self.active[host]
        elif known is not None:
            self.hide(host, at)
        return host

    def repair_left(self, host: int, at: float) -> float:
        """Return how long an operator needs to repair a host in place."""
        known = self.active.get(host)
        left = known.fault.start + known.fault.repair - at if known else 0.0
        return max(left, self.scenario.physics.operator)

    def _draw(self, host: int) -> Random:
        known = self.active[host]
        key = f"{self.scenario.seed}-{host}-{known.fault.start:.0f}-{known.tests}"
        return Random(key)  # noqa: S311 - a reproducible draw, not a secret
