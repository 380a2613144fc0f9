"""Stores cursors, the positions up to which each log was read, so that a full disk cannot damage them.

A cursor file has two halves. An update writes the cursor and a checksum to the half that does not contain the latest
valid cursor. A crash during a write damages only this half, and the other half is still valid. The size of the file
does not change, except when a cursor does not fit into a half. Then a larger file replaces the file.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path

from faultbridge.model.records import SAMPLE_INTERVAL, SentValues
from faultbridge.model.storage.wire.message import DIGEST_LENGTH, MAX_LAST_SENT
from faultbridge.model.times import from_text, to_text

HALF_BYTES = 1024


@dataclass(frozen=True, slots=True)
class Cursor:
    """A read position in one log.

    `number` is one higher than in the previous cursor of the log. `position` is what the reader of the log needs to
    continue, such as a boot id and a sequence number.
    """

    log: str
    number: int
    position: Mapping[str, object]


class CursorFile:
    """The file with the cursor of one log; without a valid one, number 0 and an empty position."""

    def __init__(self, path: Path, log: str) -> None:
        self._log = log
        self._path = path
        self._half_bytes = HALF_BYTES
        self._latest_half = 0
        self.failures = 0
        self.cursor = self._read() or Cursor(log, 0, {})
        with suppress(OSError):
            if not path.exists() or path.stat().st_size != 2 * self._half_bytes:
                path.write_bytes(b" " * 2 * self._half_bytes)

    def advance(self, cursor: Cursor) -> bool:
        """Store a cursor if its number is higher than the number of the current cursor; otherwise do nothing.

        Returns False, and increases `failures`, if the write failed; returns True in all other cases.
        """
        if cursor.number <= self.cursor.number:
            return True
        self.cursor = cursor
        line = json.dumps([cursor.number, dict(cursor.position)]).encode()
        half = b"%08x %s\n" % (zlib.crc32(line), line)
        index = 1 - self._latest_half
        try:
            if len(half) > self._half_bytes:
                self._grow(half, index)
            else:
                self._write(half, index)
        except OSError:
            self.failures += 1
            return False
        self._latest_half = index
        return True

    def _write(self, half: bytes, index: int) -> None:
        with self._path.open("r+b", buffering=0) as file:
            written = os.pwrite(file.fileno(), half.ljust(self._half_bytes), index * self._half_bytes)
        if written != self._half_bytes:
            raise OSError(f"only {written} of {self._half_bytes} bytes were written")

    def _grow(self, half: bytes, index: int) -> None:
        """Replace the file by a larger one, with the encoded cursor `half` in the half `index`."""
        size = self._half_bytes
        while size < len(half):
            size *= 2
        halves = [b" " * size, b" " * size]
        halves[index] = half.ljust(size)
        larger = self._path.with_name(self._path.name + ".larger")
        larger.write_bytes(b"".join(halves))
        larger.rename(self._path)
        self._half_bytes = size

    def _read(self) -> Cursor | None:
        try:
            stored = self._path.read_bytes()
        except OSError:
            return None
        self._half_bytes = max(len(stored) // 2, HALF_BYTES)
        halves = (stored[: self._half_bytes], stored[self._half_bytes :])
        found = {index: cursor for index, half in enumerate(halves) if (cursor := self._parse_half(half))}
        self._latest_half = max(found, key=lambda index: found[index].number, default=self._latest_half)
        return found.get(self._latest_half)

    def _parse_half(self, half: bytes) -> Cursor | None:
        checksum, _, line = half.rstrip(b" ").rstrip(b"\n").partition(b" ")
        if not line or checksum != b"%08x" % zlib.crc32(line):
            return None
        number, position = json.loads(line)
        return Cursor(self._log, number, position)


# Value log: stores when the latest sets of counter values of each source were last sent.
#
# The agent sends these times with the next counter sample. Ingest needs the times, because it rarely stores a sample
# whose values equal those of the sample before. The log is written to the spool folder before the sample is stored as a
# record, so that a restart of the agent does not lose the times.


@dataclass(slots=True)
class ValueLog:
    """The latest sets of counter values of each source, as digests, and when each was last sent."""

    folder: Path | None = None
    _last_sent: dict[str, Mapping[str, datetime]] = field(default_factory=dict)
    _files: dict[str, CursorFile] = field(default_factory=dict)

    def add(self, source: str, digest: str, at: datetime) -> SentValues:
        """Record that a set of values is sent at `at`; return its digest and when earlier sets were sent.

        - If the same set was sent less than five minutes before, the log keeps the earlier time, because ingest stores
          equal samples at most every five minutes.
        - If the log cannot be stored on disk, the agent would lose the time in a restart. The result then has no
          digest, so that ingest stores the sample although its values are unchanged.
        """
        digest, before = digest[:DIGEST_LENGTH], self._read(source)
        sent_at = before.get(digest)
        if sent_at is not None and timedelta(0) <= at - sent_at < SAMPLE_INTERVAL:
            at = sent_at
        latest = {digest: at, **{one: time for one, time in before.items() if one != digest}}
        self._last_sent[source] = dict(islice(latest.items(), MAX_LAST_SENT))
        return SentValues(digest if self._store(source) else None, before)

    def _read(self, source: str) -> Mapping[str, datetime]:
        if source not in self._last_sent:
            stored = self._file(source).cursor.position if self.folder is not None else {}
            self._last_sent[source] = {digest: from_text(at) for digest, at in stored.items()}
        return self._last_sent[source]

    def _store(self, source: str) -> bool:
        if self.folder is None:
            return True
        file = self._file(source)
        position = {digest: to_text(at) for digest, at in self._last_sent[source].items()}
        return file.advance(Cursor(file.cursor.log, file.cursor.number + 1, position))

    def _file(self, source: str) -> CursorFile:
        if source not in self._files:
            assert self.folder is not None  # noqa: S101 - checked by the callers
            self._files[source] = CursorFile(self.folder / f"values-{source}.cursor", source)
        return self._files[source]
