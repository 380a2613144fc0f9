"""Actions of node agents and other sources: they send records to Faultbridge."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta

from faultbridge.decide.normalize.trust import AWS_SOURCES, EVENT_BUS
from faultbridge.model.errors import Rejected
from faultbridge.model.storage.wire.decode_message import decode_message
from faultbridge.model.storage.wire.message import encode_message
from faultbridge.model.values import replace
from faultbridge.serve.ingest.send import RawInput
from tests.sim.environment.action_plan import ExternalAction
from tests.sim.environment.cloud_actions import CloudActions, pick
from tests.sim.environment.samples import HARDWARE_FAULTS, SAMPLES, heartbeat, impaired_instance_status
from tests.sim.fakes.fleet import FakeInstance, host_name
from tests.sim.fault_injection import Crash
from tests.sim.node_clocks import TrueTime
from tests.sim.simulated_system import FOLLOWED, GROUPS, REPAIRED, WATCHED, SimulatedSystem
from tests.sim.workers import COLLECTOR, NODE_ROLE

TICK = timedelta(milliseconds=1)
TRUE_ALARM_SHARE = 0.8
"""The share of reported hardware faults that make the instance bad. The other reports are false alarms."""

YEAR = 365 * 86400.0
_CLOCK_SKEWS = (*[0.0] * 8, 30.0, 30.0, -90.0, -90.0, 1800.0, -7200.0, 12 * YEAR, -6 * YEAR)


class SourceActions(CloudActions):
    """Sends records of node agents and of EC2 in a simulated system, some of them repeatedly or late."""

    def __init__(self, system: SimulatedSystem) -> None:
        super().__init__(system)
        self.sent: list[tuple[str, str, datetime]] = []

    def _report(self, action: ExternalAction) -> None:
        """Send a record from a running instance.

        Four times in five, a record of a hardware fault also makes the instance bad, so that it fails its verification.
        """
        repaired = [*self.system.fleet.running(GROUPS[REPAIRED])]
        watched = [*self.system.fleet.running(GROUPS[WATCHED])]
        followed = [*self.system.fleet.running(GROUPS[FOLLOWED])]
        instance = pick([*repaired, *repaired, *watched, *followed], action.selector)
        if action.subject in HARDWARE_FAULTS and action.fraction < TRUE_ALARM_SHARE:
            self.system.health.mark_bad(instance.instance_id)
            if self.system.provider_repair is not None and instance in followed:
                self.system.provider_repair.detect(instance.instance_id, action.fraction / TRUE_ALARM_SHARE)
        self._send(instance, action)

    def _orchestrator_failure(self, action: ExternalAction) -> None:
        """Make the next one to four calls to the orchestrator fail.

        Two times in five, the orchestrator also becomes unreachable for 5 to 65 minutes, and EC2 reports the host of
        one instance as impaired.
        """
        super()._orchestrator_failure(action)
        if action.fraction > 0.6:
            minutes = 5 + 150 * (action.fraction - 0.6)
            self._log(f"the scheduler is unreachable for {minutes:.0f} minutes")
            self.system.ports.orchestrator.unreachable_until = self.system.clock.now() + timedelta(minutes=minutes)
            if running := [*self.system.fleet.running(GROUPS[REPAIRED])]:
                self._fail_host(pick(running, action.selector))

    def _fail_host(self, instance: FakeInstance) -> None:
        self.system.health.mark_bad(instance.instance_id)
        self.system.checks.dead_instances.add(instance.instance_id)
        name = self._node_name(instance)
        self._log(f"EC2 reports the host of {instance.instance_id} ({name}) as impaired")
        body = impaired_instance_status(instance.instance_id)
        self._send_until_accepted(
            RawInput("ec2-status", REPAIRED, body, node=name, instance_id=instance.instance_id), 0.0, 3
        )

    def _node_name(self, instance: FakeInstance) -> str:
        return self.system.node_names.get(instance.instance_id, f"{host_name(instance.instance_id)}.internal")

    def _repeated_report(self, action: ExternalAction) -> None:
        """Send the same kind of record two to five times from one instance, always as a false alarm."""
        for _ in range(2 + action.selector % 4):
            self._report(replace(action, fraction=1.0))

    def _late_report(self, action: ExternalAction) -> None:
        terminated = [one for one in self.system.fleet.instances.values() if not one.alive]
        if terminated:
            self._send(pick(terminated, action.selector), action)

    def _send(self, instance: FakeInstance, action: ExternalAction) -> None:
        cluster = next(cluster for cluster, group in GROUPS.items() if group == instance.group)
        if cluster == WATCHED:
            # The replay check orders the records of this cluster by time: no two of them may share a millisecond.
            self.system.pass_time(TICK)
        name = self._node_name(instance)
        known = instance.instance_id if action.selector % 3 else None
        now = self.system.clock.now()
        source, _, make = SAMPLES[action.subject]
        offset = self.system.clocks.offset(instance.instance_id) if cluster == REPAIRED else None
        skew = clock_skew(action) if offset is None else offset
        at = now + timedelta(seconds=skew - action.selector % 5) if action.selector % 2 else None
        self._log(f"{instance.instance_id} ({name}) reports: {action.subject}")
        reports_boot = cluster == REPAIRED and action.selector % 5 == 0
        boot = self.system.health.boot_id(instance.instance_id) if reports_boot else None
        raw_input = RawInput(source, cluster, make(action.selector // 7, at), name, known, boot)
        if offset is None:
            self._send_until_accepted(raw_input, skew, 3)
            return
        # The agent of an instance with a clock of its own sends heartbeats, too, so that its clock is known.
        self._send_until_accepted(self._heartbeat_of(instance, 0, skew), skew, 0)
        jumped = instance.instance_id in self.system.clocks.jumps
        true_time = None if jumped else TrueTime(now, skew, instance.instance_id)
        self._send_until_accepted(raw_input, skew, 3, true_time)

    def _heartbeat_of(self, instance: FakeInstance, number: int, skew: float) -> RawInput:
        name, boot = instance.instance_id, self.system.health.boot_id(instance.instance_id)
        body = heartbeat(number, self.system.clock.now() + timedelta(seconds=skew))
        return RawInput("heartbeat", REPAIRED, body, self._node_name(instance), name, boot)

    def _send_until_accepted(
        self,
        raw_input: RawInput,
        skew: float,
        tries: int,
        true_time: TrueTime | None = None,
        sender: str | None = None,
    ) -> None:
        """Send a record; while it is not accepted, send it again every 20 seconds, at most `tries` times.

        `sender` is the sender that the queue stores; None for the instance of the node itself. `skew` is the error of
        the sender's clock, in seconds. An invariant compares the recorded times with
        `true_time`. If it is None, the invariant does not check this record.
        """
        before = len(self.system.ports.queue.messages)
        try:
            accepted = bool(self.system.workers.send(raw_input, skew, sender or self._proof_of(raw_input)))
        except (Crash, Exception):  # noqa: BLE001 - an agent without an answer sends the record again
            accepted = False
        messages = self.system.ports.queue.messages
        self.sent += [(message.group, message.body, message.sent_at) for message in messages[before:]]
        for message in messages[before:] if self.system.clocks.wrong else ():
            # Actions that ran during a slow call have noted the times of their records, and may have queued anything.
            with suppress(Rejected):
                self.system.clocks.observed.setdefault(decode_message(message.body).record_id, true_time)
        self.system.queue.poll_soon()
        if not accepted and tries:
            self.system.schedule.after(
                20,
                "agent",
                lambda: self._send_until_accepted(raw_input, skew, tries - 1, true_time, sender),
            )

    def _proof_of(self, raw_input: RawInput) -> str:
        """Return the sender that the queue stores: EventBridge, the instance of the node, or a listed collector."""
        if raw_input.source in AWS_SOURCES:
            return EVENT_BUS
        names = self.system.node_names.items()
        alive = (one for one, name in names if name == raw_input.node and self.system.fleet.is_alive(one))
        instance = raw_input.instance_id or next(alive, None)
        return COLLECTOR if instance is None else f"{NODE_ROLE}:{instance}"

    def _unregistered_report(self, action: ExternalAction) -> None:
        name = f"new-{action.selector % 3}"
        self._log(f"unregistered node {name} reports: {action.subject}")
        source, _, make = SAMPLES[action.subject]
        self._send_until_accepted(RawInput(source, REPAIRED, make(0, None), node=name), 0.0, 2)

    def _malformed_message(self, action: ExternalAction) -> None:
        text = ('{"v": 1', '{"v": 9}', "", '{"v": 1, "record_id": "x", "source": "kernel-log", "body": 3}')[
            action.selector % 4
        ]
        self._log(f"a malformed message arrives: {text!r}")
        self._queue_message("train/noise", text)

    def _redrive(self, action: ExternalAction) -> None:
        if self.sent:
            self._log("an old record is redriven")
            group, text, at = self.sent[action.selector % len(self.sent)]
            try:
                message = decode_message(text)
            except Rejected:
                return
            # The redrive keeps the first time of receipt; without it a fast clock would make the record newer.
            self._queue_message(group, encode_message(replace(message, received_at=message.received_at or at)))

    def _queue_message(self, group: str, text: str) -> None:
        self.system.ports.queue.send([(group, text)])
        self.system.queue.poll_soon()


def clock_skew(action: ExternalAction) -> float:
    """Return the error of a sender's clock in an action, in seconds; negative if the clock is behind.

    About half of the clocks are right. Some are wrong by years.
    """
    return _CLOCK_SKEWS[action.selector // 5 % len(_CLOCK_SKEWS)]
