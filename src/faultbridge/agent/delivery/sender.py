"""Sends stored records to the queue in batches of ten, with increasing pauses after failures."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from faultbridge.agent.delivery.records import OutgoingRecord
from faultbridge.agent.delivery.spool import Outbox
from faultbridge.agent.host import AgentClock

BATCH_RECORDS = 10
BATCH_BYTES = 250 * 1024
MIN_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS = 1.0, 60.0


class SendFailed(Exception):  # noqa: N818 - names the situation, which the network ends
    """The queue or the bucket did not respond, or refused the whole call."""


class Transport(Protocol):
    """Sends messages to the queue and objects to the bucket."""

    def send_batch(self, records: Sequence[OutgoingRecord]) -> tuple[set[str], set[str]]:
        """Send messages and return the accepted and the permanently refused ids; raises SendFailed."""
        ...

    def put_object(self, key: str, body: bytes) -> None:
        """Write an object to the bucket; raises SendFailed."""
        ...


@dataclass(slots=True)
class Sender:
    """Sends the records of an outbox, and a new heartbeat every `heartbeat_seconds`.

    A heartbeat is never stored: ingest would read a late one as a wrong clock on the node.
    """

    outbox: Outbox
    transport: Transport
    clock: AgentClock
    new_heartbeat: Callable[[], OutgoingRecord]
    heartbeat_seconds: float = 60.0
    random: random.Random = random.Random()  # noqa: RUF009, S311 - jitter, no secret
    sent: int = 0
    refused: int = 0
    failures: int = 0
    _heartbeat_at: float = float("-inf")
    _backoff_until: float = float("-inf")

    def send_due(self) -> bool:
        """Send one batch if it is due. Returns False when nothing more can be sent now.

        Never raises SendFailed; a failed batch is sent again after a pause.
        """
        now = self.clock.monotonic()
        if now - self._heartbeat_at >= self.heartbeat_seconds:
            self._heartbeat_at = now
            self._try([self.new_heartbeat()])
        if now < self._backoff_until:
            return False
        batch = self.outbox.next_batch(BATCH_RECORDS, BATCH_BYTES)
        if not batch:
            return False
        finished = self._try([record for _, record in batch])
        self.outbox.remove(name for name, record in batch if record.record_id in finished)
        self.outbox.end_batch()
        if finished:
            return True
        self._back_off(now)
        return False

    def _try(self, records: Sequence[OutgoingRecord]) -> set[str]:
        try:
            for record in records:
                if record.object_key is not None:
                    self.transport.put_object(record.object_key, record.object_body)
            accepted, refused = self.transport.send_batch(records)
        except SendFailed:
            self.failures += 1
            return set()
        self.failures = 0
        self.sent += len(accepted)
        self.refused += len(refused)
        return accepted | refused

    def _back_off(self, now: float) -> None:
        longest = min(MIN_BACKOFF_SECONDS * 2 ** min(self.failures, 8), MAX_BACKOFF_SECONDS)
        self._backoff_until = now + self.random.uniform(longest / 2, longest)
