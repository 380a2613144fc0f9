"""The spool: records on the disk until the queue has them, never more than a cap."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from faultbridge.agent.outgoing import Mark, Outgoing

BLOCK_BYTES = 4096
_READY, _UNFINISHED = ".rec", ".tmp"


class SpoolFull(Exception):  # noqa: N818 - names the situation: nothing is wrong with the record
    """The disk, or what of it the agent may use, has no room for this record."""


def _nothing() -> None:
    return


class Spool:
    """A folder of files, one a record, sent in the order of their names; used by the loop and by the sender at once.

    A record becomes visible by a rename, so a crash leaves all of it or nothing. Its mark is part of it: a log line and
    the note that it was read are kept together or not at all.
    """

    def __init__(self, folder: Path, cap: int) -> None:
        self._folder = folder
        self._cap = cap
        self._lock = threading.Lock()
        self._waiting: deque[tuple[str, int]] = deque()
        self._used = 0
        self._next = 1
        self.unreadable = 0
        self.marks: dict[str, Mark] = {}
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._recover()

    @property
    def waiting(self) -> int:
        """Return how many records wait."""
        return len(self._waiting)

    @property
    def used(self) -> int:
        """Return the bytes of disk that they take, in whole blocks."""
        return self._used

    def room_for(self, share: float) -> bool:
        """Tell whether less than a share of the cap is used."""
        return self._used < self._cap * share

    def put(self, record: Outgoing, safe: Callable[[], object] = _nothing) -> None:
        """Keep a record; raises SpoolFull when there is no room, and then nothing is left behind.

        `safe` is called when the record is on the disk and before anybody can send it.
        """
        stored = record.to_bytes()
        taken = _blocks(len(stored))
        with self._lock:
            if self._used + taken > self._cap:
                raise SpoolFull(f"{self._used} of {self._cap} bytes are used")
            name = f"{self._next:016d}"
            self._write(name, stored)
            safe()
            self._next += 1
            self._used += taken
            self._waiting.append((name, taken))

    def oldest(self, count: int, size: int) -> list[tuple[str, Outgoing]]:
        """Read the first records, at most so many and so many bytes of message; one alone may be larger."""
        with self._lock:
            names = [name for name, _ in list(self._waiting)[:count]]
        found: list[tuple[str, Outgoing]] = []
        for name in names:
            record = self._load(name)
            if record is None:
                self.unreadable += 1
                self.done(name)
            elif found and size < record.size:
                break
            else:
                size -= record.size
                found.append((name, record))
        return found

    def done(self, name: str) -> None:
        """Let go of a record."""
        with suppress(OSError):
            (self._folder / (name + _READY)).unlink()
        with self._lock:
            gone = [entry for entry in self._waiting if entry[0] == name]
            for entry in gone:
                self._waiting.remove(entry)
                self._used -= entry[1]

    def _write(self, name: str, stored: bytes) -> None:
        unfinished = self._folder / (name + _UNFINISHED)
        try:
            with unfinished.open("wb", buffering=0) as file:
                written = file.write(stored)
            if written == len(stored):
                unfinished.rename(self._folder / (name + _READY))
                return
            said = f"only {written} of {len(stored)} bytes were written"
        except OSError as error:
            said = str(error)
        with suppress(OSError):
            unfinished.unlink()
        raise SpoolFull(said)

    def _load(self, name: str) -> Outgoing | None:
        try:
            return Outgoing.from_bytes((self._folder / (name + _READY)).read_bytes())
        except (OSError, ValueError):
            return None

    def _recover(self) -> None:
        """Take up what an earlier life left: every whole record, with the latest mark of each log."""
        with suppress(OSError):
            for path in sorted(self._folder.iterdir()):
                self._take_up(path)

    def _take_up(self, path: Path) -> None:
        with suppress(OSError):
            if path.suffix == _UNFINISHED:
                path.unlink()
            elif path.suffix == _READY and path.stem.isdigit():
                taken = _blocks(path.stat().st_size)
                self._waiting.append((path.stem, taken))
                self._used += taken
                self._next = max(self._next, int(path.stem) + 1)
                self._note_mark(path.stem)

    def _note_mark(self, name: str) -> None:
        record = self._load(name)
        if record is not None and record.mark is not None:
            self.marks[record.mark.log] = record.mark


def _blocks(size: int) -> int:
    return -(-size // BLOCK_BYTES) * BLOCK_BYTES
