"""Builders of agent process that several test modules use."""

from __future__ import annotations

import http.server
import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from faultbridge.model.storage.wire.decode_message import decode_message, split_records
from faultbridge.model.storage.wire.message import Message
from faultbridge.node.agent.cursors import Cursor, CursorFile
from tests.agent.fakes import BOOT, Ring
from tests.waiting import BUSY_FACTOR

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
