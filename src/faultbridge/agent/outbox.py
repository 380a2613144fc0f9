"""The outbox: the spool, and a few records in memory when the disk takes none."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from faultbridge.agent.outgoing import Outgoing
from faultbridge.agent.spool import Spool, SpoolFull

MAX_LENT = 6
DOCUMENTS_SHARE = 0.5
"""Of the disk, for what the next look will say anew; the rest is for what is said only once."""


def _nothing() -> None:
    return


class Outbox:
    """Where the loop puts records and the sender takes them; safe for one thread on each side."""

    def __init__(self, spool: Spool) -> None:
        self.spool = spool
        self.dropped = 0
        self.more = threading.Event()
        self._lock = threading.Lock()
        self._lent: dict[str, tuple[Outgoing, Callable[[], object]]] = {}
        self._flying: set[str] = set()
        self._landed: set[str] = set()

    @property
    def waiting(self) -> int:
        """Return how many records wait."""
        return self.spool.waiting + len(self._lent)

    def keep(self, record: Outgoing, safe: Callable[[], object] = _nothing) -> bool:
        """Keep a record for good, and call `safe` before it can be sent; False when the disk has no room."""
        try:
            self.spool.put(record, safe)
        except SpoolFull:
            return False
        self.more.set()
        return True

    def lend(self, record: Outgoing, safe: Callable[[], object] = _nothing) -> bool:
        """Hold a record in memory, to be sent from there and then be `safe`; the caller asks `settled` until it is."""
        with self._lock:
            if len(self._lent) >= MAX_LENT:
                return False
            self._lent[record.record_id] = (record, safe)
        self.more.set()
        return True

    def settled(self, record: Outgoing) -> bool:
        """Tell whether a lent record is safe: sent meanwhile, or on the disk now."""
        with self._lock:
            if record.record_id in self._landed:
                self._landed.discard(record.record_id)
                return True
            lent, safe = self._lent[record.record_id]
            if record.record_id in self._flying or not self.keep(lent, safe):
                return False
            self._lent.pop(record.record_id, None)
            return True

    def offer(self, record: Outgoing) -> None:
        """Take what the next look will say anew: kept while half the disk is free, else dropped and counted."""
        if not (self.spool.room_for(DOCUMENTS_SHARE) and self.keep(record)):
            self.dropped += 1

    def take(self, count: int, size: int) -> list[tuple[str, Outgoing]]:
        """Return what should be sent next, each with the name under which it is given back or done with."""
        with self._lock:
            lent = [(name, record) for name, (record, _) in self._lent.items()][:1]
            self._flying = {name for name, _ in lent}
        if lent:
            return lent
        return self.spool.oldest(count, size)

    def done(self, names: Iterable[str]) -> None:
        """Let go of what was sent."""
        for name in names:
            with self._lock:
                lent = self._lent.pop(name, None)
                if lent is not None:
                    lent[1]()
                    self._landed.add(name)
            if lent is None:
                self.spool.done(name)

    def back(self) -> None:
        """End a try to send: what is not done may be kept in another way."""
        with self._lock:
            self._flying = set()
