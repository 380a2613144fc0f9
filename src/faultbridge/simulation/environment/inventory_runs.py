"""Runs the product's inventory when the instances of watched groups or the number of nodes have changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from faultbridge.errors import Transient
from faultbridge.registry.instances import SyncResult
from faultbridge.simulation.fakes import FakeFleet
from faultbridge.simulation.fault_injection import Crash


@dataclass(slots=True)
class InventoryRuns:
    """Runs `sync`, the product's inventory, for the instances of `groups`; `expected` counts the nodes in use."""

    fleet: FakeFleet
    sync: Callable[[], tuple[SyncResult, ...]]
    expected: Callable[[], int]
    groups: list[str] = field(default_factory=list)
    _synced: tuple[int, tuple[str, ...]] | None = None

    def run_if_changed(self) -> None:
        """Run the inventory if instances or nodes differ from those of the last run that found nothing new."""
        if not self.groups:
            return
        now = self.expected(), tuple(one.instance_id for group in self.groups for one in self.fleet.running(group))
        if now == self._synced:
            return
        try:
            found = self.sync()
        except (Crash, Transient):
            return  # the next call runs it again
        if all(one.unchanged for one in found):
            self._synced = now
