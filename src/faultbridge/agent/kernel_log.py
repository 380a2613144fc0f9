"""Reads the kernel log from /dev/kmsg, after the last stored position of the current boot."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from faultbridge.agent.host import AgentClock
from faultbridge.agent.log_follower import Log, LogLine
from faultbridge.domain.times import to_text, truncate

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

    def __init__(self, path: Path, boot_id: str | None, position: Mapping[str, Any], clock: AgentClock) -> None:
        super().__init__()
        self._path = path
        self._clock = clock
        self._boot_id = boot_id
        same_boot = boot_id is not None and position.get("boot") == boot_id
        self._sequence = int(position.get("seq", -1)) if same_boot else -1
        stored = position.get("booted_at") if same_boot else None
        self._booted_at = None if stored is None else datetime.fromtimestamp(stored / 1000, UTC)
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
        """Count the unfinished line as lost, and skip the rest of it.

        The sequence number of the lost line is stored. Otherwise the next line would show a gap, and the lost line
        would count twice.
        """
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
