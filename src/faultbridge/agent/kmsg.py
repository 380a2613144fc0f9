"""/dev/kmsg: the kernel's own ring, line by line, each line once a boot."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from faultbridge.agent.clock import AgentClock
from faultbridge.agent.folding import Line
from faultbridge.domain.times import to_text, truncate

SOURCE = "kernel-log"
READ_BYTES = 8192  # the longest record of the device; a shorter read fails
MAX_LINE_BYTES = 16 * 1024
SAME_CLOCK = timedelta(seconds=2)
_RECORD = re.compile(rb"(\d{1,6}),(\d{1,18}),(\d{1,18}),[^,;]{1,16}(?:,[^;]{0,200})?;")


class KmsgLog:
    """Reads what the ring holds beyond a mark (boot id and sequence), without ever waiting.

    A line keeps its record's header, which says who wrote it, and gets the wall clock's time in front: a boot's first
    lines may be read much later. The mark also keeps when the uptime was zero, so that a line read twice has one time.
    """

    name = "kmsg"
    source = SOURCE

    def __init__(self, path: Path, boot_id: str | None, mark: Mapping[str, Any], clock: AgentClock) -> None:
        self._path = path
        self._clock = clock
        self._boot = boot_id
        same = boot_id is not None and mark.get("boot") == boot_id
        self._sequence = int(mark.get("seq", -1)) if same else -1
        self._zero = datetime.fromtimestamp(mark["zero"] / 1000, UTC) if same and "zero" in mark else None
        self._file: int | None = None
        self._partial = b""
        self.lost = 0

    def read(self, most: int) -> Iterator[Line]:
        """Yield the lines that are there, until about so many bytes were read."""
        self._set_clock()
        read = 0
        while read < most:
            chunk = self._chunk()
            if not chunk:
                return
            read += len(chunk)
            *whole, self._partial = (self._partial + chunk).split(b"\n")
            for raw in whole:
                line = self._line(raw)
                if line is not None:
                    yield line
            if len(self._partial) > MAX_LINE_BYTES:
                self._partial = b""

    def close(self) -> None:
        """Let go of the device."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _set_clock(self) -> None:
        # As whole milliseconds, as the mark keeps it: else a line read twice could have two times.
        zero = truncate(self._clock.now() - timedelta(seconds=self._clock.monotonic()))
        if self._zero is None or abs(zero - self._zero) > SAME_CLOCK:
            self._zero = zero

    def _chunk(self) -> bytes:
        try:
            if self._file is None:
                self._file = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            chunk = os.read(self._file, READ_BYTES)
        except OSError as error:
            if error.errno == errno.EPIPE:  # the ring ran over what was not read; the sequence says by how much
                return b"\n"
            if error.errno != errno.EAGAIN:
                self.close()
            return b""
        if not chunk:  # a pipe whose writer went away, perhaps within a line
            self._partial = b""
        return chunk

    def _line(self, raw: bytes) -> Line | None:
        found = _RECORD.match(raw)
        if found is None:  # a dictionary line of the record before, or no record at all
            return None
        sequence = int(found[2])
        if sequence <= self._sequence:
            return None
        if self._sequence >= 0:
            self.lost += sequence - self._sequence - 1
        self._sequence = sequence
        zero = self._zero or self._clock.now()
        at = zero + timedelta(microseconds=int(found[3]))
        mark = {"boot": self._boot, "seq": sequence, "zero": round(zero.timestamp() * 1000)}
        head = f"{to_text(at)} {found[0].decode()}"
        return Line(head, raw[found.end() : found.end() + MAX_LINE_BYTES].decode("utf-8", "replace"), mark)
