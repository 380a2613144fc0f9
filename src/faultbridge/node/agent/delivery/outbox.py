"""The outbox: passes records from the main loop to the sender thread."""

from __future__ import annotations

import json
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from faultbridge.model.times import to_text
from faultbridge.node.agent.cursors import Cursor
from faultbridge.node.agent.delivery.records import OutgoingRecord, RecordPacker, Wait
from faultbridge.node.agent.host import AgentClock

BLOCK_BYTES = 4096
QUARANTINE_SHARE = 1 / 8
"""Share of the disk limit for records in quarantine; above it, the oldest of them is deleted."""

_READY, _UNFINISHED, _QUARANTINED = ".rec", ".tmp", ".refused"


class SpoolFull(Exception):  # noqa: N818 - names the situation: the record itself is valid
    """A record could not be written: the disk is full or fails, or the disk limit of the agent is used up."""


def _nothing() -> None:
    return


def every_name(_name: str) -> bool:
    """Return True for each name, to select every record."""
    return True


class Spool:
    """A folder with one file per record. The file names are numbers in the order of storing.

    - The main loop and the sender thread may use the spool at the same time.
    - A record file is written under a temporary name and then renamed, so a crash leaves a complete record or none.
    - The last record of a batch of log lines also contains the cursor of the log, so that the lines and the position
      after them are stored together.
    - The file and the folder are synchronized to disk, so a stored record survives a power failure.
    - A record in quarantine is kept and not sent. After the next start of the agent, the record is sent again.
    """

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._files: deque[tuple[str, int]] = deque()
        self._quarantined: deque[tuple[str, int]] = deque()
        self.used_bytes = 0
        self._next_number = 1
        self.unreadable = 0
        self.cursors: dict[str, Cursor] = {}
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._recover()

    @property
    def waiting(self) -> int:
        """Return the number of stored records that wait for the queue."""
        return len(self._files)

    @property
    def quarantined(self) -> int:
        """Return the number of stored records in quarantine."""
        return len(self._quarantined)

    @property
    def waiting_bytes(self) -> int:
        """Return the disk space in bytes that the records waiting for the queue use, counted in whole blocks."""
        with self._lock:
            return sum(size for _, size in self._files)

    def has_room(self, share: float) -> bool:
        """Return whether less than `share` of the disk limit is used; `share` is between 0 and 1."""
        return self.used_bytes < self._max_bytes * share

    def store(self, record: OutgoingRecord, on_stored: Callable[[], object] = _nothing) -> None:
        """Write a record to disk, and call `on_stored` before the sender can read it; raises SpoolFull."""
        stored = record.to_bytes()
        size = _block_bytes(len(stored))
        with self._lock:
            if self.used_bytes + size > self._max_bytes:
                raise SpoolFull(f"{self.used_bytes} of {self._max_bytes} bytes are used")
            name = f"{self._next_number:016d}"
            self._write(name, stored)
            on_stored()
            self._next_number += 1
            self.used_bytes += size
            self._files.append((name, size))

    def oldest(
        self, max_records: int, max_bytes: int, selects: Callable[[str], bool] = every_name
    ) -> list[tuple[str, OutgoingRecord]]:
        """Read the oldest records, each with its name.

        Reads at most `max_records` records, whose messages have at most `max_bytes` bytes in total. A record is read
        only if `selects` returns True for its name. The first message may be larger than `max_bytes`. A file that is
        not a valid record is deleted and counted in `unreadable`.
        """
        with self._lock:
            names = list(islice((name for name, _ in self._files if selects(name)), max_records))
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
        """Delete the file of a record, and release its disk space."""
        with suppress(OSError):
            (self._folder / (name + _READY)).unlink()
        with self._lock:
            self.used_bytes -= sum(size for _, size in self._take(name))

    def quarantine(self, name: str) -> bool:
        """Keep a record without sending it. Returns False if the record is not kept.

        Records in quarantine use at most an eighth of the disk limit. Above that, those that were quarantined first are
        deleted. A record that has no file cannot be kept.
        """
        with suppress(OSError), self._lock:
            (self._folder / (name + _READY)).rename(self._folder / (name + _QUARANTINED))
            self._quarantined.extend(self._take(name))
        while sum(size for _, size in self._quarantined) > self._max_bytes * QUARANTINE_SHARE:
            oldest, size = self._quarantined.popleft()
            with suppress(OSError):
                (self._folder / (oldest + _QUARANTINED)).unlink()
            self.used_bytes -= size
        self.remove(name)
        return any(name == kept for kept, _ in self._quarantined)

    def _take(self, name: str) -> list[tuple[str, int]]:
        taken = [file for file in self._files if file[0] == name]
        for file in taken:
            self._files.remove(file)
        return taken

    def _write(self, name: str, stored: bytes) -> None:
        unfinished = self._folder / (name + _UNFINISHED)
        try:
            with unfinished.open("wb", buffering=0) as file:
                written = file.write(stored)
                os.fsync(file.fileno())
            if written == len(stored):
                unfinished.rename(self._folder / (name + _READY))
                _sync_folder(self._folder)
                return
            failure = f"only {written} of {len(stored)} bytes were written"
        except OSError as error:
            failure = str(error)
        for stored_file in (unfinished, self._folder / (name + _READY)):
            with suppress(OSError):
                stored_file.unlink()
        raise SpoolFull(failure)

    def _load(self, name: str) -> OutgoingRecord | None:
        try:
            return OutgoingRecord.from_bytes((self._folder / (name + _READY)).read_bytes())
        except (OSError, ValueError):
            return None

    def _recover(self) -> None:
        with suppress(OSError):
            for path in sorted(self._folder.iterdir()):
                self._recover_file(path)

    def _recover_file(self, path: Path) -> None:
        with suppress(OSError):
            if path.suffix == _QUARANTINED:
                path = path.rename(path.with_suffix(_READY))
            if path.suffix == _UNFINISHED:
                path.unlink()
            elif path.suffix == _READY and path.stem.isdigit():
                size = _block_bytes(path.stat().st_size)
                self._files.append((path.stem, size))
                self.used_bytes += size
                self._next_number = max(self._next_number, int(path.stem) + 1)
                record = self._load(path.stem)
                if record is not None and record.cursor is not None:
                    self.cursors[record.cursor.log] = record.cursor


