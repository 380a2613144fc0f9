"""Actions on the stored state and on orders: restores of the table, late reports, orders during a replacement."""

from __future__ import annotations

from datetime import timedelta

from faultbridge.model.nodes import NodeKey
from faultbridge.serve.ingest.send import RawInput
from tests.sim.environment.action_plan import ExternalAction
from tests.sim.environment.cloud_actions import pick
from tests.sim.environment.domain_faults import DomainFaultActions
from tests.sim.environment.operators import OperatorActions, replace_seen
from tests.sim.environment.samples import kernel_line, normalized_faults
from tests.sim.fakes.fleet import FakeInstance
from tests.sim.simulated_system import REPAIRED

SPOOLED_XID = 62
"""The Xid of a spooled report, which no other action reports."""

PORTS, ROUNDS = 40, 7
"""The number of ports that fail at once, and the maximum number of times that other ports do so."""


class ChangeActions(DomainFaultActions, OperatorActions):
    """Restores the table, sends spooled reports, and gives orders about what an operator saw earlier."""

    def _restore(self, action: ExternalAction) -> None:
        """Restore the table to a time before a repair that took a spare; a run has at most one restore.

        One node breaks after the backup, and another one after the restore.
        """
        running = self._running()
        if self.system.restored or len(running) < 2:
            return
        self._log("a backup of the table is taken")
        backup = self.system.ports.table.backup()
        self._break_gpu(pick(running, action.selector), action)
        self.system.pass_time(timedelta(hours=1 + 2 * action.fraction))
        if self.system.injector.workers or self.system.schedule.nesting:
            return
        self._log("the table is restored from the backup")
        self.system.restore(backup)
        self._break_gpu(pick(running, action.selector + 1), action)
        self.system.pass_time(timedelta(hours=2))

    def _spooled_report(self, action: ExternalAction) -> None:
        """Let a GPU fail while the agent cannot send; before its report arrives, many short faults come and go."""
        rounds = 1 + int(ROUNDS * action.fraction)
        for instance in self._one(action):
            name, at = self._node_name(instance), self.system.clock.now()
            self._log(f"a GPU of {instance.instance_id} fails, and its agent cannot send; {rounds * PORTS} ports flap")
            for number in range(2 * rounds):
                kind = "clear" if number % 2 else "fault"
                body = normalized_faults(PORTS, kind=kind, large=False, first=number // 2 * PORTS)
                self._later_send(30.0 * (number + 1), instance, RawInput("faultbridge", REPAIRED, body, name))
            body = kernel_line(SPOOLED_XID, action.selector, at)
            late = 60.0 * (rounds + 1)
            self._later_send(late, instance, RawInput("kernel-log", REPAIRED, body, name))
        self.system.pass_time(timedelta(minutes=10))

    def _later_send(self, seconds: float, instance: FakeInstance, raw_input: RawInput) -> None:
        def send() -> None:
            if self.system.fleet.is_alive(instance.instance_id):
                self._send_until_accepted(raw_input, 0.0, 3)

        self.system.schedule.after(seconds, "agent", send)

    def _replace_seen(self, action: ExternalAction) -> None:
        """Break a GPU; an operator who saw it orders a replacement up to half an hour later."""
        running = self._running()
        if not running:
            return
        instance = pick(running, action.selector)
        name = self._node_name(instance)
        self._break_gpu(instance, action)
        self.system.schedule.after(
            60 + 1800 * action.fraction, "operator", lambda: self._replace_as_seen(name, instance.instance_id)
        )

    def _replace_as_seen(self, name: str, instance: str) -> None:
        self._log(f"an operator who saw {instance} orders: replace {name}")
        self.system.truth.seen.setdefault(name, set()).add(instance)
        self.run_command(lambda app: replace_seen(app, NodeKey(REPAIRED, name), instance))
