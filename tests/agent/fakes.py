"""Fakes for agent tests: a kernel ring buffer on a pipe, a transport, and a clock that tests set."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from faultbridge.model.storage.wire.decode_message import decode_message
from faultbridge.node.agent.delivery.records import OutgoingRecord
from faultbridge.node.agent.delivery.sender import SendFailed
from faultbridge.node.agent.host import AgentClock

BOOT = "11111111-2222-3333-4444-555555555555"
NOON = datetime(2026, 2, 3, 12, 0, tzinfo=UTC)
UPTIME = 100_000.0


class ManualClock(AgentClock):
    """A clock that a test advances; the wall clock can be set independently of the uptime."""

    def __init__(self) -> None:
        self.wall = NOON
        self.uptime = UPTIME
        self.slept = 0.0

    def now(self) -> datetime:
        return self.wall

    def monotonic(self) -> float:
        return self.uptime

    def sleep(self, seconds: float) -> None:
        self.slept += seconds
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        self.uptime += seconds
        self.wall += timedelta(seconds=seconds)


class FakeTransport:
    """A transport that keeps the records and objects it gets, and fails while `down`.

    It refuses the records in `refused` for good, and those in `throttled` for now.
    """

    def __init__(self) -> None:
        self.down = False
        self.accepted: list[OutgoingRecord] = []
        self.objects: dict[str, bytes] = {}
        self.refused: set[str] = set()
        self.throttled: set[str] = set()
        self.calls = 0

    def send_batch(self, records: Sequence[OutgoingRecord]) -> tuple[set[str], set[str]]:
        self.calls += 1
        if self.down:
            raise SendFailed("no network")
        refused = {record.record_id for record in records if record.record_id in self.refused}
        accepted = {record.record_id for record in records} - refused - self.throttled
        self.accepted += [record for record in records if record.record_id in accepted]
        return accepted, refused

    def put_object(self, key: str, body: bytes) -> None:
        if self.down:
            raise SendFailed("no network")
        self.objects[key] = body

    def bodies(self, source: str) -> list[bytes]:
        """The bodies of one source, each record once."""
        found = {record.record_id: decode_message(record.text) for record in self.accepted}
        return [
            self.objects[message.pointer] if message.pointer else message.body or b""
            for message in found.values()
            if message.source == source
        ]

    def lines(self, source: str = "kernel-log") -> list[str]:
        """All lines of one source."""
        return [line for body in self.bodies(source) for line in body.decode().splitlines()]


class Ring:
    """A kernel ring buffer on a named pipe: a reader that opens it gets all records from the start."""

    def __init__(self, path: Path) -> None:
        self.path = path
        os.mkfifo(path)
        self.records: list[bytes] = []
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def append(self, text: str, priority: int = 3) -> None:
        """Append one record, as printk does."""
        with self._lock:
            number = len(self.records)
            micros = int((UPTIME - 50) * 1_000_000) + number * 1000
            self.records.append(f"{priority},{number},{micros},-;{text}\n SUBSYSTEM=pci\n".encode())

    def serve(self) -> None:
        """Serve one reader from the first record on, until `stop_serving`."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write, args=(self._stop,), daemon=True)
        self._thread.start()

    def stop_serving(self) -> None:
        """Stop serving; an open reader gets the end of the pipe."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _write(self, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                pipe = os.open(self.path, os.O_WRONLY | os.O_NONBLOCK)
            except OSError:
                time.sleep(0.005)
                continue
            try:
                self._write_records(pipe, stop)
            except BrokenPipeError:
                continue
            finally:
                os.close(pipe)

    def _write_records(self, pipe: int, stop: threading.Event) -> None:
        position = 0
        while not stop.is_set():
            with self._lock:
                pending = self.records[position : position + 20]
            data = b"".join(pending)
            while data and not stop.is_set():
                try:
                    data = data[os.write(pipe, data) :]
                except BlockingIOError:
                    time.sleep(0.005)
            position += len(pending)
            if not pending:
                time.sleep(0.005)


def script(folder: Path, name: str, body: str) -> str:
    """Write a shell script that replaces a program of the node."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)
