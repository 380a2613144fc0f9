"""The spool: stores records on disk, up to a limit, until the queue has accepted them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from faultbridge.agent.cursors import Cursor
from faultbridge.agent.delivery.records import OutgoingRecord

BLOCK_BYTES = 4096
MAX_IN_MEMORY = 6
REPEATABLE_SHARE = 0.5
"""Share of the disk limit for probe output, which the next run repeats; the rest is for log lines."""

_READY, _UNFINISHED = ".rec", ".tmp"


class SpoolFull(Exception):  # noqa: N818 - names the situation: the record itself is valid
    """The disk is full, or the agent has used its disk limit."""


def _nothing() -> None:
    return


class Spool:
    """A folder with one file per record, sent in the order of the file names.

    The main loop and the sender thread may use it at the same time.
    A record appears by a rename, so a crash leaves a whole record or none. The record contains the cursor of its log,
    so a log line and the note that it was read are stored together.
    """

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._files: deque[tuple[str, int]] = deque()
        self._used_bytes = 0
        self._next_number = 1
        self.unreadable = 0
        self.cursors: dict[str, Cursor] = {}
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._recover()

    @property
    def waiting(self) -> int:
        """Return the number of stored records."""
        return len(self._files)

    @property
    def used_bytes(self) -> int:
        """Return the disk space that the records use, in whole blocks."""
        return self._used_bytes

    def has_room(self, share: float) -> bool:
        """Return whether less than this share of the disk limit is used."""
        return self._used_bytes < self._max_bytes * share

    def store(self, record: OutgoingRecord, on_stored: Callable[[], object] = _nothing) -> None:
        """Write a record to disk; raises SpoolFull and leaves no file behind when there is no room.

        Calls `on_stored` when the record is on disk, before the sender can read it.
        """
        stored = record.to_bytes()
        size = _block_bytes(len(stored))
        with self._lock:
            if self._used_bytes + size > self._max_bytes:
                raise SpoolFull(f"{self._used_bytes} of {self._max_bytes} bytes are used")
            name = f"{self._next_number:016d}"
            self._write(name, stored)
            on_stored()
            self._next_number += 1
            self._used_bytes += size
            self._files.append((name, size))

    def oldest(self, max_records: int, max_bytes: int) -> list[tuple[str, OutgoingRecord]]:
        """Read the oldest records within both limits; the first record may be larger than `max_bytes`."""
        with self._lock:
            names = [name for name, _ in list(self._files)[:max_records]]
        found: list[tuple[str, OutgoingRecord]] = []
        for name in names:
            record = self._load(name)
            if record is None:
                self.unreadable += 1
                self.remove(name)
            elif found and max_bytes < record.size:
                break
            else:
                max_bytes -= record.size
                found.append((name, record))
        return found

    def remove(self, name: str) -> None:
        """Delete a record."""
        with suppress(OSError):
            (self._folder / (name + _READY)).unlink()
        with self._lock:
            removed = [file for file in self._files if file[0] == name]
            for file in removed:
                self._files.remove(file)
                self._used_bytes -= file[1]

    def _write(self, name: str, stored: bytes) -> None:
        unfinished = self._folder / (name + _UNFINISHED)
        try:
            with unfinished.open("wb", buffering=0) as file:
                written = file.write(stored)
            if written == len(stored):
                unfinished.rename(self._folder / (name + _READY))
                return
            failure = f"only {written} of {len(stored)} bytes were written"
        except OSError as error:
            failure = str(error)
        with suppress(OSError):
            unfinished.unlink()
        raise SpoolFull(failure)

    def _load(self, name: str) -> OutgoingRecord | None:
        try:
            return OutgoingRecord.from_bytes((self._folder / (name + _READY)).read_bytes())
        except (OSError, ValueError):
            return None

    def _recover(self) -> None:
        """Load the complete records of an earlier process and the latest cursor of each log."""
        with suppress(OSError):
            for path in sorted(self._folder.iterdir()):
                self._recover_file(path)

    def _recover_file(self, path: Path) -> None:
        with suppress(OSError):
            if path.suffix == _UNFINISHED:
                path.unlink()
            elif path.suffix == _READY and path.stem.isdigit():
                size = _block_bytes(path.stat().st_size)
                self._files.append((path.stem, size))
                self._used_bytes += size
                self._next_number = max(self._next_number, int(path.stem) + 1)
                record = self._load(path.stem)
                if record is not None and record.cursor is not None:
                    self.cursors[record.cursor.log] = record.cursor


def _block_bytes(size: int) -> int:
    return -(-size // BLOCK_BYTES) * BLOCK_BYTES


class Outbox:
    """Passes records from the main loop to the sender thread: on disk, or in memory when it is full."""

    def __init__(self, spool: Spool) -> None:
        self.spool = spool
        self.dropped = 0
        self.new_records = threading.Event()
        self._lock = threading.Lock()
        self._in_memory: dict[str, tuple[OutgoingRecord, Callable[[], object]]] = {}
        self._in_flight: set[str] = set()
        self._sent_from_memory: set[str] = set()

    @property
    def waiting(self) -> int:
        """Return the number of records that are not sent yet."""
        return self.spool.waiting + len(self._in_memory)

    def store(self, record: OutgoingRecord, on_safe: Callable[[], object] = _nothing) -> bool:
        """Store a record on disk. Returns False when the disk has no room.

        Calls `on_safe` when the record is on disk, before it can be sent.
        """
        try:
            self.spool.store(record, on_safe)
        except SpoolFull:
            return False
        self.new_records.set()
        return True

    def hold_in_memory(self, record: OutgoingRecord, on_safe: Callable[[], object] = _nothing) -> bool:
        """Keep a record in memory until the record is sent, permanently refused, or stored on disk.

        `is_safe` tries to store the record on disk. Returns False, and does not keep the record, if memory already
        contains the maximum number of records. `on_safe` is called once, when the record leaves memory.
        """
        with self._lock:
            if len(self._in_memory) >= MAX_IN_MEMORY:
                return False
            self._in_memory[record.record_id] = (record, on_safe)
        self.new_records.set()
        return True

    def is_safe(self, record: OutgoingRecord) -> bool:
        """Return whether a record held in memory was sent; otherwise try again to store it on disk."""
        with self._lock:
            if record.record_id in self._sent_from_memory:
                self._sent_from_memory.discard(record.record_id)
                return True
            held, on_safe = self._in_memory[record.record_id]
            if record.record_id in self._in_flight or not self.store(held, on_safe):
                return False
            self._in_memory.pop(record.record_id, None)
            return True

    def store_repeatable(self, record: OutgoingRecord) -> None:
        """Store probe output, or drop and count it when half of the disk limit is used."""
        if not (self.spool.has_room(REPEATABLE_SHARE) and self.store(record)):
            self.dropped += 1

    def next_batch(self, max_records: int, max_bytes: int) -> list[tuple[str, OutgoingRecord]]:
        """Return the records to send next, each with the name that `remove` takes."""
        with self._lock:
            held = [(name, record) for name, (record, _) in self._in_memory.items()][:1]
            self._in_flight = {name for name, _ in held}
        if held:
            return held
        return self.spool.oldest(max_records, max_bytes)

    def remove(self, names: Iterable[str]) -> None:
        """Remove records that were sent or permanently refused."""
        for name in names:
            with self._lock:
                held = self._in_memory.pop(name, None)
                if held is not None:
                    held[1]()
                    self._sent_from_memory.add(name)
            if held is None:
                self.spool.remove(name)

    def end_batch(self) -> None:
        """End a send attempt, so that records held in memory may be stored on disk again."""
        with self._lock:
            self._in_flight = set()
