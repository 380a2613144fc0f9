"""Changes of the capacity for successors: few free instances in a reservation, and terminated spares."""

from __future__ import annotations

from faultbridge.model.cluster.state import SpareStatus
from faultbridge.repair.spares.pool import read_spares
from tests.sim.environment.action_plan import ExternalAction
from tests.sim.environment.cloud_actions import CAPACITY_SHORTAGE, CloudActions
from tests.sim.simulated_system import REPAIRED


class CapacityActions(CloudActions):
    """Carries out changes of the capacity that is available for successors of released instances."""

    def _reservation_change(self, action: ExternalAction) -> None:
        """Limit the free instances of a reservation to none, one or two, for up to two hours.

        Afterwards, the number is unlimited, and the reservation may end. A cluster with a launch template has no
        reservation; only the number of its launches is limited.
        """
        left = action.selector % 3
        if self.system.lasting_shortage:
            return
        self._log(f"a reservation has {left} free instances")
        # With a launch template, the successor is launched first, and no reservation is read.
        self.system.ports.provider.reserved = not self.system.by_template
        self.system.fleet.set_capacity(left)
        lasts = CAPACITY_SHORTAGE * action.fraction
        self.system.schedule.after(lasts, "cloud", lambda: self._free_capacity(keep=action.selector % 2 == 0))

    def _free_capacity(self, *, keep: bool) -> None:
        if self.system.lasting_shortage:
            return
        self._log("capacity is free again")
        self.system.fleet.set_capacity(None)
        self.system.ports.provider.reserved &= keep

    def _spares_used_up(self, action: ExternalAction) -> None:
        for spare in read_spares(self.system.ports.table, REPAIRED):
            if spare.status is SpareStatus.READY and spare.instance_id is not None:
                self._log(f"another tool terminates the spare {spare.instance_id}")
                self.system.externally_terminated.add(spare.instance_id)
                self.system.fleet.terminate(spare.instance_id)
        self._reservation_change(action)
