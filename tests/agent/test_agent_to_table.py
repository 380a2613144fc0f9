"""Each kernel log line becomes exactly one entry in the table, despite kills, outages and clock changes.

The tests use the real agent with a fake kernel log and a fake clock, and the real ingest with the fake table. Each line
is a different fault, so each must be one entry. After a kill only the files remain. The response of the queue may be
lost after the queue accepted the message.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from faultbridge.model.cluster.config import Mode
from faultbridge.model.enums import EntryType
from faultbridge.model.event_data import FaultData
from faultbridge.model.storage import keys
from faultbridge.node.agent.agent import Agent, build_agent
from faultbridge.node.agent.delivery.records import OutgoingRecord
from faultbridge.node.agent.delivery.sender import SendFailed
from faultbridge.node.agent.delivery.transport import text_of, to_messages
from faultbridge.node.agent.settings import AgentSettings
from faultbridge.record.timeline import entry_data
from faultbridge.serve.entrypoints.ingest import wire_ingest
from faultbridge.serve.ingest.record_reader import Delivery
from tests.agent.agent_process import FakeNode, QueueServer, wait_for
from tests.agent.builders import KernelRing
from tests.agent.fakes import ManualClock
from tests.builders import KEY
from tests.world import World

CODES = (48, 62, 63, 64, 79, 92, 119)  # each of another failure mode
LINES = [(code, bus) for code in CODES for bus in range(0xC0, 0xC8)]
XID = "NVRM: Xid (PCI:0000:{bus:02x}:00): {code}, pid=1234, name=python, reported once"


class Site:
    """One node with its agent, and an installation that ingests its records."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.rng = random.Random(seed)
        self.world = World(mode=Mode.OBSERVE)
        self.folder = folder
        self.clock = ManualClock()
        self.ring = KernelRing(folder / "kmsg", self.clock)
        self.down = False
        self.loses_responses = False
        self.delivered = 0
        self.unwritten = list(reversed(LINES))
        self.appended: list[tuple[str, str]] = []
        self.boots = 0
        self.boot()
        self.agent = self._agent()

    # ------------------------------------------------------------------ the transport of the agent

    def send_batch(self, records: Sequence[OutgoingRecord]) -> tuple[set[str], set[str]]:
        if self.down:
            raise SendFailed("no network")
        now = self.world.now
        for message in to_messages(records):
            self.delivered += 1
            ingested = wire_ingest(self.world.app).ingest([Delivery(f"m-{self.delivered}", text_of(message), now)])
            assert not ingested.reasons, ingested.reasons
        if self.loses_responses and self.rng.random() < 0.3:
            raise SendFailed("the response was lost")
        return {record.record_id for record in records}, set()

    def put_object(self, key: str, body: bytes) -> None:
        self.world.ports.objects.put(key, body)

    # ------------------------------------------------------------------ events of the node

    def _agent(self, disk: int = 64_000_000) -> Agent:
        settings = AgentSettings(
            KEY.cluster, "https://queue", node=KEY.node, instance_id=self.instance, spool=self.folder / "state",
            spool_bytes=disk, kmsg=self.ring.path, boot_id=self.folder / "boot_id", sysfs=self.folder / "sys",
            journal_units={}, nvidia_smi="none", dcgmi="none", exporter_url="http://127.0.0.1:9/", smi_seconds=0,
            health_seconds=0, exporter_seconds=0, link_seconds=0, counter_seconds=0,
        )  # fmt: skip
        return build_agent(settings, self, self.clock)

    @property
    def instance(self) -> str:
        incarnation = self.world.node().incarnation
        assert incarnation is not None
        return str(incarnation.instance_id)

    def boot(self) -> None:
        self.boots += 1
        (self.folder / "boot_id").write_text(f"00000000-0000-0000-0000-{self.boots:012d}")
        self.ring.boot()
        self.clock.uptime = 10.0 if self.boots > 1 else self.clock.uptime

    def kill(self, disk: int = 64_000_000) -> None:
        """Kill the agent without a flush, so that only its files remain, and start a new one."""
        for follower in self.agent.followers:
            follower.log.close()
        self.agent = self._agent(disk)

    def seconds(self, number: int, line_every: int = 0) -> None:
        """Advance the clock and run agent and sender each second; append a line every `line_every` seconds."""
        for second in range(number):
            if line_every and second % line_every == 0 and self.unwritten:
                code, bus = self.unwritten.pop()
                self.ring.append(XID.format(code=code, bus=bus))
                self.appended.append((f"xid.{code}", f"0000:{bus:02x}:00"))
            self.advance(1)
            self.agent.poll()
            while self.agent.sender.send_due():
                pass

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.world.ports.clock.advance(timedelta(seconds=seconds))

    def table_faults(self) -> list[tuple[str, str]]:
        """Send all waiting records and return the (code, PCI address) of each fault entry of the node."""
        self.down = self.loses_responses = False
        self.seconds(150)
        assert self.agent.outbox.waiting == 0
        return fault_entries(self.world)


