"""The true health of the simulated instances, which Faultbridge cannot read directly.

Faultbridge observes the true health only through records of sources and results of verifications.
"""

from __future__ import annotations

from collections.abc import Callable, Container

from faultbridge.model.enums import RepairAction
from faultbridge.model.nodes import NodeState
from faultbridge.record.ports.compute import Verdict, Verification
from tests.sim.fakes.instance_commands import PASSED
from tests.sim.simulated_ports import SimulatedPorts

CURES = (RepairAction.REBOOT_NODE, RepairAction.RESET_GPU, RepairAction.REPLACE_NODE)
"""The repair action that fixes a bad instance, by the instance's number modulo three."""

FAILED = Verification(Verdict.FAILED, ("memory: the test of this instance fails",))


class InstanceHealth:
    """Stores which instances are bad, and the boot id of each instance.

    The instances in `bad` fail their verifications. `bad_arrivals` is the number of new instances that will become bad.
    `boots` maps each rebooted instance to the id of its latest boot. `on_restart` is called for each restart.
    """

    def __init__(self, ports: SimulatedPorts) -> None:
        self._ports = ports
        self.bad: set[str] = set()
        self.bad_arrivals = 0
        self.boots: dict[str, str] = {}
        self._arrivals_seen = 0
        self.on_restart: Callable[[str], None] = lambda _instance: None
        ports.restarter.on_restart = self._restarted

    def boot_id(self, instance: str) -> str:
        """Return the id of an instance's current boot."""
        return self.boots.get(instance, f"boot-{instance}")

    def mark_bad(self, instance: str) -> None:
        """Mark an instance as bad, so that its verifications fail."""
        self.bad.add(instance)
        self._ports.verifier.results[instance] = FAILED

    def fix(self, state: NodeState) -> None:
        """Fix the instance of a node, as an operator would, so that its verifications pass."""
        instance = state.incarnation.instance_id if state.incarnation else None
        self.bad.discard(instance or "")
        self._ports.verifier.results.pop(instance or "", None)

    def end_injected_results(self) -> None:
        """Make verifications return the true health of instances, and make no further new instance bad."""
        self.bad_arrivals = 0
        self._ports.verifier.results = {one: FAILED for one in self._ports.verifier.results if one in self.bad}

    def mark_bad_arrivals(self, registered: Container[str]) -> None:
        """Mark up to `bad_arrivals` new instances as bad, and reduce `bad_arrivals` by one for each.

        An instance is new if it did not exist at the previous call. Instances in `registered` have a node name and stay
        good.
        """
        instances = list(self._ports.fleet.instances)
        for instance in instances[self._arrivals_seen :]:
            if self.bad_arrivals and instance not in registered:
                self.bad_arrivals -= 1
                self.mark_bad(instance)
        self._arrivals_seen = len(instances)

    def _restarted(self, repair_action: RepairAction, instance: str) -> None:
        self.on_restart(instance)
        if repair_action is RepairAction.REBOOT_NODE:
            self.boots[instance] = f"boot-{self._ports.restarter.restarted[-1][2]}"
        self._cure(repair_action, instance)

    def reboot(self, instance: str, boot: str) -> None:
        """Reboot an instance without an order of Faultbridge; its boot id becomes `boot`.

        A reboot also fixes a bad instance whose defect a reboot can fix.
        """
        self.boots[instance] = boot
        self._cure(RepairAction.REBOOT_NODE, instance)

    def _cure(self, repair_action: RepairAction, instance: str) -> None:
        number = list(self._ports.fleet.instances).index(instance)
        if instance in self.bad and CURES[number % len(CURES)] is repair_action:
            self.bad.discard(instance)
            self._ports.verifier.results[instance] = PASSED
