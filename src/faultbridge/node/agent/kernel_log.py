"""Reads the kernel log from /dev/kmsg, after the last stored position of the current boot."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from faultbridge.model.times import to_text, truncate
from faultbridge.node.agent.host import AgentClock
from faultbridge.node.agent.log_follower import Log, LogLine

READ_BYTES = 8192  # the maximum record size of the device; a shorter read fails
CLOCK_TOLERANCE = timedelta(seconds=2)
_RECORD = re.compile(rb"(\d{1,6}),(\d{1,18}),(\d{1,18}),[^,;]{1,16}(?:,[^;]{0,200})?;")


class KernelLog(Log):
    """Reads the kernel ring buffer after a position (boot id, sequence number), without blocking.

    The agent may read a line long after the kernel printed it. Each line therefore starts with the wall clock time at
    which the kernel printed it. After the time comes the header of the kernel record, with the facility. The position
    also contains the time of boot, so that the time of a line is equal when the line is read again.
    """

    name = "kmsg"
    source = "kernel-log"
    max_line_bytes = 16 * 1024

    def __init__(self, path: Path, boot_id: str | None, position: Mapping[str, object], clock: AgentClock) -> None:
        super().__init__()
        self._path = path
        self._clock = clock
        self._boot_id = boot_id
        same_boot = boot_id is not None and position.get("boot") == boot_id
        self._sequence = int(str(position.get("seq", -1))) if same_boot else -1
        stored = position.get("booted_at") if same_boot else None
        self._booted_at = None if stored is None else datetime.fromtimestamp(int(str(stored)) / 1000, UTC)
        self._file: int | None = None

    def read(self, max_bytes: int) -> Iterator[LogLine]:
        """Yield the lines that are available, up to about `max_bytes`."""
        self._update_boot_time()
        yield from super().read(max_bytes)

    def close(self) -> None:
        """Close the kernel log device."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _update_boot_time(self) -> None:
        # In whole milliseconds, as the position stores it: otherwise a line that is read twice could have two times.
        booted_at = truncate(self._clock.now() - timedelta(seconds=self._clock.monotonic()))
        if self._booted_at is None or abs(booted_at - self._booted_at) > CLOCK_TOLERANCE:
            self._booted_at = booted_at

    def _read_chunk(self) -> bytes:
        try:
            if self._file is None:
                self._file = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            chunk = os.read(self._file, READ_BYTES)
        except OSError as error:
            if error.errno == errno.EPIPE:  # the ring buffer overwrote unread lines; the sequence number counts them
                return b"\n"
            if error.errno != errno.EAGAIN:
                self.close()
            return b""
        if not chunk:  # a pipe whose writer closed it, perhaps within a line
            self._partial = b""
        return chunk

    def _drop_unfinished_line(self) -> None:
        """Count the line as lost, and store its number: else the next line would count it again."""
        self._parse_line(self._partial or b"")
        super()._drop_unfinished_line()

    def _parse_line(self, raw: bytes) -> LogLine | None:
        found = _RECORD.match(raw)
        if found is None:  # a dictionary line of the record before, or another format
            return None
        sequence = int(found[2])
        if sequence <= self._sequence:
            return None
        if self._sequence >= 0:
            self.lost_lines += sequence - self._sequence - 1
        self._sequence = sequence
        booted_at = self._booted_at or self._clock.now()
        at = booted_at + timedelta(microseconds=int(found[3]))
        position = {"boot": self._boot_id, "seq": sequence, "booted_at": round(booted_at.timestamp() * 1000)}
        text = raw[found.end() : found.end() + self.max_line_bytes].decode("utf-8", "replace")
        return LogLine(f"{to_text(at)} {found[0].decode()}", text, position)


MAX_TEXT = 16 * 1024
RESTART_SECONDS = 30.0
_FIELDS = "MESSAGE,_SYSTEMD_UNIT,__REALTIME_TIMESTAMP,_BOOT_ID"


class JournalLog(Log):
    """Reads the messages of one systemd unit after a journald cursor, with `journalctl --follow`.

    If `journalctl` exits, it is restarted, at most every 30 s. The new process continues after the last message that
    was read.
    """

    max_line_bytes = 256 * 1024

    def __init__(self, unit: str, source: str, position: Mapping[str, object], clock: AgentClock) -> None:
        super().__init__()
        self.name = f"journal-{unit}"
        self.source = source
        self._unit = unit
        self._clock = clock
        self._cursor = str(position.get("cursor", ""))
        self._process: subprocess.Popen[bytes] | None = None
        self._started_at = float("-inf")
        self._first_start: datetime | None = None

    def close(self) -> None:
        """Stop `journalctl`."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            if self._process.stdout is not None:
                self._process.stdout.close()
            self._process = None
            self._partial = b""

    def _command(self) -> Sequence[str]:
        since = ["--after-cursor", self._cursor] if self._cursor else self._from_start()
        return ["journalctl", "--follow", "--output", "json", "--output-fields", _FIELDS, "--unit", self._unit, *since]

    def _from_start(self) -> Sequence[str]:
        """Return the options without a journald cursor: only messages since the first start of `journalctl`."""
        if self._first_start is None:
            self._first_start = self._clock.now()
            return ["--lines", "0"]
        return ["--since", f"@{self._first_start.timestamp():.3f}"]

    def _read_chunk(self) -> bytes:
        if self._process is None and not self._start():
            return b""
        assert self._process is not None  # noqa: S101 - just started
        assert self._process.stdout is not None  # noqa: S101 - it is a pipe
        try:
            chunk = os.read(self._process.stdout.fileno(), 65536)
        except BlockingIOError:
            return b""
        if not chunk:  # `journalctl` exited, and all its output was read
            self.close()
        return chunk

    def _start(self) -> bool:
        now = self._clock.monotonic()
        if now - self._started_at < RESTART_SECONDS:
            return False
        self._started_at = now
        with suppress(OSError):
            self._process = subprocess.Popen(  # noqa: S603 - a fixed program, no shell
                self._command(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
            if self._process.stdout is not None:
                os.set_blocking(self._process.stdout.fileno(), False)
        return self._process is not None

    def _parse_line(self, raw: bytes) -> LogLine | None:
        try:
            entry = json.loads(raw)
        except ValueError:
            return None
        if not isinstance(entry, dict):
            return None
        self._cursor = str(entry.get("__CURSOR") or self._cursor)
        text = entry.get("MESSAGE")
        if isinstance(text, list):  # journald writes a message that is not UTF-8 as a list of byte values
            text = bytes(value & 255 for value in text if isinstance(value, int)).decode("utf-8", "replace")
        if not isinstance(text, str) or not text.strip():
            return None
        return LogLine("", text[:MAX_TEXT].replace("\n", " "), {"cursor": self._cursor})
