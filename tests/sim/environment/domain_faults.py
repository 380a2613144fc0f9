"""Faults of a whole failure domain: the nodes of one rack or switch lose their links together.

Some of these faults only appear to be shared: each node has a fault of its own. A fault lasts from 10 minutes to 4
hours and 10 minutes. In this time, more nodes of the domain may lose their links.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from faultbridge.serve.ingest.send import RawInput
from tests.sim.environment.action_plan import ExternalAction
from tests.sim.environment.agents import AgentActions
from tests.sim.environment.cloud_actions import HOUR, pick
from tests.sim.environment.samples import kernel_line, link_state
from tests.sim.fakes.fleet import FakeInstance
from tests.sim.invariants.lost_links import LostLinks
from tests.sim.simulated_system import REPAIRED

SWITCH = "switch-1"
"""The network switch, a failure domain of all nodes of the `REPAIRED` cluster."""

MAX_HOURS = 4
REPEATS = 30
"""Maximum repetitions of a record that was not accepted: enough for each instance to report its links in the end."""


class DomainFaultActions(AgentActions):
    """Causes faults of failure domains in the `REPAIRED` cluster."""

    def _links_lost(self, action: ExternalAction) -> None:
        """Take down the links of all nodes of one rack, or of all nodes of the cluster.

        Two times in three, half of these nodes lose their links 1 to 11 minutes after the other half.
        """
        domain, instances = self._of_domain(action)
        late = len(instances) // 2 if action.selector % 3 else 0
        first, later = instances[: len(instances) - late], instances[len(instances) - late :]
        self._log(f"{len(instances)} nodes lose their links, {late} of them later")
        self._take_down(domain, first, action)
        self.system.schedule.after(60 + 600 * action.fraction, "agent", lambda: self._take_down(domain, later, action))

    def _links_lost_during_repair(self, action: ExternalAction) -> None:
        """Break a GPU of one node; 1 to 21 minutes later, take down the links of its rack or cluster.

        The links may therefore fail while the node is under repair.
        """
        domain, instances = self._of_domain(action)
        if instances:
            self._break_gpu(pick(instances, action.selector), action)
        seconds = 60 + 1200 * action.fraction
        self.system.schedule.after(seconds, "agent", lambda: self._take_down(domain, instances, action))

    def _many_own_faults(self, action: ExternalAction) -> None:
        """Break a GPU and take down the links on several nodes of a failure domain.

        The faults have no shared cause, so each of these nodes needs a repair.
        """
        domain, instances = self._of_domain(action)
        failing = instances[: 3 + action.selector % 3]
        for instance in failing:
            self._break_gpu(instance, action)
        self._take_down(domain, failing, action, shared=False)

    def _of_domain(self, action: ExternalAction) -> tuple[str, list[FakeInstance]]:
        """Return a failure domain and its running instances.

        Three times in four, the domain is a rack. In the other cases, and if there are no racks, it is the switch that
        connects all nodes of the cluster.
        """
        if action.selector % 4 == 0 or not self.system.racks:
            return SWITCH, self._running()
        rack = pick(list(self.system.racks), action.selector)
        names = self.system.racks[rack]
        return rack, [one for one in self._running() if self.system.node_names.get(one.instance_id) in names]

    def _break_gpu(self, instance: FakeInstance, action: ExternalAction, xid: int = 79, repeats: int = REPEATS) -> None:
        self.system.health.mark_bad(instance.instance_id)
        self._log(f"{instance.instance_id} loses a GPU")
        body = kernel_line(xid, action.selector, self.system.clock.now())
        self._send_until_accepted(self._input(instance, "kernel-log", body), 0.0, repeats)

    def _take_down(
        self, domain: str, instances: Sequence[FakeInstance], action: ExternalAction, *, shared: bool = True
    ) -> None:
        """Report that the links of instances are down, and 10 to 250 minutes later that they are up.

        `shared` states whether one cause interrupts all these links. If it is True, verifications in the domain fail
        while the fault affects enough nodes, even those of healthy new instances. If it is False, the fault does not
        change the results of verifications.
        """
        seconds = 600 + action.fraction * MAX_HOURS * HOUR
        start = self.system.clock.now()
        names = self.system.racks.get(domain) or {self._node_name(one) for one in self._running()}
        nodes, checks = len(names), self.system.checks.domain_faults
        domains = {**self.system.racks, domain: names}
        checks.members |= {one: frozenset(f"{REPAIRED}/{name}" for name in inner) for one, inner in domains.items()}
        checks.lost += [
            LostLinks(domain, nodes, f"{REPAIRED}/{self._node_name(one)}", one.instance_id, start,
                      start + timedelta(seconds=seconds), shared)
            for one in instances
        ]  # fmt: skip
        # The catalog requires a reboot for a missing interface, and a verification for an interface without a link.
        self._report_links(instances, up=False, absent=action.selector // 12 % 3 == 0)
        self.system.schedule.after(seconds, "agent", lambda: self._report_links(instances, up=True))

    def _report_links(self, instances: Sequence[FakeInstance], *, up: bool, absent: bool = False) -> None:
        for instance in instances:
            if self.system.fleet.is_alive(instance.instance_id):
                links = "up" if up else "absent" if absent else "down"
                self._log(f"{instance.instance_id} reports its links as {links}")
                raw_input = self._input(instance, "link-state", link_state(up=up, absent=absent))
                self._send_until_accepted(raw_input, 0.0, REPEATS)

    def _input(self, instance: FakeInstance, source: str, body: bytes) -> RawInput:
        return RawInput(source, REPAIRED, body, self._node_name(instance), instance.instance_id)
