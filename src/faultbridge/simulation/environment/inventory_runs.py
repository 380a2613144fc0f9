"""Runs the product's inventory when the instances of watched groups have changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from faultbridge.errors import Transient
from faultbridge.registry.instances import SyncResult
from faultbridge.simulation.fakes import FakeFleet
from faultbridge.simulation.fault_injection import Crash


@dataclass(slots=True)
class InventoryRuns:
    """Runs `sync`, the product's inventory, for the instances of `groups`."""

    fleet: FakeFleet
    sync: Callable[[], tuple[SyncResult, ...]]
    groups: list[str] = field(default_factory=list)
    _synced: tuple[str, ...] = ()

    def run_if_changed(self) -> None:
        """Run the inventory if the instances differ from those of the last run that found nothing new."""
        now = tuple(one.instance_id for group in self.groups for one in self.fleet.running(group))
        if now == self._synced:
            return
        try:
            found = self.sync()
        except (Crash, Transient):
            return  # the next call runs it again
        if all(one.unchanged for one in found):
            self._synced = now
