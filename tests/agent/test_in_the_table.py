"""Every line that a node's kernel said is in the table once, whatever happens to the agent, the network and the clock.

The agent is the real one on a file that plays the kernel's ring and a clock that a test moves; what it sends goes
through the real ingest into the fake table. Each line is a fault of its own, so each must be one entry. A kill leaves
only the files; an acknowledgement may be lost after the queue took the message.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from faultbridge.agent.agent import Agent
from faultbridge.agent.compose import agent_of
from faultbridge.agent.outgoing import Outgoing
from faultbridge.agent.sender import NotSent
from faultbridge.agent.settings import AgentSettings
from faultbridge.domain.clusters import Mode
from faultbridge.domain.entries import EntryType
from faultbridge.ingest.record_reader import Delivery
from faultbridge.ledger.timeline import data_of
from faultbridge.storage import keys
from tests.agent.fakes import MovedClock
from tests.agent.test_node import FakeNode, QueueServer, wait_for
from tests.builders import KEY
from tests.world import World

CODES = (48, 62, 64, 79, 95, 110, 119)
LINES = [(code, bus) for code in CODES for bus in range(0xC0, 0xC8)]
XID = "NVRM: Xid (PCI:0000:{bus:02x}:00): {code}, pid=1234, name=python, told once"


class KernelRing:
    """A file (fake) that is read as /dev/kmsg is: from the start by whoever opens it."""

    def __init__(self, path: Path, clock: MovedClock) -> None:
        self.path, self.clock = path, clock
        self.next = 0
        path.write_bytes(b"")

    def say(self, text: str) -> None:
        with self.path.open("ab") as file:
            file.write(f"3,{self.next},{int(self.clock.uptime * 1_000_000)},-;{text}\n".encode())
        self.next += 1

    def boot(self) -> None:
        self.path.write_bytes(b"")
        self.next = 0


class Site:
    """One node with its agent, and an installation that takes what it sends."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.dice = random.Random(seed)
        self.world = World(mode=Mode.OBSERVE)
        self.folder = folder
        self.clock = MovedClock()
        self.ring = KernelRing(folder / "kmsg", self.clock)
        self.away = False
        self.loses_answers = False
        self.delivered = 0
        self.unsaid = list(reversed(LINES))
        self.said: list[tuple[str, str]] = []
        self.boots = 0
        self.boot()
        self.agent = self._agent()

    # ------------------------------------------------------------------ the queue, as the agent's transport

    def send(self, records: Sequence[Outgoing]) -> tuple[set[str], set[str]]:
        if self.away:
            raise NotSent("there is no network")
        now = self.world.now
        for record in records:
            self.delivered += 1
            ingested = self.world.app.ingest([Delivery(f"m-{self.delivered}", record.text, now)])
            assert not ingested.reasons, ingested.reasons
        if self.loses_answers and self.dice.random() < 0.3:
            raise NotSent("the answer was lost")
        return {record.record_id for record in records}, set()

    def put(self, key: str, body: bytes) -> None:
        self.world.ports.objects.put(key, body)

    # ------------------------------------------------------------------ what happens

    def _agent(self, disk: int = 64_000_000) -> Agent:
        told = AgentSettings(
            KEY.cluster, "https://queue", node=KEY.node, instance_id=self.instance, spool=self.folder / "state",
            spool_bytes=disk, kmsg=self.ring.path, boot_id=self.folder / "boot_id", sysfs=self.folder / "sys",
            journal_units={}, nvidia_smi="none", dcgmi="none", exporter_url="http://127.0.0.1:9/", smi_seconds=0,
            health_seconds=0, exporter_seconds=0, link_seconds=0, counter_seconds=0,
        )  # fmt: skip
        return agent_of(told, self, self.clock)

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
        """Kill -9: nothing is flushed, only what lies on the disk is left; then it is started again."""
        for follower in self.agent.followers:
            follower.log.close()
        self.agent = self._agent(disk)

    def seconds(self, number: int, line_every: int = 0) -> None:
        """Let seconds pass, a line in every so many of them; the agent and its sender do their turns."""
        for second in range(number):
            if line_every and second % line_every == 0 and self.unsaid:
                code, bus = self.unsaid.pop()
                self.ring.say(XID.format(code=code, bus=bus))
                self.said.append((f"xid.{code}", f"0000:{bus:02x}:00"))
            self.pass_(1)
            self.agent.turn()
            while self.agent.sender.turn():
                pass

    def pass_(self, seconds: float) -> None:
        self.clock.pass_(seconds)
        self.world.ports.clock.advance(timedelta(seconds=seconds))

    def in_the_table(self) -> list[tuple[str, str]]:
        """What the entries of the node say that began, each as often as it is said."""
        self.away = self.loses_answers = False
        self.seconds(150)
        assert self.agent.outbox.waiting == 0
        return begun(self.world)


