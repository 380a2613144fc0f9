"""The outbox: passes records from the main loop to the sender thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from faultbridge.agent.delivery.records import OutgoingRecord, Wait
from faultbridge.agent.delivery.spool import Spool, SpoolFull, every_name

MAX_IN_MEMORY = 6
REPEATABLE_SHARE = 0.5
"""Share of the disk limit for probe output, which the next run repeats; the rest is for log lines."""


def _nothing() -> None:
    return


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
        """Store a record on disk. Returns False if the record could not be written.

        Calls `on_safe` when the record is on disk, before the record can be sent.
        """
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
        """Return whether a record that was kept in memory has been sent, refused or stored on disk.

        Stores the record on disk if the disk has room and the sender does not send the record now.
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
        """Store probe output. Returns False when the output was dropped and counted in `dropped`.

        Output is dropped if no message can contain it (`record` is None), if half of the disk limit is used, or if it
        cannot be written. Dropping it is acceptable, because the next run of the probe repeats the output.
        """
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
        """Stop sending a record that AWS refuses, and keep the record on disk if possible.

        Returns False if the record is lost, for example because it was only in memory.
        """
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
        """End the attempt to send the records that `next_batch` returned last.

        From `next_batch` to `end_batch`, `is_safe` does not store a record of the attempt on disk, because the sender
        would send the stored record again.
        """
        with self._lock:
            self._in_flight = set()
