"""The agent as a process on a node with faults, and the CPU, memory and disk that it uses."""

from __future__ import annotations

import http.server
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from faultbridge.decode import registry
from faultbridge.model.faults import Severity
from faultbridge.model.storage.wire.decode_message import decode_message, split_records
from faultbridge.model.storage.wire.message import Message
from faultbridge.node.agent.cursors import Cursor, CursorFile
from faultbridge.node.agent.resource_limits import CPU_BURST_SECONDS, CPU_SHARE, DISK_BYTES, MEMORY_BYTES
from tests.agent.fakes import BOOT, Ring, script
from tests.waiting import BUSY_FACTOR

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
XID = "NVRM: Xid (PCI:0000:c1:00): 31, pid={}, name=python, MMU fault"


class QueueServer:
    """A fake SQS over HTTP; every call fails while `down`."""

    def __init__(self) -> None:
        self.down = False
        self.messages: dict[str, Message] = {}
        self.arrived: list[str] = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                request = json.loads(self.rfile.read(int(self.headers["content-length"])))
                if outer.down:
                    self._respond(503, {})
                    return
                for entry in request["Entries"]:
                    outer.arrived.append(entry["MessageBody"])
                    for message in map(decode_message, split_records(entry["MessageBody"])):
                        outer.messages.setdefault(message.record_id, message)
                self._respond(200, {"Successful": []})

            def _respond(self, status: int, document: object):
                body = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                return

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def bodies(self, source: str) -> list[str]:
        return [(one.body or b"").decode() for one in list(self.messages.values()) if one.source == source]

    def lines(self) -> list[str]:
        return [line for body in self.bodies("kernel-log") for line in body.splitlines()]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@dataclass
class Cost:
    """The use of a process: CPU seconds with its children, and peak resident memory."""

    cpu: float
    peak: int


class FakeNode:
    """A node with a kernel ring buffer, fake programs, and the agent as a process."""

    def __init__(self, folder: Path, queue: QueueServer, **settings: object) -> None:
        self.folder, self.queue, self.ring = folder, queue, Ring(folder / "kmsg")
        (folder / "boot_id").write_text(BOOT + "\n")
        values = {
            "cluster": "train-a",
            "node": "gpu-1",
            "instance_id": "i-0aaaaaaaaaaaaaaa1",
            "queue_url": queue.url + "/q",
            "spool": str(folder / "state"),
            "kmsg": str(folder / "kmsg"),
            "boot_id": str(folder / "boot_id"),
            "sysfs": str(folder / "sys"),
            "exporter_url": "http://127.0.0.1:9/metrics",
            "nvidia_smi": str(folder / "none"),
            "dcgmi": str(folder / "none"),
            "link_seconds": 0,
            "heartbeat_seconds": 1,
        } | settings
        lines = [f"{name} = {json.dumps(value)}" for name, value in values.items()]
        (folder / "agent.toml").write_text("\n".join(lines) + "\n[journal_units]\n")
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.ring.serve()
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "FAULTBRIDGE_"))}
        keys = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y", "PYTHONPATH": str(ROOT / "src")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "faultbridge.node.agent", "--config", str(self.folder / "agent.toml")],
            env=clean | keys,
        )

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        self.ring.stop_serving()

    def stop(self) -> int:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(20)
        self.ring.stop_serving()
        return status

    def cursor(self) -> Cursor:
        """The stored cursor of the kernel log."""
        return CursorFile(self.folder / "state" / "kmsg.cursor", "kmsg").cursor

    def cost(self) -> Cost:
        assert self.process is not None
        stat = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
        return Cost(sum(map(int, stat[11:15])) / os.sysconf("SC_CLK_TCK"), peak * 1024)

    def disk(self) -> int:
        sizes = 0
        for path in (self.folder / "state").rglob("*"):
            try:
                sizes += path.stat().st_blocks * 512
            except FileNotFoundError:
                continue
        return sizes


def wait_for(condition, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds * BUSY_FACTOR
    while not condition():
        assert time.monotonic() < deadline, "the condition did not become true in time"
        time.sleep(0.05)


def line_counts(queue: QueueServer) -> dict[str, int]:
    """How often the received records contain each text, repeated lines counted."""
    found: dict[str, int] = {}
    for line in queue.lines():
        text, times = line.partition(";")[2], 1
        if text.startswith("message repeated "):
            times = int(text.split()[2])
            text = text.partition("[ ")[2].removesuffix(" ]")
        found[text] = found.get(text, 0) + times
    return found


@pytest.fixture
def queue():
    server = QueueServer()
    yield server
    server.close()


@pytest.fixture
def node(tmp_path, queue):
    return FakeNode(tmp_path, queue)


@pytest.mark.parametrize("seed", [1, 2])
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
    faults = registry.decode("faultbridge", "".join(queue.bodies("faultbridge")).encode())
    assert {fault.severity for fault in faults} == {Severity.ERROR, Severity.WARNING}


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


def storm(node: FakeNode, queue: QueueServer, *, lines: int, seconds: float) -> dict[str, float]:
    """Append lines at an even rate and return what the agent used for them."""
    node.start()
    wait_for(lambda: queue.bodies("heartbeat"))
    before, started, max_disk = node.cost(), time.monotonic(), 0
    for number in range(lines):
        node.ring.append(XID.format(number))
        if number % 50 == 0:
            delay = started + seconds * number / lines - time.monotonic()
            time.sleep(max(delay, 0))
        if number % 1000 == 0:
            max_disk = max(max_disk, node.disk())
    wait_for(lambda: len(queue.lines()) >= lines, 60)
    passed, after = time.monotonic() - started, node.cost()
    assert node.stop() == 0
    assert line_counts(queue) == {XID.format(one): 1 for one in range(lines)}
    return {
        "lines": lines,
        "seconds": round(passed, 1),
        "start_cpu_seconds": before.cpu,
        "cpu_percent_of_a_core": round(100 * (after.cpu - before.cpu) / passed, 3),
        "peak_memory_mb": round(after.peak / 1e6, 1),
        "max_disk_kb": round(max_disk / 1e3, 1),
    }


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
