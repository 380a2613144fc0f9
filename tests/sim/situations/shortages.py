"""Actions about capacity that does not come back, and about launches whose result is lost."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

from faultbridge.model.enums import ProviderFailure
from tests.sim.environment.action_plan import ExternalAction
from tests.sim.environment.cloud_actions import HOUR, pick
from tests.sim.environment.domain_faults import DomainFaultActions
from tests.sim.invariants.view import SystemView
from tests.sim.laws.facts import instance_of
from tests.sim.simulated_system import REPAIRED

REPEATS_OF_A_LOG_SERVICE = 360
"""Repetitions of a report every 20 seconds for two hours: a port is unreachable for at most 61 minutes."""


class ShortageActions(DomainFaultActions):
    """Carries out shortages and lost launches in the `REPAIRED` cluster."""

    def _hours_pass(self, action: ExternalAction) -> None:
        hours = 1 + action.selector % 8
        self._log(f"{hours} hours pass")
        self.system.pass_time(timedelta(hours=hours))

    def _lasting_shortage(self, action: ExternalAction) -> None:
        """Take away all capacity until the end of the run; half of the time, a reservation shows this.

        Two nodes need a successor, and ten minutes later a third one a reset.
        """
        reserved = bool(action.selector % 2)
        self._log(f"there is no capacity any more{', as a reservation shows' if reserved else ''}")
        self.system.ports.provider.reserved = reserved
        self.system.fleet.set_capacity(0)
        self.system.lasting_shortage = True
        running = self._running()
        for number, xid in enumerate((79, 79, 48)[: len(running)]):
            self._break_gpu(pick(running, action.selector + number), action, xid)
            self.system.pass_time(timedelta(minutes=5))
        self.system.pass_time(timedelta(hours=5))

    def _break_nodes(self, action: ExternalAction) -> None:
        """Break GPUs of one to three nodes."""
        running = self._running()
        for number in range(min(1 + action.selector % 3, len(running))):
            self._break_gpu(pick(running, action.selector + number), action)

    def _scale_in(self, action: ExternalAction) -> None:
        """Terminate an instance without a successor: the group becomes smaller."""
        running = self._running()
        if len(running) > 1:
            instance = pick(running, action.selector).instance_id
            self._log(f"the group shrinks by {instance}")
            self.system.externally_terminated.add(instance)
            self.system.fleet.remove(instance)

    def _launch_lost(self, action: ExternalAction) -> None:
        """Terminate an instance in service, and lose the answer, the listing and the execution of its successor.

        Without an inventory and heartbeats, only its last report states that the instance failed. So its log service
        repeats the report for longer than the queue is unreachable.
        """
        nodes = (one for one in SystemView(self.system).nodes if one.key.cluster == REPAIRED)
        found = [one for one in map(instance_of, nodes) if one is not None and self.system.fleet.is_alive(one)]
        if not found or not self.system.by_template:
            return
        instance = pick(found, action.selector)
        self._log(f"another tool terminates {instance}; the launch of its successor gets no answer")
        self.system.externally_terminated.add(instance)
        instances = self.system.fleet.instances
        self._break_gpu(instances[instance], action, repeats=REPEATS_OF_A_LOG_SERVICE)
        self.system.fleet.terminate(instance)
        launcher = self.system.ports.launcher
        launcher.failures.clear()
        launcher.fail_next(ProviderFailure.AMBIGUOUS, effect=True)
        launcher.hidden_until = self.system.clock.now() + timedelta(seconds=0.2 * HOUR + action.fraction * HOUR)
        self._lose_execution(len(launcher.launch_calls), 60)

    def _lose_execution(self, calls: int, tries: int) -> None:
        """Abort the executions shortly after the next launch, at most `tries` half minutes from now."""
        workflow = self.system.ports.workflow
        busy = any(workflow.executions[name].busy for name in workflow.running())
        if len(self.system.ports.launcher.launch_calls) > calls and not busy:
            for name in workflow.running():
                self._log(f"execution {name[-8:]} is lost")
                workflow.abort(name)
        elif tries:
            self.system.schedule.after(30, "cloud", lambda: self._lose_execution(calls, tries - 1))

    def _bad_image(self, action: ExternalAction) -> None:
        """Break GPUs of most nodes, and make every new instance bad, as a bad image does."""
        running = self._running()
        self._log("from now on, every new instance is bad")
        self.system.health.bad_arrivals = 1000
        for instance in running[: max(4, len(running) * 2 // 3)]:
            self._break_gpu(instance, action)

    def _links_lost_for_long(self, action: ExternalAction) -> None:
        """Take down the links of the cluster for hours, rack by rack."""
        racks = [*self.system.racks] or [""]
        for number, rack in enumerate(racks):
            seconds = number * 1500 * (action.selector % 3) / 2
            instances = [one for one in self._running() if self._node_name(one) in self.system.racks.get(rack, ())]
            take_down = partial(self._take_down, "switch-1", instances, action)
            self.system.schedule.after(seconds, "agent", take_down)
