"""The agent as a process on a node with faults, and the CPU, memory and disk that it uses."""

from __future__ import annotations

import json
import random
import time

import pytest

from faultbridge.decode import registry
from faultbridge.node.agent.resource_limits import CPU_BURST_SECONDS, CPU_SHARE, DISK_BYTES, MEMORY_BYTES
from tests.agent.agent_process import XID, FakeNode, QueueServer, line_counts, storm, wait_for
from tests.agent.fakes import BOOT, script

pytestmark = pytest.mark.slow


@pytest.fixture
def queue():
    server = QueueServer()
    yield server
    server.close()


@pytest.fixture
def node(tmp_path, queue):
    return FakeNode(tmp_path, queue)


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.nightly)])
def test_every_line_arrives_once_when_the_agent_is_killed_at_random_times(node, queue, seed):
    rng, number = random.Random(seed), 0
    for _ in range(6):
        node.start()
        until = time.monotonic() + rng.uniform(0.2, 1.5)
        queue.down = rng.random() < 0.5
        while time.monotonic() < until:
            for _ in range(rng.randrange(30)):
                number += 1
                node.ring.append(XID.format(number))
            time.sleep(0.02)
        node.kill()
    queue.down = False
    node.start()
    wait_for(lambda: len(queue.lines()) >= number)
    time.sleep(1)
    assert node.stop() == 0
    assert line_counts(queue) == {XID.format(one): 1 for one in range(1, number + 1)}


def test_repeated_lines_are_counted_correctly_across_a_kill(node, queue):
    node.start()
    for _ in range(40):
        node.ring.append(XID.format(7))
    wait_for(queue.lines)
    node.kill()
    for _ in range(40):
        node.ring.append(XID.format(7))
    node.start()
    wait_for(lambda: line_counts(queue).get(XID.format(7)) == 80)
    assert node.stop() == 0
    assert line_counts(queue) == {XID.format(7): 80}
    assert len(queue.lines()) <= 6


def test_lines_are_sent_when_the_disk_is_full(tmp_path, queue):
    node = FakeNode(tmp_path, queue, spool_bytes=0)
    node.start()
    for number in range(500):
        node.ring.append(XID.format(number))
    # An agent killed between the response of the queue and the cursor update sends some lines twice (docs/agent.md).
    wait_for(lambda: node.cursor().position.get("seq") == 499)
    node.kill()
    node.ring.append(XID.format(500))
    node.start()
    wait_for(lambda: len(queue.lines()) >= 501)
    assert node.stop() == 0
    assert line_counts(queue) == {XID.format(one): 1 for one in range(501)}


def test_without_network_and_disk_lines_stay_in_the_ring_buffer_and_none_is_lost(tmp_path, queue):
    node = FakeNode(tmp_path, queue, spool_bytes=2 * 4096)
    queue.down = True
    node.start()
    for number in range(8_000):
        node.ring.append(XID.format(number))
    time.sleep(2)
    assert node.disk() < 100_000
    assert node.cost().peak < MEMORY_BYTES
    queue.down = False
    wait_for(lambda: len(queue.lines()) >= 8_000, 60)
    assert node.stop() == 0
    assert line_counts(queue) == {XID.format(one): 1 for one in range(8_000)}


def test_records_carry_the_boot_id_of_their_boot(node, queue):
    node.start()
    node.ring.append(XID.format(1))
    wait_for(queue.lines)
    node.kill()
    (node.folder / "boot_id").write_text("another-boot\n")
    node.ring.records.clear()
    node.ring.append(XID.format(2))
    node.start()
    wait_for(lambda: len(queue.lines()) == 2)
    node.stop()
    boots = {one.boot_id for one in queue.messages.values() if one.source == "kernel-log"}
    assert boots == {BOOT, "another-boot"}


def test_hanging_and_flooding_programs_are_reported_while_the_log_is_followed(tmp_path, queue):
    smi = script(tmp_path, "smi", "sleep 600")
    dcgmi = script(tmp_path, "dcgmi", "head -c 10000000 /dev/urandom")
    node = FakeNode(tmp_path, queue, nvidia_smi=smi, dcgmi=dcgmi, probe_timeout_seconds=2)
    node.start()
    wait_for(lambda: len(queue.bodies("faultbridge")) >= 2)
    node.ring.append(XID.format(1))
    wait_for(queue.lines)
    assert node.cost().peak < MEMORY_BYTES
    assert node.stop() == 0
    codes = {json.loads(body)["code"] for body in queue.bodies("faultbridge")}
    assert codes == {"smi.hang", "agent.oversize"}
    assert len(registry.decode("faultbridge", "".join(queue.bodies("faultbridge")).encode())) >= len(codes)


def test_a_heartbeat_names_its_node_and_its_memory_use(node, queue):
    node.start()
    wait_for(lambda: len(queue.bodies("heartbeat")) >= 2)
    node.stop()
    beat = json.loads(queue.bodies("heartbeat")[0])
    decoded = registry.decode("heartbeat", queue.bodies("heartbeat")[0].encode())
    assert decoded[0].node == "gpu-1"
    assert (beat["node"], beat["instance_id"], beat["boot_id"]) == ("gpu-1", "i-0aaaaaaaaaaaaaaa1", BOOT)
    assert beat["memory_bytes"] < MEMORY_BYTES


def test_a_file_in_the_drop_folder_is_sent_and_deleted(node, queue):
    node.start()
    drop = node.folder / "state" / "drop"
    wait_for(drop.is_dir)
    (drop / ".half").write_text("not yet")
    (drop / ".half2").write_text('{"job": 1}')
    (drop / ".half2").rename(drop / "training-log.job-1")
    wait_for(lambda: queue.bodies("training-log") == ['{"job": 1}'])
    wait_for(lambda: not (drop / "training-log.job-1").exists())
    assert (drop / ".half").exists()
    node.stop()


@pytest.mark.nightly
def test_a_short_storm_stays_within_the_resource_limits(node, queue, record_property):
    used = storm(node, queue, lines=2_500, seconds=15)
    record_property("storm", used)
    assert used["peak_memory_mb"] * 1e6 < MEMORY_BYTES
    assert used["max_disk_kb"] * 1e3 < DISK_BYTES
    assert used["cpu_percent_of_a_core"] / 100 < CPU_SHARE + CPU_BURST_SECONDS / 15
    assert used["cpu_percent_of_a_core"] < 4


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_a_storm_of_ten_minutes_stays_within_the_resource_limits(node, queue, record_property, capsys):
    used = storm(node, queue, lines=50_000, seconds=600)
    record_property("storm", used)
    with capsys.disabled():
        print(used)  # noqa: T201 - the figures are the purpose
    assert used["cpu_percent_of_a_core"] / 100 < CPU_SHARE
    assert used["peak_memory_mb"] * 1e6 < MEMORY_BYTES
    assert used["max_disk_kb"] * 1e3 < DISK_BYTES
