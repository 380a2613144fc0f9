"""The node agent: a main loop that reads logs and runs probes, and a thread that sends records."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from faultbridge import __version__
from faultbridge.model.times import to_text
from faultbridge.node.agent import host, resource_limits
from faultbridge.node.agent.cursors import CursorFile, ValueLog
from faultbridge.node.agent.delivery.outbox import Outbox, QuarantineNotice, Spool
from faultbridge.node.agent.delivery.records import OutgoingRecord, RecordPacker
from faultbridge.node.agent.delivery.sender import Sender, ServiceClock, Transport, send_until
from faultbridge.node.agent.drop_folder import DropFolder
from faultbridge.node.agent.host import AgentClock
from faultbridge.node.agent.kernel_log import JournalLog, KernelLog
from faultbridge.node.agent.log_follower import Follower
from faultbridge.node.agent.probes import ProbeScheduler, node_probes
from faultbridge.node.agent.rates import DeviceRates, gpus_near, nvlink_rates
from faultbridge.node.agent.settings import AgentSettings
from faultbridge.node.agent.traffic import GpuWatch, TrafficWatch, read_ports
from faultbridge.node.agent.unchanged_output import UnchangedOutput

SOURCE = "heartbeat"
MAX_REFUSAL = 300


POLL_SECONDS = 0.25
"""Seconds between two rounds of the main loop; the kernel ring buffer and the pipes buffer new data."""

SHUTDOWN_SECONDS = 5.0


class MemoryExceeded(Exception):  # noqa: N818 - names the situation
    """The agent uses more memory than allowed; the agent exits, and its supervisor restarts it."""


@dataclass(slots=True)
class Agent:
    """A running agent: its main loop, and the parts that the loop uses."""

    clock: AgentClock
    followers: Sequence[Follower]
    probes: ProbeScheduler
    unchanged: UnchangedOutput
    drop_folder: DropFolder
    outbox: Outbox
    packer: RecordPacker
    services: ServiceClock
    cpu_budget: resource_limits.CpuBudget
    heartbeat_seconds: int
    traffic: TrafficWatch
    gpus: GpuWatch
    rates: DeviceRates
    sysfs: Path
    sender: Sender = field(init=False)
    heartbeats: int = 0
    cpu_seconds: Callable[[], float] = resource_limits.cpu_seconds
    resident_bytes: Callable[[], int] = resource_limits.resident_bytes
    stopping: threading.Event = field(default_factory=threading.Event)
    sender_error: Exception | None = None

    def run(self) -> None:
        """Run until `stopping` is set. Raises MemoryExceeded, or the error that ended the sender thread."""
        thread = threading.Thread(target=self._run_sender, daemon=True, name="sender")
        thread.start()
        try:
            while not self.stopping.is_set():
                self.poll()
                if self.resident_bytes() > resource_limits.MEMORY_BYTES:
                    raise MemoryExceeded(f"resident memory is above the limit of {resource_limits.MEMORY_BYTES} bytes")
                self.clock.sleep(POLL_SECONDS + self.cpu_budget.pause(self.clock.monotonic(), self.cpu_seconds()))
        finally:
            self.stopping.set()
            self.close()
            thread.join(SHUTDOWN_SECONDS)
        if self.sender_error is not None:
            raise self.sender_error

    def poll(self) -> None:
        """Do one round: store new log lines, probe output and files of the drop folder as records.

        Does not wait for a running probe or for the network.
        """
        for follower in self.followers:
            follower.poll()
        reports = list(self.traffic.poll(self.clock.now(), self.clock.monotonic(), self.gpus.behind))
        for source, output in self.probes.poll():
            if source == "dcgm-metrics":
                self.rates.add(self.clock.monotonic(), nvlink_rates(output))
            if source == "nvidia-smi-xml":
                self.rates.near = self.rates.near or gpus_near(self.sysfs, output)
                reports += self.gpus.read(output, self.clock.now(), self.clock.monotonic())
            selected = self.unchanged.select(source, output, self.clock.now(), self.clock.monotonic())
            for at, body, wait, values in selected:
                record = self.packer.pack(source, body, at, wait=wait, values=values)
                if not self.outbox.store_repeatable(record):
                    self.unchanged.forget(source)
        for source, body in reports:
            record = self.packer.pack(source, body, self.clock.now())
            self.outbox.dropped += record is None or not self.outbox.store(record)
        for file, source, body in self.drop_folder.pending():
            record = self.packer.pack(source, body, self.clock.now())
            if record is None or self.outbox.store(record):
                self.outbox.dropped += record is None
                self.drop_folder.remove(file)

    def heartbeat(self) -> OutgoingRecord:
        """Build a heartbeat of the current state, which states the maximum time until the next one.

        `waiting_records` and `waiting_bytes` are current values, without records in quarantine. The other counts of
        records, lines, cursors and files, and `cpu_share`, are since the agent started. `rates` are those of the
        devices in the last five minutes, if a job trained.
        """
        at = self.clock.now()
        self.heartbeats += 1
        body = {
            "heartbeat": self.heartbeats,
            "at": to_text(at),
            "agent": __version__,
            "interval_seconds": self.heartbeat_seconds,
            "node": self.packer.node,
            "instance_id": self.packer.instance_id,
            "boot_id": self.packer.boot_id,
            "uptime_seconds": int(self.clock.monotonic()),
            "waiting_records": self.outbox.waiting,
            "waiting_bytes": self.outbox.waiting_bytes,
            "dropped_records": self.outbox.dropped,
            "quarantined_records": self.outbox.quarantined,
            "refusal": self.outbox.refusal[:MAX_REFUSAL],
            "unstored_cursors": sum(follower.cursors.failures for follower in self.followers),
            "service_clock_offset_seconds": round(self.services.offset.total_seconds()),
            "unreadable_records": self.outbox.spool.unreadable,
            "bad_drops": self.drop_folder.refused,
            "lost_lines": sum(follower.log.lost_lines for follower in self.followers),
            "failing": self.probes.failing(),
            "rates": self.rates.report,
            "memory_bytes": resource_limits.resident_bytes(),
            "cpu_share": round(self.cpu_budget.used_share(self.clock.monotonic(), resource_limits.cpu_seconds()), 5),
        }
        record = self.packer.pack(SOURCE, json.dumps(body).encode(), at)
        if record is None:
            raise ValueError("a heartbeat is larger than the queue accepts")
        return record

    def close(self) -> None:
        """Stop the probe, store the log lines that were read, and close the logs.

        Lines that cannot be stored now are read again at the next start, if the log still contains them.
        """
        self.probes.stop()
        for follower in self.followers:
            follower.flush()
            follower.log.close()

    def run_once(self, seconds: float) -> str | None:
        """Read the logs, run each probe once and send the records, within about `seconds`.

        Returns why a record or the heartbeat could not be sent, or None if no failure remains. If the time is not
        sufficient, some probes do not run and some records stay on disk.
        """
        deadline = self.clock.monotonic() + seconds
        read_until = deadline - seconds + 1
        while self.clock.monotonic() < deadline and (
            self.probes.first_round_pending() or self.clock.monotonic() < read_until
        ):
            self.poll()
            self.clock.sleep(POLL_SECONDS)
        self.close()
        return send_until(deadline, self.sender)

    def _run_sender(self) -> None:
        # A failed sender must end the process: the supervisor restarts the process, not one thread.
        try:
            self.sender.run(self.stopping)
            self.sender.flush()
            self.sender.send_due()
        except Exception as error:  # noqa: BLE001 - raised again by `run` in the main thread
            self.sender_error = error
            self.stopping.set()


def build_agent(settings: AgentSettings, transport: Transport | None = None, clock: AgentClock | None = None) -> Agent:
    """Build the agent of this node, by default with the transport to AWS and the clocks of the host."""
    clock = clock or AgentClock()
    services = ServiceClock(clock)
    packer = RecordPacker(
        cluster=settings.cluster,
        node=settings.node or host.host_name(),
        instance_id=settings.instance_id,
        boot_id=host.boot_id(settings.boot_id),
        has_bucket=settings.bucket is not None,
        clock_offset=lambda: services.offset,
    )
    outbox = Outbox(Spool(settings.spool / "spool", settings.spool_bytes))
    followers = _followers(settings, packer, outbox, clock)
    probes = ProbeScheduler(node_probes(settings), clock, resource_limits.cpu_seconds)
    drop_folder = DropFolder(settings.spool / "drop")
    cpu_budget = resource_limits.CpuBudget(clock.monotonic(), resource_limits.cpu_seconds())
    if transport is None:
        from faultbridge.node.agent.delivery.transport import aws_transport

        transport = aws_transport(settings, services)
    interval = settings.heartbeat_seconds
    unchanged = UnchangedOutput(settings.unchanged_seconds, ValueLog(settings.spool))
    rates, parts = DeviceRates(), (probes, unchanged, drop_folder, outbox, packer)
    ports = partial(read_ports, settings.sysfs / "class" / "infiniband")
    traffic, gpus = TrafficWatch(ports, settings.traffic_seconds, rates), GpuWatch(settings.traffic_seconds, rates)
    agent = Agent(clock, followers, *parts, services, cpu_budget, interval, traffic, gpus, rates, settings.sysfs)
    agent.sender = Sender(
        outbox,
        transport,
        clock,
        agent.heartbeat,
        heartbeat_seconds=interval,
        hold_seconds=settings.hold_seconds,
        report=QuarantineNotice(packer, outbox, clock),
    )
    return agent


def _followers(settings: AgentSettings, packer: RecordPacker, outbox: Outbox, clock: AgentClock) -> list[Follower]:
    def cursor_file(log: str) -> CursorFile:
        cursors = CursorFile(settings.spool / f"{log}.cursor", log)
        spooled = outbox.spool.cursors.get(log)
        if spooled is not None:
            cursors.advance(spooled)  # ignored when the file has a later one
        return cursors

    cursors = cursor_file(KernelLog.name)
    kernel_log = KernelLog(settings.kmsg, packer.boot_id, cursors.cursor.position, clock)
    followers = [Follower(kernel_log, cursors, outbox, packer, clock)]
    for unit, source in settings.journal_units.items():
        cursors = cursor_file(f"journal-{Path(unit).name}")
        log = JournalLog(unit, source, cursors.cursor.position, clock)
        followers.append(Follower(log, cursors, outbox, packer, clock))
    return followers
