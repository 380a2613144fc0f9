"""A provider that repairs its own instances: a fake of HyperPod's automatic repair.

The provider replaces a bad instance after some time, or never. Faultbridge observes these repairs in the `FOLLOWED`
cluster and starts none there.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.sim.fakes import FakeFleet
from tests.sim.journal import Journal, Kind
from tests.sim.schedule import Schedule

MIN_DELAY, MAX_DELAY = 30.0, 5400.0
"""Limits of the seconds from a fault to the replacement. Beyond `follow_deadline`, the case is escalated first."""


@dataclass(slots=True)
class ProviderRepair:
    """Replaces bad instances of one group; the ids of the replaced instances are added to `replaced`."""

    fleet: FakeFleet
    schedule: Schedule
    journal: Journal
    replaced: set[str]
    _detected: set[str] = field(default_factory=set)

    def detect(self, instance: str, fraction: float) -> None:
        """Schedule the replacement of a bad instance; a second call for the same instance has no effect.

        `fraction` is a number from 0 to 1. Below 0.75, it sets the delay: from 30 seconds to 68 minutes. From 0.75 on,
        the instance is never replaced, so that an operator must repair the node.
        """
        if instance in self._detected:
            return
        self._detected.add(instance)
        if fraction < 0.75:
            seconds = MIN_DELAY + fraction * (MAX_DELAY - MIN_DELAY)
            self.schedule.after(seconds, "provider", lambda: self._replace(instance))

    def _replace(self, instance: str) -> None:
        if self.fleet.instances[instance].alive:
            self.journal.add(Kind.ACTION, f"the provider replaces {instance}")
            self.replaced.add(instance)
            self.fleet.terminate(instance)