def _sync_folder(folder: Path) -> None:
    """Synchronize a folder to disk, so that the new name of a file in it survives a power failure."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _block_bytes(size: int) -> int:
    return -(-size // BLOCK_BYTES) * BLOCK_BYTES


MAX_IN_MEMORY = 6
REPEATABLE_SHARE = 0.5
"""Share of the disk limit for probe output, which the next run repeats; the rest is for log lines."""


class Outbox:
    """Passes records from the main loop to the sender thread, on disk or in memory.

    A record is kept in memory only if it could not be written to disk.

    - `dropped` counts the records and log lines that were lost, because they were not stored.
    - `quarantined` counts the calls of `quarantine`. `refusal` is the reason that the last call gave.
    - The event `urgent` is set when a record must be sent at once.
    - The event `changed` is set when a record must be sent within seconds.
    """

    def __init__(self, spool: Spool) -> None:
        self.spool = spool
        self.dropped = 0
        self.quarantined = 0
        self.refusal = ""
        self.new_records = threading.Event()
        self.urgent = threading.Event()
        self.urgent.set()
        self.changed = threading.Event()
        self._lock = threading.Lock()
        self._in_memory: dict[str, tuple[OutgoingRecord, Callable[[], object]]] = {}
        self._in_flight: set[str] = set()
        self._sent_from_memory: set[str] = set()

    @property
    def waiting(self) -> int:
        """Return the number of records that wait to be sent, on disk and in memory."""
        return self.spool.waiting + len(self._in_memory)

    @property
    def unsent(self) -> int:
        """Return the number of records that wait to be sent or are in quarantine."""
        return self.waiting + self.spool.quarantined

    @property
    def waiting_bytes(self) -> int:
        """Return the bytes that the records waiting to be sent use: on disk in whole blocks, and in memory."""
        with self._lock:
            held = sum(record.size + len(record.object_body) for record, _ in self._in_memory.values())
        return self.spool.waiting_bytes + held

    @property
    def has_room_for_probes(self) -> bool:
        """Return whether less than half of the disk limit is used, so that probe output may be stored."""
        return self.spool.has_room(REPEATABLE_SHARE)

    def store(self, record: OutgoingRecord, on_safe: Callable[[], object] = _nothing) -> bool:
        """Store a record on disk, and call `on_safe` before it can be sent; returns False if it failed."""
        try:
            self.spool.store(record, on_safe)
        except SpoolFull:
            return False
        self._announce(record.wait)
        return True

    def hold_in_memory(self, record: OutgoingRecord, on_safe: Callable[[], object] = _nothing) -> bool:
        """Keep a record in memory until the record is sent, permanently refused, or stored on disk.

        Returns False, and does not keep the record, if memory already contains the maximum number of records. `on_safe`
        is called once, when the record is sent, refused or stored. The caller must call `is_safe` repeatedly, because
        only that method stores the record on disk.
        """
        with self._lock:
            if len(self._in_memory) >= MAX_IN_MEMORY:
                return False
            self._in_memory[record.record_id] = (record, on_safe)
        self._announce(Wait.NONE)
        return True

    def is_safe(self, record: OutgoingRecord) -> bool:
        """Return whether a record in memory was sent, refused or stored; store it if there is room now.

        A record that the sender sends now is not stored.
        """
        with self._lock:
            if record.record_id in self._sent_from_memory:
                self._sent_from_memory.discard(record.record_id)
                return True
            held, on_safe = self._in_memory[record.record_id]
            if record.record_id in self._in_flight or not self.store(held, on_safe):
                return False
            self._in_memory.pop(record.record_id, None)
            return True

    def store_repeatable(self, record: OutgoingRecord | None) -> bool:
        """Store probe output; output without room or message is dropped, because the next run repeats it."""
        if record is not None and self.has_room_for_probes and self.store(record):
            return True
        self.dropped += 1
        return False

    def next_batch(
        self, max_records: int, max_bytes: int, selects: Callable[[str], bool] = every_name
    ) -> list[tuple[str, OutgoingRecord]]:
        """Return the records to send next, each with its name in the outbox.

        A record is returned only if `selects` returns True for its name. If such a record is kept in memory, it is
        returned alone. Without such a record, the batch has records from the disk, within `max_records` and
        `max_bytes`. Its first record may be larger than `max_bytes`.
        """
        with self._lock:
            held = [(name, record) for name, (record, _) in self._in_memory.items() if selects(name)][:1]
            self._in_flight = {name for name, _ in held}
        return held or self.spool.oldest(max_records, max_bytes, selects)

    def quarantine(self, name: str, reason: str) -> bool:
        """Stop sending a record that AWS refuses; returns False if it is lost, as it was only in memory."""
        self.quarantined += 1
        self.refusal = reason
        kept = self.spool.quarantine(name)
        self.remove([name])
        return kept

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

    def _announce(self, wait: Wait) -> None:
        if wait is Wait.NONE:
            self.urgent.set()
            self.new_records.set()
        elif wait is Wait.SHORT:
            self.changed.set()

    def end_batch(self) -> None:
        """End the attempt with the records of `next_batch`, during which `is_safe` stores none of them."""
        with self._lock:
            self._in_flight = set()


SOURCE, CODE = "faultbridge", "agent.notice"
INTERVAL_SECONDS = 3600.0
MAX_TEXT = 500


@dataclass(slots=True)
class QuarantineNotice:
    """Stores at most one notice of each kind per hour.

    A notice reports that a record was kept in quarantine, was lost, or could not be sent for minutes; each of these is
    a kind. AWS may refuse a notice too. Without a limit, each refused notice would cause another notice. If a notice
    cannot be stored, it is counted as dropped, and the next notice is not delayed.
    """

    packer: RecordPacker
    outbox: Outbox
    clock: AgentClock
    _stored_at: dict[str, float] = field(default_factory=dict)

    def __call__(self, kind: str, reason: str) -> None:
        """Store a notice, unless one of its kind was stored less than an hour ago."""
        if self.clock.monotonic() - self._stored_at.get(kind, float("-inf")) < INTERVAL_SECONDS:
            return
        at = self.clock.now()
        text = f"{kind}: {reason}"[:MAX_TEXT]
        notice = {
            "kind": "fault",
            "source": SOURCE,
            "code": CODE,
            "severity": "info",
            "action": "none",
            "component": {"type": "node", "name": None},
            "observed_at": to_text(at),
            "message": text,
            "evidence": text,
        }
        record = self.packer.pack(SOURCE, json.dumps(notice).encode() + b"\n", at, wait=Wait.SHORT)
        # Not `store_repeatable`: records that wait for access are quarantined when probe output has no room.
        if record is not None and self.outbox.store(record):
            self._stored_at[kind] = self.clock.monotonic()
        else:
            self.outbox.dropped += 1