def begun(world: World) -> list[tuple[str, str]]:
    """Read the Xids that the entries of the node say began, each as often as it is said."""
    items = world.ports.table.query(keys.node_partition(KEY), prefix=keys.ENTRY).items
    told = [data_of(item) for item in items if item["type"] == EntryType.FAULT_DETECTED.value]
    return [(one["code"], one["component"]["pci"]) for one in told if one["code"].startswith("xid.")]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_whenever_the_process_itself_is_killed(tmp_path: Path, seed: int) -> None:
    dice, queue, world = random.Random(seed), QueueServer(), World(mode=Mode.OBSERVE)
    instance = world.node().incarnation
    assert instance is not None
    node = FakeNode(tmp_path, queue, cluster=KEY.cluster, node=KEY.node, instance_id=instance.instance_id)
    unsaid, kills = list(LINES), 0
    while unsaid:
        node.start()
        queue.away = dice.random() < 0.3
        for code, bus in [unsaid.pop() for _ in range(min(len(unsaid), dice.randrange(12)))]:
            node.ring.say(XID.format(code=code, bus=bus))
            time.sleep(0.02)
        time.sleep(dice.uniform(0, 1.0))
        node.kill()
        kills += 1
    queue.away = False
    node.start()
    wait_for(lambda: len(queue.lines()) >= len(LINES))
    assert node.stop() == 0
    queue.close()
    world.ports.clock.advance_to(datetime.now(UTC))
    # What came twice is handed over twice, as a queue may do.
    for number, text in enumerate(queue.arrived):
        assert not world.app.ingest([Delivery(f"m-{number}", text, world.now)]).reasons
    assert sorted(begun(world)) == sorted((f"xid.{code}", f"0000:{bus:02x}:00") for code, bus in LINES)
    assert kills > 5


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path, 1)


@pytest.mark.parametrize("seed", range(4))
def test_whenever_it_is_killed_and_whichever_answer_is_lost(tmp_path: Path, seed: int) -> None:
    site = Site(tmp_path, seed)
    site.loses_answers = True
    kills = 0
    while site.unsaid:
        site.seconds(site.dice.randrange(1, 5), line_every=1)
        site.away = site.dice.random() < 0.3
        if site.dice.random() < 0.5:
            site.kill()
            kills += 1
    assert sorted(site.in_the_table()) == sorted(site.said)
    assert (len(site.said), kills > 5, site.delivered > 20) == (len(LINES), True, True)


def test_after_half_an_hour_without_network(site: Site) -> None:
    site.seconds(5, line_every=1)
    site.away = True
    site.seconds(1800, line_every=36)
    assert sorted(site.in_the_table()) == sorted(site.said)
    assert len(site.said) > 50


def test_on_a_disk_that_takes_nothing_with_and_without_network(site: Site) -> None:
    site.kill(disk=0)
    site.seconds(25, line_every=1)
    site.away = True
    site.seconds(25, line_every=1)
    assert sorted(site.in_the_table()) == sorted(site.said)
    assert len(site.said) == 50


@pytest.mark.parametrize("hours", [1, 24 * 365, -1, -5])
def test_when_the_clock_jumps_and_is_put_right(site: Site, hours: int) -> None:
    site.seconds(15, line_every=1)
    site.clock.wall += timedelta(hours=hours)
    site.seconds(25, line_every=1)
    site.seconds(120)
    wrong = {condition.code for condition in site.world.node().active()}
    site.clock.wall -= timedelta(hours=hours)
    site.seconds(15, line_every=1)
    assert sorted(site.in_the_table()) == sorted(site.said)
    assert len(site.said) == 55
    assert "host.clock" in wrong


def test_when_the_node_boots_again(site: Site) -> None:
    site.seconds(20, line_every=1)
    site.seconds(10)
    for follower in site.agent.followers:
        follower.log.close()
    site.boot()
    site.kill()
    site.seconds(20, line_every=1)
    assert sorted(site.in_the_table()) == sorted(site.said)
    incarnation = site.world.node().incarnation
    assert incarnation is not None
    assert (incarnation.boot, len(site.said)) == (2, 40)
