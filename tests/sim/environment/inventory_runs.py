"""Runs the inventory sync of the simulated system, and skips a sync that would change nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from faultbridge.model.errors import Transient
from faultbridge.repair.registry.groups import SyncResult
from tests.sim.fakes import FakeFleet
from tests.sim.fault_injection import Crash


@dataclass(slots=True)
class InventoryRuns:
    """Runs the inventory sync (`sync`), unless it would change nothing.

    - A sync is skipped if its inputs equal those of the last sync that changed nothing.
    - The inputs are the running instances of `groups` and the values that `reported` returns, such as whether an update
      of the group runs.
    - `was_read` is called after a sync that read every source without an error, if the inputs did not change during the
      sync.
    """

    fleet: FakeFleet
    sync: Callable[[], tuple[SyncResult, ...]]
    reported: Callable[[], tuple[object, ...]]
    was_read: Callable[[], None]
    groups: list[str] = field(default_factory=list)
    _synced: tuple[object, ...] | None = None

    def run_if_changed(self) -> None:
        """Run a sync, unless its inputs equal those of the last sync that changed nothing.

        Without `groups`, no sync runs. After a sync that crashed or raised `Transient`, the next call runs the sync
        again.
        """
        if not self.groups:
            return
        now = self._now()
        if now == self._synced:
            return
        try:
            found = self.sync()
        except (Crash, Transient):
            return  # the next call runs it again
        if now == self._now() and not any(one.source_errors for one in found):
            self.was_read()
        if all(one.unchanged for one in found):
            self._synced = now

    def _now(self) -> tuple[object, ...]:
        running = tuple(one.instance_id for group in self.groups for one in self.fleet.running(group))
        return running, *self.reported()
