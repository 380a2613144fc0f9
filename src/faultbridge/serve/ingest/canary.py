"""Canary: a test record that an installation sends to itself every five minutes.

It passes the queue, ingest, the table and the event bus like every other record. Ingest records it as a note in the
stream of the cluster `faultbridge-canary`. A metric counts the notes that arrive from the bus. If none arrives for ten
minutes, a CloudWatch alarm notifies operators.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from msgspec import Struct

from faultbridge.decide import entry_builder
from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.enums import Actor, NoteKind
from faultbridge.model.errors import Rejected, Transient
from faultbridge.model.event_data import NoteData
from faultbridge.model.log import log_cause
from faultbridge.model.records import CANARY, Outcome, RawRecord
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.wire.message import Message, encode_message
from faultbridge.model.storage.writes import Absent, Equals, Key, Put
from faultbridge.model.times import from_text, to_text, truncate
from faultbridge.record.append import Stack
from faultbridge.record.cluster_stream import cluster_writes
from faultbridge.record.ports.messaging import RecordQueue
from faultbridge.record.ports.table import Clock, Table

if TYPE_CHECKING:  # the sweep registers the cluster of canaries; ingest loads no registration
    from faultbridge.model.event_data import EventData
    from faultbridge.model.recorded import RecordedEvent
    from faultbridge.repair.registry.registration import Registration

CLUSTER = "faultbridge-canary"
"""A cluster without nodes. Canaries are notes on its stream, so they are archived and verified like other entries."""

LAST_RECORDED = Key("CANARY", "RECORDED")
"""Key of the item about the last canary that reached the table."""

LAST_RECEIVED = Key("CANARY", "RECEIVED")
"""Key of the item about the last canary that arrived from the bus."""

INTERVAL_MINUTES = 5
MIN_INTERVAL = timedelta(minutes=2)
"""A canary sent less than this time after the last recorded one is not recorded."""


class SendCanary(Struct, frozen=True):
    """Puts a canary (a test record) on the queue every five minutes. The sweep calls it each minute."""

    queue: RecordQueue
    registration: Registration
    clock: Clock

    def send(self) -> str | None:
        """Send a test record if one is due, and return its record id; return None if none is due.

        Raises Transient if the queue refuses the record.
        """
        now = truncate(self.clock.now())
        if now.minute % INTERVAL_MINUTES:
            return None
        self._register()
        record_id = f"canary-{now:%Y%m%dT%H%M}"
        message = Message(record_id, CANARY, CLUSTER, now, body=b"canary")
        if self.queue.send([(message.group, encode_message(message))]):
            raise Transient(f"the queue refused the canary: {record_id}")
        return record_id

    def _register(self) -> None:
        if self.registration.find_cluster(CLUSTER) is not None:
            return
        try:
            self.registration.add_cluster(ClusterConfig(CLUSTER))
        except Rejected as error:
            log_cause("canary_cluster_not_added", reason=error.reason, cluster=CLUSTER)  # another sweep added it first


class RecordCanary(Struct, frozen=True):
    """Records a canary (a test record) as a timeline note.

    A canary that was sent less than two minutes after the last recorded one is not recorded.
    """

    table: Table
    clock: Clock
    stack: Stack

    def record(self, record: RawRecord) -> Outcome:
        """Record a canary (a test record) as a note.

        Returns RECORDED if the note was written, and DUPLICATE if this canary is the latest recorded one. Returns STALE
        if it is older than the latest recorded one, or less than two minutes newer. Raises Conflict if another writer
        was first; the queue then delivers the canary again.
        """
        sent = truncate(min(record.sent_at, record.received_at))
        last = self.table.get(LAST_RECORDED)
        if last is not None:
            last_sent = from_text(str(last["sent_at"]))
            if sent == last_sent:
                return Outcome.DUPLICATE
            if sent < last_sent + MIN_INTERVAL:
                return Outcome.STALE
        now = truncate(self.clock.now())
        note = entry_builder.note(
            kind=NoteKind.CANARY,
            text="Canary recorded: queue, ingest and table work.",
            at=sent,
            record_id=record.record_id,
            facts={"sent_at": to_text(sent)},
        )
        state = items.read_cluster(CLUSTER, self.table.get(keys.cluster_state(CLUSTER)))
        _, writes = cluster_writes(self.stack, state, state, (note,), actor=Actor.INGEST, severity=None, now=now)
        unchanged = Absent() if last is None else Equals("sent_at", str(last["sent_at"]))
        stored = items.item(LAST_RECORDED, now, {"sent_at": to_text(sent)})
        self.table.transact([*writes, Put(stored, when=unchanged)])
        return Outcome.RECORDED


class ReceiveCanary(Struct, frozen=True):
    """Records that a canary (a test record) arrived from the event bus."""

    table: Table
    clock: Clock

    def receive(self, event: RecordedEvent[EventData | None]) -> timedelta:
        """Record the arrival of a canary (a test record) and return the time since it was sent.

        Raises Rejected `no_canary` for another event.
        """
        if not isinstance(event.data, NoteData) or event.data.kind != NoteKind.CANARY:
            raise Rejected("no_canary", f"not a canary: {event.metadata.event_id}")
        sent = from_text(str(event.data.facts["sent_at"]))
        now = truncate(self.clock.now())
        self.table.write(Put(items.item(LAST_RECEIVED, now, {"sent_at": to_text(sent)})))
        return now - sent


def last_sent_at(table: Table, key: Key) -> datetime | None:
    """Return when the canary of a stored item was sent, or None if the item does not exist.

    The item is at the key `LAST_RECORDED` or `LAST_RECEIVED`.
    """
    found = table.get(key)
    return from_text(str(found["sent_at"])) if found else None
