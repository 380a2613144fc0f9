"""Hosts: the true faults of each simulated host, and the pool of hosts that can replace a host."""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass
from random import Random

from faultbridge.model.enums import RepairAction
from faultbridge.model.values import replace
from tests.lab.fault_process import HostFault
from tests.lab.scenario import Scenario
from tests.lab.trace import DAY

ACTIONS = list(RepairAction)
LONGEST_GAP = 7 * DAY
"""The longest gap of the trace, in seconds, that is used as the time for which a fault stays hidden."""


@dataclass(frozen=True, slots=True)
class Active:
    """A fault that a host has now; `hidden` means that no monitor can detect it.

    `tests` is the number of verifications that ran while the host had the fault.
    """

    fault: HostFault
    hidden: bool = False
    tests: int = 0


class Hosts:
    """The true state of all hosts of a scenario. Times are seconds since the start of the scenario."""

    def __init__(self, scenario: Scenario) -> None:
        """Start with hosts that have no faults; the hosts that back no node form the pool."""
        self.scenario = scenario
        self.active: dict[int, Active] = {}
        self.reappearing: list[tuple[float, int]] = []
        self.vanished: list[tuple[float, int, str]] = []
        self._free = deque(range(scenario.nodes, scenario.hosts))
        self._away: list[tuple[float, int]] = []
        self._gaps = scenario.trace.return_gaps(LONGEST_GAP) or [DAY]
        self._announced: set[HostFault] = set()

    def warn(self, fault: HostFault) -> bool:
        """Let a host show the precursor of a fault, which it has from now on, hidden; returns whether it does."""
        if fault.host in self.active or any(host == fault.host for _, host in self._away):
            return False
        self.active[fault.host] = Active(fault, hidden=True)
        self._announced.add(fault)
        return True

    def begin(self, fault: HostFault, *, serving: bool) -> bool:
        """Start a fault of a host; returns whether a monitor can detect it.

        A fault is hidden if the host runs no work (`serving` is False). A host that already has a fault, or that is
        away for repair, gets no other fault; the result is then False. A fault whose precursor was seen may have been
        repaired before it begins.
        """
        if fault in self._announced:
            known = self.active.get(fault.host)
            return serving and known is not None and known.fault == fault and self.reappear(fault.host)
        if fault.host in self.active or any(host == fault.host for _, host in self._away):
            return False
        self.active[fault.host] = Active(fault, hidden=not serving)
        return serving

    def reappear(self, host: int) -> bool:
        """Make the hidden fault of a host visible; returns False if the host has no hidden fault."""
        known = self.active.get(host)
        if known is None or not known.hidden:
            return False
        self.active[host] = replace(known, hidden=False)
        return True

    def is_down(self, host: int) -> bool:
        """Return whether the host has a visible fault, which makes it unusable."""
        known = self.active.get(host)
        return known is not None and not known.hidden

    def cure_of(self, fault: HostFault) -> RepairAction:
        """Return the least disruptive repair action that fixes a fault."""
        if fault.repair > self.scenario.physics.soft_repair:
            return RepairAction.REPLACE_NODE
        return RepairAction.RESET_GPU if fault.kind.startswith("GPU") else RepairAction.REBOOT_NODE

    def restarted(self, host: int, action: RepairAction, at: float) -> None:
        """Apply a finished reset or reboot to a host.

        The host's fault ends if `action` is the repair action that `cure_of` returns, or a stronger one. Otherwise, a
        visible fault becomes hidden, and visible again after some time. A hidden fault stays hidden.
        """
        known = self.active.get(host)
        if known is None:
            return
        if not known.hidden:
            heapq.heappush(self.vanished, (at, host, known.fault.kind))
        if ACTIONS.index(action) >= ACTIONS.index(self.cure_of(known.fault)):
            del self.active[host]
        elif not known.hidden:
            self.active[host] = replace(known, hidden=True)
            self.hide(host, at)

    def hide(self, host: int, at: float) -> None:
        """Schedule the time at which the hidden fault of a host becomes visible."""
        heapq.heappush(self.reappearing, (at + self._draw(host).choice(self._gaps), host))

    def cured(self, host: int) -> None:
        """End the fault of a host that an operator repaired."""
        self.active.pop(host, None)

    def passes(self, host: int) -> bool:
        """Run one verification of a host; returns whether it passes.

        A host without a fault passes, and a host with a visible fault fails. A hidden fault is detected at random, with
        the probability `Physics.detection`; if it is not detected, the host passes.
        """
        known = self.active.get(host)
        if known is None:
            return True
        self.active[host] = replace(known, tests=known.tests + 1)
        return known.hidden and self._draw(host).random() >= self.scenario.physics.detection

    def release(self, host: int, at: float) -> None:
        """Take a host out of the fleet for repair. The host joins the pool when the repair ends.

        The repair takes the repair time of the host's fault, but at least `Physics.inspection`. A host without a fault
        is only inspected.
        """
        known = self.active.pop(host, None)
        away = known.fault.repair if known else 0.0
        heapq.heappush(self._away, (at + max(away, self.scenario.physics.inspection), host))

    def free(self, at: float) -> int:
        """Return the number of hosts in the pool at a time."""
        while self._away and self._away[0][0] <= at:
            self._free.append(heapq.heappop(self._away)[1])
        return len(self._free)

    def take(self, at: float) -> int | None:
        """Remove the host that joined the pool first, and return its number; None if the pool is empty.

        A fault may have started on the host while it was in the pool. This fault has ended if its repair time has
        passed since it started. Otherwise the host still has the fault, which becomes visible later.
        """
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
        """Return the seconds that an operator needs to repair a host, at least `Physics.operator`."""
        known = self.active.get(host)
        left = known.fault.start + known.fault.repair - at if known else 0.0
        return max(left, self.scenario.physics.operator)

    def _draw(self, host: int) -> Random:
        known = self.active[host]
        key = f"{self.scenario.seed}-{host}-{known.fault.start:.0f}-{known.tests}"
        return Random(key)
