"""A provider that repairs its own machines (a fake of what HyperPod does), and the inventory that finds out.

It notices a broken machine after a while and replaces it, or never does; Faultbridge only follows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from faultbridge.errors import Transient
from faultbridge.registry.instances import Synced
from faultbridge.simulation.chaos import Crash
from faultbridge.simulation.fakes import FakeFleet
from faultbridge.simulation.journal import Journal, Kind
from faultbridge.simulation.schedule import Schedule

SOONEST, LATEST = 30.0, 5400.0
"""Seconds from the trouble to the replacement; later than `follow_deadline` a person was told meanwhile."""


@dataclass(slots=True)
class OwnRepair:
    """Replaces machines of one group; `taken` are those that it gave up, `look` lets the product's inventory look."""

    group: str
    fleet: FakeFleet
    schedule: Schedule
    journal: Journal
    taken: set[str]
    look: Callable[[], tuple[Synced, ...]]
    _known: tuple[object, ...] = ()
    _noticed: set[str] = field(default_factory=set)

    def notices(self, instance: str, amount: float) -> None:
        """Hear of a broken machine; one in four is left as it is."""
        if instance in self._noticed:
            return
        self._noticed.add(instance)
        if amount < 0.75:  # noqa: PLR2004 - the rest is left to people
            seconds = SOONEST + amount * (LATEST - SOONEST)
            self.schedule.after(seconds, "provider", lambda: self._replace(instance))

    def sync(self) -> None:
        """Let the inventory look if the group is not as it was when a look last found nothing new."""
        now = tuple(one.instance_id for one in self.fleet.running(self.group))
        if now == self._known:
            return
        try:
            found = self.look()
        except (Crash, Transient):
            return  # the next look finds it
        if all(one.quiet for one in found):
            self._known = now

    def _replace(self, instance: str) -> None:
        if self.fleet.instances[instance].alive:
            self.journal.note(Kind.ACT, f"the provider replaces {instance}")
            self.taken.add(instance)
            self.fleet.terminate(instance)
