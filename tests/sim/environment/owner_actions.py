"""Actions of the group's owner: updates of all instances, and the provider's own repairs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from faultbridge.model.nodes import NodeState
from faultbridge.serve.ingest.send import RawInput
from tests.sim.environment.action_plan import ExternalAction
from tests.sim.environment.cloud_actions import HOUR, pick
from tests.sim.environment.growth import GrowthActions
from tests.sim.environment.samples import instance_shutdown
from tests.sim.invariants.view import SystemView
from tests.sim.simulated_system import GROUPS, REPAIRED

BOOT_SECONDS = 300.0
"""Duration of a reboot, and the time for which an old instance runs beside its successor."""

SHUTDOWN_SECONDS = 100.0
"""How long an instance is still a member of its group after EC2 reported its shutdown."""

OVERDUE = 7 * HOUR
"""Extra time of one update in eight. Such an update takes longer than the six hours for which repairs wait."""


class OwnerActions(GrowthActions):
    """Carries out the owner's updates of the group, and the provider's own repairs (`rival` in names).

    An update is an EC2 instance refresh, an EKS update that launches new instances first, or a HyperPod update in
    place.
    """

    def _group_update(self, action: ExternalAction) -> None:
        owner, now = self.system.owner, self.system.clock.now()
        if owner.is_updating:
            return
        ways: Mapping[str, Callable[[str], None]] = {
            "an instance refresh": self._leave,
            "an update of the node group": self._launch_first,
            "an update of the software": self._update_in_place,
        }
        name = pick(list(ways), action.selector)
        instances = [one.instance_id for one in self.system.fleet.running(GROUPS[REPAIRED])]
        self._log(f"{name} of {len(instances)} instances begins")
        owner.begin_update(name, now, now if action.selector % 2 else None)
        pause = 120 + 900 * action.fraction
        for number, instance in enumerate(instances, 1):
            self._later(number * pause, partial(ways[name], instance))
        self._later(
            (len(instances) + 1) * pause + BOOT_SECONDS + (OVERDUE if action.selector % 8 == 0 else 0), self._end_update
        )
        self.system.sweeps.within_a_minute()

    def _end_update(self) -> None:
        self._log("the update of the group ends")
        self.system.owner.end_update(self.system.clock.now())

    def _leave(self, instance: str) -> None:
        """Report the shutdown of an instance and terminate it, so that the group launches a successor."""
        if self.system.fleet.is_alive(instance):
            self._report_shutdown(instance)
            self._later(SHUTDOWN_SECONDS, lambda: self.system.fleet.terminate(instance))

    def _launch_first(self, instance: str) -> None:
        """Launch a new instance; about seven minutes later, terminate the old instance."""
        if self.system.fleet.is_alive(instance):
            launched = self.system.fleet.launch(GROUPS[REPAIRED])
            self.system.node_names[launched] = self.system.ports.repaired_inventory.host_name(launched)
            self._log(f"{launched} is launched instead of {instance}")
            self._later(BOOT_SECONDS, lambda: self._remove(instance))

    def _remove(self, instance: str) -> None:
        if self.system.fleet.is_alive(instance):
            self._report_shutdown(instance)
            self._later(SHUTDOWN_SECONDS, lambda: self.system.fleet.remove(instance))

    def _report_shutdown(self, instance: str) -> None:
        self._log(f"{instance} leaves the group")
        self.system.externally_terminated.add(instance)
        body = instance_shutdown(instance, self.system.clock.now())
        self._send_until_accepted(RawInput("ec2-event", REPAIRED, body, instance_id=instance), 0.0, 3)

    def _update_in_place(self, instance: str) -> None:
        """Take an instance out of service for a reboot, as a HyperPod update (`SystemUpdating`) does."""
        if self.system.fleet.is_alive(instance):
            self._log(f"{instance} is updated and reboots")
            standby = self.system.ports.repaired_inventory.standby
            standby.add(instance)
            self.system.health.reboot(instance, f"updated-{self.system.clock.now():%H%M%S}")
            self._later(BOOT_SECONDS, lambda: standby.discard(instance))

    def _rival_repair(self, action: ExternalAction) -> None:
        """Turn on the provider's own repair for 20 to 140 minutes.

        The provider repairs one node 1 to 16 minutes after the start.
        """
        self._log("the provider's own repair is turned on")
        self.system.ports.repaired_inventory.provider_repairs = True
        self._later(60 + 900 * action.fraction, lambda: self._rival_acts(action))
        self._later(1200 + 2 * HOUR * action.fraction, self._end_rival)
        self.system.sweeps.within_a_minute()

    def _end_rival(self) -> None:
        self._log("the provider's own repair is turned off")
        self.system.ports.repaired_inventory.provider_repairs = False

    def _rival_acts(self, action: ExternalAction) -> None:
        """Replace or reboot an instance, preferably of a node with a live case, as the provider's own repair."""
        found = [state for state in SystemView(self.system).nodes if self._is_running(state)]
        if not found:
            return
        chosen = pick([state for state in found if state.live_case] or found, action.selector)
        instance = str(chosen.incarnation.instance_id)
        if action.selector % 3:
            self._log(f"the provider replaces {instance}")
            self.system.externally_terminated.add(instance)
            self.system.fleet.terminate(instance)
        else:
            self._log(f"the provider reboots {instance}")
            self.system.health.reboot(instance, f"rival-{action.selector}")

    def _is_running(self, state: NodeState) -> bool:
        instance = state.incarnation.instance_id if state.incarnation else None
        return state.key.cluster == REPAIRED and instance is not None and self.system.fleet.is_alive(instance)

    def _later(self, seconds: float, act: Callable[[], None]) -> None:
        """Run an action after some seconds, and then, within a minute, the sweep of the simulated system."""

        def run() -> None:
            act()
            self.system.sweeps.within_a_minute()

        self.system.schedule.after(seconds, "owner", run)
