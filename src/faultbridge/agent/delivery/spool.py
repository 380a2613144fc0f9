"""The spool: stores records on disk, up to a limit, until the queue has accepted them."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from pathlib import Path

from faultbridge.agent.cursors import Cursor
from faultbridge.agent.delivery.records import OutgoingRecord

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
        self._used_bytes = 0
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

    @property
    def used_bytes(self) -> int:
        """Return the disk space in bytes that the records use, counted in whole blocks."""
        return self._used_bytes

    def has_room(self, share: float) -> bool:
        """Return whether less than `share` of the disk limit is used; `share` is between 0 and 1."""
        return self._used_bytes < self._max_bytes * share

    def store(self, record: OutgoingRecord, on_stored: Callable[[], object] = _nothing) -> None:
        """Write a record to disk; raises SpoolFull if this fails.

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
            self._used_bytes -= sum(size for _, size in self._take(name))

    def quarantine(self, name: str) -> bool:
        """Keep a record without sending it. Returns False if the record is not kept.

        Records in quarantine use at most an eighth of the disk limit. Above that, those that were quarantined first are
        deleted. A record that has no file cannot be kept.
        """
        with suppress(OSError), self._lock:
            (self._folder / (name + _READY)).rename(self._folder / (name + _QUARANTINED))
            self._quarantined.extend(self._take(name))
        while self._quarantined_bytes() > self._max_bytes * QUARANTINE_SHARE:
            oldest, size = self._quarantined.popleft()
            with suppress(OSError):
                (self._folder / (oldest + _QUARANTINED)).unlink()
            self._used_bytes -= size
        self.remove(name)
        return any(name == kept for kept, _ in self._quarantined)

    def _quarantined_bytes(self) -> int:
        return sum(size for _, size in self._quarantined)

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
                self._used_bytes += size
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