def fault_entries(world: World) -> list[tuple[str, str]]:
    """Read the (code, PCI address) of each Xid entry of the node."""
    items = world.ports.table.query(keys.node_partition(KEY), prefix=keys.ENTRY).items
    faults = [entry_data(item) for item in items if item["type"] == EntryType.FAULT_DETECTED.value]
    known = [one for one in faults if isinstance(one, FaultData) and one.code.startswith("xid.")]
    return [(one.code, str(one.component.pci)) for one in known]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.nightly)])
def test_each_line_is_one_entry_when_the_agent_process_is_killed(tmp_path: Path, seed: int) -> None:
    rng, queue, world = random.Random(seed), QueueServer(), World(mode=Mode.OBSERVE)
    instance = world.node().incarnation
    assert instance is not None
    node = FakeNode(tmp_path, queue, cluster=KEY.cluster, node=KEY.node, instance_id=instance.instance_id)
    unwritten, kills = list(LINES), 0
    while unwritten:
        node.start()
        queue.down = rng.random() < 0.3
        for code, bus in [unwritten.pop() for _ in range(min(len(unwritten), rng.randrange(12)))]:
            node.ring.append(XID.format(code=code, bus=bus))
            time.sleep(0.02)
        time.sleep(rng.uniform(0, 1.0))
        node.kill()
        kills += 1
    queue.down, before = False, len(queue.arrived)
    node.start()
    # All lines may have arrived before: a record of this process shows that it handles signals already.
    wait_for(lambda: len(queue.lines()) >= len(LINES) and len(queue.arrived) > before)
    assert node.stop() == 0
    queue.close()
    world.ports.clock.advance_to(datetime.now(UTC))
    # A message that arrived twice is delivered twice, as SQS may do.
    for number, text in enumerate(queue.arrived):
        assert not wire_ingest(world.app).ingest([Delivery(f"m-{number}", text, world.now)]).reasons
    assert sorted(fault_entries(world)) == sorted((f"xid.{code}", f"0000:{bus:02x}:00") for code, bus in LINES)
    assert kills > 5


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path, 1)


@pytest.mark.parametrize("seed", range(4))
def test_each_line_is_one_entry_after_random_kills_and_lost_responses(tmp_path: Path, seed: int) -> None:
    site = Site(tmp_path, seed)
    site.loses_responses = True
    kills = 0
    while site.unwritten:
        site.seconds(site.rng.randrange(1, 5), line_every=1)
        site.down = site.rng.random() < 0.3
        if site.rng.random() < 0.5:
            site.kill()
            kills += 1
    assert sorted(site.table_faults()) == sorted(site.appended)
    assert (len(site.appended), kills > 5, site.delivered > 10) == (len(LINES), True, True)


def test_each_line_is_one_entry_after_half_an_hour_without_network(site: Site) -> None:
    site.seconds(5, line_every=1)
    site.down = True
    site.seconds(1800, line_every=36)
    assert sorted(site.table_faults()) == sorted(site.appended)
    assert len(site.appended) > 50


def test_each_line_is_one_entry_on_a_full_disk_with_and_without_network(site: Site) -> None:
    site.kill(disk=0)
    site.seconds(25, line_every=1)
    site.down = True
    site.seconds(25, line_every=1)
    assert sorted(site.table_faults()) == sorted(site.appended)
    assert len(site.appended) == 50


@pytest.mark.parametrize("hours", [1, 24 * 365, -1, -5])
def test_each_line_is_one_entry_when_the_clock_jumps_and_is_corrected(site: Site, hours: int) -> None:
    site.seconds(15, line_every=1)
    site.clock.wall += timedelta(hours=hours)
    site.seconds(25, line_every=1)
    site.seconds(120)
    active = {condition.code for condition in site.world.node().active()}
    site.clock.wall -= timedelta(hours=hours)
    site.seconds(15, line_every=1)
    assert sorted(site.table_faults()) == sorted(site.appended)
    assert len(site.appended) == 55
    assert "host.clock" in active


def test_each_line_is_one_entry_after_a_reboot(site: Site) -> None:
    site.seconds(20, line_every=1)
    site.seconds(10)
    for follower in site.agent.followers:
        follower.log.close()
    site.boot()
    site.kill()
    site.seconds(20, line_every=1)
    assert sorted(site.table_faults()) == sorted(site.appended)
    incarnation = site.world.node().incarnation
    assert incarnation is not None
    assert (incarnation.boot, len(site.appended)) == (2, 40)
