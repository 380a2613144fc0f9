"""Marks: how far each log was followed, kept in a file that a full disk cannot harm.

The file is laid out when the disk has room and then only written over, one of two halves in turn, each with a checksum:
a half that was cut by a crash is found, and the other one holds.
"""

from __future__ import annotations

import json
import os
import zlib
from contextlib import suppress
from pathlib import Path

from faultbridge.agent.outgoing import Mark

HALF_BYTES = 1024


class MarkFile:
    """The mark of one log; without a file it starts from nothing, and remembers only as long as it lives."""

    def __init__(self, path: Path, log: str) -> None:
        self._log = log
        self._path = path
        self.mark = self._read() or Mark(log, 0, {})
        with suppress(OSError):
            if not path.exists() or path.stat().st_size != 2 * HALF_BYTES:
                path.write_bytes(b" " * 2 * HALF_BYTES)

    def advance(self, mark: Mark) -> bool:
        """Take note of a later mark; False when the disk did not take it."""
        if mark.n <= self.mark.n:
            return True
        self.mark = mark
        line = json.dumps([mark.n, dict(mark.value)]).encode()
        half = b"%08x %s\n" % (zlib.crc32(line), line)
        if len(half) > HALF_BYTES:
            return False
        try:
            with self._path.open("r+b", buffering=0) as file:
                os.pwrite(file.fileno(), half.ljust(HALF_BYTES), (mark.n % 2) * HALF_BYTES)
        except OSError:
            return False
        return True

    def _read(self) -> Mark | None:
        try:
            stored = self._path.read_bytes()
        except OSError:
            return None
        found = [mark for half in (stored[:HALF_BYTES], stored[HALF_BYTES:]) if (mark := self._half(half))]
        return max(found, key=lambda mark: mark.n, default=None)

    def _half(self, half: bytes) -> Mark | None:
        checksum, _, line = half.rstrip(b" ").rstrip(b"\n").partition(b" ")
        if not line or checksum != b"%08x" % zlib.crc32(line):
            return None
        n, value = json.loads(line)
        return Mark(self._log, n, value)
