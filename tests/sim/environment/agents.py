"""Actions of node agents: heartbeats, reboots, and reports about many nodes or many faults at once."""

from __future__ import annotations

from datetime import timedelta

from faultbridge.serve.ingest.send import RawInput
from tests.sim.environment.action_plan import ExternalAction
from tests.sim.environment.cloud_actions import pick
from tests.sim.environment.samples import alert_group, normalized_faults
from tests.sim.environment.sources import SourceActions, clock_skew
from tests.sim.fakes.fleet import FakeInstance
from tests.sim.simulated_system import GROUPS, REPAIRED

BEAT_SECONDS = 100.0
MAX_BEATS = 20
MAX_CONDITIONS = 130


class AgentActions(SourceActions):
    """Carries out actions of the node agents in `REPAIRED`, the cluster that Faultbridge repairs."""

    def _heartbeats(self, action: ExternalAction) -> None:
        """Start the heartbeats of one running node or of all running nodes.

        Each agent sends 1 to 20 heartbeats within about half an hour, and then stops, so that heartbeats are missing.
        """
        instances = self._one_or_all(action)
        beats = 1 + int(action.fraction * MAX_BEATS)
        self._log(f"{len(instances)} agents start, {beats} heartbeats each")
        for instance in instances:
            self.system.stopped_agents.discard(instance.instance_id)
            offset = self.system.clocks.offset(instance.instance_id)
            self._beat(instance, beats, clock_skew(action) if offset is None else offset)

    def _stop_heartbeats(self, action: ExternalAction) -> None:
        instances = self._one_or_all(action)
        self._log(f"{len(instances)} agents stop")
        self.system.stopped_agents.update(one.instance_id for one in instances)

    def _beat(self, instance: FakeInstance, left: int, skew: float) -> None:
        name, alive = instance.instance_id, self.system.fleet.is_alive(instance.instance_id)
        if not left or not alive or name in self.system.stopped_agents:
            return
        self._send_until_accepted(self._heartbeat_of(instance, MAX_BEATS - left, skew), skew, 0)
        self.system.schedule.after(BEAT_SECONDS, "agent", lambda: self._beat(instance, left - 1, skew))

    def _own_reboot(self, action: ExternalAction) -> None:
        """Reboot an instance without an order of Faultbridge, so that it gets a new boot id."""
        for instance in self._one(action):
            self._log(f"{instance.instance_id} reboots by itself")
            self.system.health.boots[instance.instance_id] = f"own-{action.selector}"

    def _mass_report(self, action: ExternalAction) -> None:
        for instance in self._running():
            self._send(instance, action)

    def _alert_group(self, action: ExternalAction) -> None:
        """Send one Alertmanager notification about all running nodes of the repaired cluster.

        One time in three, the notification also names an unknown node.
        """
        names = [self._node_name(instance) for instance in self._running()]
        names += ["unknown-1"] if action.selector % 3 == 0 else []
        at = self.system.clock.now() + timedelta(seconds=clock_skew(action))
        self._log(f"one notification about {', '.join(names)}")
        body = alert_group(names, at, resolved=action.fraction > 0.7)
        self._send_until_accepted(RawInput("alertmanager", REPAIRED, body), 0.0, 2)

    def _many_conditions(self, action: ExternalAction) -> None:
        number, kind = 1 + int(action.fraction * MAX_CONDITIONS), "fault" if action.selector % 3 else "clear"
        body = normalized_faults(number, kind=kind, large=action.selector % 4 == 1)
        for instance in self._one(action):
            name = self._node_name(instance)
            self._log(f"{name} reports {number} times at once: {kind}")
            self._send_until_accepted(RawInput("faultbridge", REPAIRED, body, node=name), 0.0, 2)

    def _one_or_all(self, action: ExternalAction) -> list[FakeInstance]:
        return self._running() if action.selector % 3 == 0 else self._one(action)

    def _one(self, action: ExternalAction) -> list[FakeInstance]:
        running = self._running()
        return [pick(running, action.selector)] if running else []

    def _running(self) -> list[FakeInstance]:
        return [*self.system.fleet.running(GROUPS[REPAIRED])]
