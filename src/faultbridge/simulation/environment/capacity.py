"""Capacity that comes and goes: reservations with and without free instances, and spares that are used up."""

from __future__ import annotations

from faultbridge.domain.cluster.spares import SpareStatus
from faultbridge.repair.spares.pool import read_spares
from faultbridge.simulation.environment.action_plan import ExternalAction
from faultbridge.simulation.environment.cloud_actions import CAPACITY_SHORTAGE, CloudActions
from faultbridge.simulation.simulated_system import REPAIRED


class CapacityActions(CloudActions):
    """Carries out what happens to the capacity for successors."""

    def _reservation_change(self, action: ExternalAction) -> None:
        """Limit the free instances of a reservation to none, one or two, for up to two hours.

        The reservation itself ends then, or stays until the end of the run. With a launch template there is none: only
        the capacity of launches is limited.
        """
        left = action.selector % 3
        self._log(f"a reservation has {left} free instances")
        # A launch template launches its successor first, and asks no reservation.
        self.system.ports.provider.reserved = not self.system.by_template
        self.system.fleet.set_capacity(left)
        lasts = CAPACITY_SHORTAGE * action.fraction
        self.system.schedule.after(lasts, "cloud", lambda: self._free_capacity(keep=action.selector % 2 == 0))

    def _free_capacity(self, *, keep: bool) -> None:
        """Let capacity return; the reservation stays with `keep`."""
        self._log("capacity is free again")
        self.system.fleet.set_capacity(None)
        self.system.ports.provider.reserved &= keep

    def _spares_used_up(self, action: ExternalAction) -> None:
        """Terminate the spares from outside while a reservation has few instances left."""
        for spare in read_spares(self.system.ports.table, REPAIRED):
            if spare.status is SpareStatus.READY and spare.instance_id is not None:
                self._log(f"another tool terminates the spare {spare.instance_id}")
                self.system.externally_terminated.add(spare.instance_id)
                self.system.fleet.terminate(spare.instance_id)
        self._reservation_change(action)
