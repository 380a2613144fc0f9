"""A node that is none: a pipe that plays the kernel's ring, a transport that plays the queue, clocks to be moved."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from faultbridge.agent.outgoing import Outgoing
from faultbridge.agent.sender import NotSent
from faultbridge.storage.wire.message import decode_message

BOOT = "11111111-2222-3333-4444-555555555555"
NOON = datetime(2026, 2, 3, 12, 0, tzinfo=UTC)
UPTIME = 100_000.0


class MovedClock:
    """A clock that moves when a test says so; the wall clock may be set apart from the other."""

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
        self.pass_(seconds)

    def pass_(self, seconds: float) -> None:
        self.uptime += seconds
        self.wall += timedelta(seconds=seconds)


class FakeQueue:
    """A transport that keeps what it was given, and fails while it is told to."""

    def __init__(self) -> None:
        self.away = False
        self.taken: list[Outgoing] = []
        self.objects: dict[str, bytes] = {}
        self.never: set[str] = set()
        self.calls = 0

    def send(self, records: Sequence[Outgoing]) -> tuple[set[str], set[str]]:
        self.calls += 1
        if self.away:
            raise NotSent("there is no network")
        never = {record.record_id for record in records if record.record_id in self.never}
        self.taken += [record for record in records if record.record_id not in never]
        return {record.record_id for record in records} - never, never

    def put(self, key: str, body: bytes) -> None:
        if self.away:
            raise NotSent("there is no network")
        self.objects[key] = body

    def bodies(self, source: str) -> list[bytes]:
        """What came in one source, record for record, a repetition of a record left out."""
        found = {record.record_id: decode_message(record.text) for record in self.taken}
        return [
            self.objects[message.pointer] if message.pointer else message.body or b""
            for message in found.values()
            if message.source == source
        ]

    def lines(self, source: str = "kernel-log") -> list[str]:
        """Every line that came in one source."""
        return [line for body in self.bodies(source) for line in body.decode().splitlines()]


class Ring:
    """The kernel's ring behind a named pipe: whoever opens it anew is told everything from the start."""

    def __init__(self, path: Path) -> None:
        self.path = path
        os.mkfifo(path)
        self.records: list[bytes] = []
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def say(self, text: str, priority: int = 3) -> None:
        """Append one record, as printk does."""
        with self._lock:
            number = len(self.records)
            micros = int((UPTIME - 50) * 1_000_000) + number * 1000
            self.records.append(f"{priority},{number},{micros},-;{text}\n SUBSYSTEM=pci\n".encode())

    def serve(self) -> None:
        """Serve one reader from the first record on, until `hang_up`."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write, args=(self._stop,), daemon=True)
        self._thread.start()

    def hang_up(self) -> None:
        """Stop serving; a reader that is still there sees the end of the pipe."""
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
                self._pour(pipe, stop)
            except BrokenPipeError:
                continue
            finally:
                os.close(pipe)

    def _pour(self, pipe: int, stop: threading.Event) -> None:
        place = 0
        while not stop.is_set():
            with self._lock:
                pending = self.records[place : place + 20]
            data = b"".join(pending)
            while data and not stop.is_set():
                try:
                    data = data[os.write(pipe, data) :]
                except BlockingIOError:
                    time.sleep(0.005)
            place += len(pending)
            if not pending:
                time.sleep(0.005)


def script(folder: Path, name: str, body: str) -> str:
    """Write a program that stands for one of the node's."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)
