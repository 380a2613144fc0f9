"""Cursors: the position up to which each log was read, stored so that a full disk cannot damage it.

The file has a fixed size and two halves. Each update overwrites one half, in turn, with a checksum. A crash during a
write damages one half only, and the other half is still valid.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HALF_BYTES = 1024


@dataclass(frozen=True, slots=True)
class Cursor:
    """A read position in one log; `number` increases by one with each record of that log."""

    log: str
    number: int
    position: Mapping[str, Any]


class CursorFile:
    """The stored cursor of one log. Without a readable file the cursor starts at number 0."""

    def __init__(self, path: Path, log: str) -> None:
        self._log = log
        self._path = path
        self.cursor = self._read() or Cursor(log, 0, {})
        with suppress(OSError):
            if not path.exists() or path.stat().st_size != 2 * HALF_BYTES:
                path.write_bytes(b" " * 2 * HALF_BYTES)

    def advance(self, cursor: Cursor) -> bool:
        """Store a cursor unless it is older than the current one. Returns False when the write failed."""
        if cursor.number <= self.cursor.number:
            return True
        self.cursor = cursor
        line = json.dumps([cursor.number, dict(cursor.position)]).encode()
        half = b"%08x %s\n" % (zlib.crc32(line), line)
        if len(half) > HALF_BYTES:
            return False
        try:
            with self._path.open("r+b", buffering=0) as file:
                os.pwrite(file.fileno(), half.ljust(HALF_BYTES), (cursor.number % 2) * HALF_BYTES)
        except OSError:
            return False
        return True

    def _read(self) -> Cursor | None:
        try:
            stored = self._path.read_bytes()
        except OSError:
            return None
        halves = (stored[:HALF_BYTES], stored[HALF_BYTES:])
        found = [cursor for half in halves if (cursor := self._parse_half(half))]
        return max(found, key=lambda cursor: cursor.number, default=None)

    def _parse_half(self, half: bytes) -> Cursor | None:
        checksum, _, line = half.rstrip(b" ").rstrip(b"\n").partition(b" ")
        if not line or checksum != b"%08x" % zlib.crc32(line):
            return None
        number, position = json.loads(line)
        return Cursor(self._log, number, position)
