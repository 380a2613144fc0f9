"""Canary: a record that an installation sends to itself, so that its way from the queue to the bus is known to be open.

It travels as every record does and ends as a note on a stream of its own. Where the note is heard on the bus, a metric
says so; when that metric stays away, an alarm reaches people past everything that may be broken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from faultbridge.domain.clusters import ClusterConfig
from faultbridge.domain.edges import Actor
from faultbridge.domain.records import CANARY, Outcome, RawRecord
from faultbridge.domain.times import from_text, to_text, truncate
from faultbridge.errors import Rejected, Transient
from faultbridge.ledger.append import Stack
from faultbridge.ledger.cluster_stream import cluster_writes
from faultbridge.pipeline import entry_builder
from faultbridge.ports import Clock, RecordQueue, Table
from faultbridge.registry.registration import Registration
from faultbridge.storage import items, keys
from faultbridge.storage.wire.message import Message, encode_message
from faultbridge.storage.writes import Absent, Equals, Key, Put

CLUSTER = "faultbridge-canary"
"""The cluster without nodes on whose stream canaries are noted, so that they are verified and archived as all is."""

KEPT = Key("CANARY", "KEPT")
"""Where it stands which canary reached the table last."""

HEARD = Key("CANARY", "HEARD")
"""Where it stands which canary reached the bus last."""

EVERY_MINUTES = 5
MIN_APART = timedelta(minutes=2)


@dataclass(frozen=True, slots=True)
class SendCanary:
    """Puts a canary on the queue in every fifth minute."""

    queue: RecordQueue
    registration: Registration
    clock: Clock

    def __call__(self) -> str | None:
        """Send one if it is time and return its record id; raises Transient when the queue did not take it."""
        now = truncate(self.clock.now())
        if now.minute % EVERY_MINUTES:
            return None
        self._register()
        record_id = f"canary-{now:%Y%m%dT%H%M}"
        message = Message(record_id, CANARY, CLUSTER, now, body=b"canary")
        if self.queue.send([(message.group, encode_message(message))]):
            raise Transient(f"the queue did not take {record_id}")
        return record_id

    def _register(self) -> None:
        if self.registration.find_cluster(CLUSTER) is not None:
            return
        try:
            self.registration.add_cluster(ClusterConfig(CLUSTER))
        except Rejected:
            return  # another sweep was quicker


@dataclass(frozen=True, slots=True)
class RecordCanary:
    """Notes canaries on their stream: each once, however often it comes, and no more than there can be."""

    table: Table
    clock: Clock
    stack: Stack

    def __call__(self, record: RawRecord) -> Outcome:
        """Note a canary; raises Conflict when another writer was quicker, and then it comes again."""
        sent = truncate(min(record.sent_at, record.received_at))
        place = KEPT
        last = self.table.get(place)
        if last is not None:
            known = from_text(str(last["sent_at"]))
            if sent == known:
                return Outcome.DUPLICATE
            if sent < known + MIN_APART:
                return Outcome.STALE
        now = truncate(self.clock.now())
        note = entry_builder.note(
            kind=CANARY,
            text="the way from the queue to the table is open",
            at=sent,
            record_id=record.record_id,
            facts={"sent_at": to_text(sent)},
        )
        state = items.read_cluster(CLUSTER, self.table.get(keys.cluster_state(CLUSTER)))
        _, writes = cluster_writes(self.stack, state, state, (note,), actor=Actor.INGEST, severity=None, now=now)
        unchanged = Absent() if last is None else Equals("sent_at", str(last["sent_at"]))
        self.table.transact([*writes, Put(items.item(place, now, {"sent_at": to_text(sent)}), when=unchanged)])
        return Outcome.RECORDED


@dataclass(frozen=True, slots=True)
class ReceiveCanary:
    """Notes that a canary was heard on the bus."""

    table: Table
    clock: Clock

    def __call__(self, detail: Mapping[str, Any]) -> timedelta:
        """Return how long a canary was on its way; raises KeyError for an event that is none."""
        sent = from_text(str(detail["data"]["facts"]["sent_at"]))
        now = truncate(self.clock.now())
        self.table.write(Put(items.item(HEARD, now, {"sent_at": to_text(sent)})))
        return now - sent


def last_of(table: Table, key: Key) -> datetime | None:
    """Return when the canary was sent that was kept or heard last, or None before the first."""
    found = table.get(key)
    return from_text(str(found["sent_at"])) if found else None
