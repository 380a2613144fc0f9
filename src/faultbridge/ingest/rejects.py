"""Rejects: raw records that nobody could use, kept whole with the reason, and tried again when the cause is gone.

A node or cluster that nobody registered may be registered later: such a record is tried again by itself for a day,
after pauses as long as it is old. Every other one waits for somebody who mends the cause and says `reject retry`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from faultbridge.domain.records import RawRecord
from faultbridge.domain.times import to_text
from faultbridge.errors import Conflict, Rejected, Transient
from faultbridge.ingest.record_reader import Delivery
from faultbridge.ledger.queries import query_all
from faultbridge.pipeline.normalize.mask_secrets import mask
from faultbridge.pipeline.normalize.trust import TRUST_ALL, Trust
from faultbridge.ports import Clock, ObjectStore, RecordQueue, Table
from faultbridge.storage import keys, rejects
from faultbridge.storage.rejects import Reject
from faultbridge.storage.wire.message import Message, decode_message, encode_message, fits, raw_key
from faultbridge.storage.writes import Absent, AnyOf, Below, Delete, Equals, Item, Key, Put, Update

MAX_AN_HOUR = 100
RETRIED_FOR = timedelta(hours=24)
SHORTEST_PAUSE = timedelta(minutes=1)
RETRIED = frozenset({"unknown_node", "unknown_cluster"})
UNREAD = "unread-"
MAX_DETAIL = 500


@dataclass(frozen=True, slots=True)
class Rejects:
    """Keeps rejected records; calling it with a delivery and an error is how ingest rejects."""

    table: Table
    objects: ObjectStore
    queue: RecordQueue
    clock: Clock
    trust: Trust = TRUST_ALL

    def __call__(self, delivery: Delivery, record: RawRecord | None, error: Rejected) -> None:
        """Keep a record that cannot be used; a repetition of it stands in the same place.

        Of one node, source and reason 100 an hour are kept, the others are only counted.
        """
        reject, raw = self._describe(delivery, record, error)
        counter = rejects.counter(reject, self.clock.now())
        if self._full(counter):
            self.table.write(Update(counter, set=rejects.counter_label(reject), add={"n": 1, "dropped": 1}))
            return
        if raw is not None:
            self.objects.put(reject.raw, raw)
        put = Put(rejects.item(reject), when=AnyOf((Absent(), Below("rejected_at", to_text(reject.rejected_at)))))
        try:
            self.table.transact([put, Update(counter, set=rejects.counter_label(reject), add={"n": 1})])
        except Conflict:
            if self.table.get(rejects.key(reject)) is None:
                raise

    def list(self, cluster: str) -> Iterator[Reject]:
        """List the rejects of a cluster, oldest first; `-` has those of clusters that nobody registered."""
        yield from map(rejects.read, query_all(self.table, keys.reject_partition(cluster), up_to=rejects.COUNTERS))

    def dropped(self, cluster: str) -> int:
        """Return how many rejects of the last hours were only counted."""
        page = self.table.query(keys.reject_partition(cluster), prefix=rejects.COUNTERS)
        return sum(int(str(item.get("dropped", 0))) for item in page.items)

    def find(self, record_id: str, cluster: str) -> Reject | None:
        """Return the reject of a record, by its id."""
        return next((one for one in self.list(cluster) if one.record_id == record_id), None)

    def raw(self, reject: Reject) -> bytes | None:
        """Return the record's bytes as they came, or None where they are gone."""
        return self.objects.get(reject.raw)

    def retry(self, reject: Reject) -> None:
        """Put the record on the queue again, with its id and times, then take its row away.

        Doing it twice is harmless: the record's effects are remembered, and a row that a new rejection wrote in
        between stays. Raises Rejected when the raw record is no longer kept, Transient when the queue takes nothing.
        """
        group, text = self._again(reject)
        if self.queue.send([(group, text)]):
            raise Transient("the queue did not take the record")
        try:
            self.table.write(Delete(rejects.key(reject), when=Equals("rejected_at", to_text(reject.rejected_at))))
        except Conflict:
            return

    def retry_at(self, key: Key) -> bool:
        """Try again the reject at a key that a timer named; False when it is gone or cannot be tried."""
        found = self.table.get(key)
        if found is None:
            return False
        reject = rejects.read(found)
        try:
            self.retry(reject)
        except Rejected:
            self._stop(found)
            return False
        return True

    def _describe(self, delivery: Delivery, record: RawRecord | None, error: Rejected) -> tuple[Reject, bytes | None]:
        now = self.clock.now()
        try:
            message = decode_message(delivery.text)
        except Rejected:
            return _unread(delivery, error, now)
        received = message.received_at or delivery.received_at
        cluster = keys.NO_CLUSTER if error.reason == "unknown_cluster" else message.cluster
        body = record.body if record is not None else message.body
        body = None if body is None else mask(body)
        key = message.pointer or raw_key(message.cluster, message.sent_at, body or b"")
        reject = Reject(
            cluster=cluster,
            message=replace(message, body=None, pointer=key, received_at=received),
            reason=error.reason,
            detail=error.detail[:MAX_DETAIL],
            rejected_at=now,
            sender=self.trust.sender(delivery.sender, message.sender),
            size=None if body is None else len(body),
            due_at=_due_at(error.reason, received, now),
        )
        return reject, None if message.pointer else body

    def _full(self, counter: Key) -> bool:
        found = self.table.get(counter)
        return found is not None and int(str(found["n"])) >= MAX_AN_HOUR

    def _again(self, reject: Reject) -> tuple[str, str]:
        raw = self.raw(reject)
        if raw is None:
            raise Rejected("raw_gone", f"the raw record {reject.record_id} is no longer kept")
        if reject.unread:
            return UNREAD, raw.decode()
        pointing = replace(reject.message, sender=reject.sender)
        whole = replace(pointing, body=raw, pointer=None)
        return whole.group, encode_message(whole if fits(whole) else pointing)

    def _stop(self, found: Item) -> None:
        self.table.write(Update(Key(str(found["pk"]), str(found["sk"])), remove=(("gsi4pk",), ("gsi4sk",))))


def _due_at(reason: str, received: datetime, now: datetime) -> datetime | None:
    age = max(now - received, SHORTEST_PAUSE)
    return min(now + age, received + RETRIED_FOR) if reason in RETRIED and age < RETRIED_FOR else None


def _unread(delivery: Delivery, error: Rejected, now: datetime) -> tuple[Reject, bytes]:
    """Describe a message that is none: its whole text is the record, and the queue's time the only one known."""
    text = delivery.text.encode(errors="surrogatepass")
    raw = mask(text)
    message = Message(
        record_id=UNREAD + hashlib.sha256(text).hexdigest()[:24],
        source="?",
        cluster=keys.NO_CLUSTER,
        sent_at=delivery.received_at,
        received_at=delivery.received_at,
        pointer=raw_key("unread", delivery.received_at, raw),
    )
    reject = Reject(
        cluster=keys.NO_CLUSTER,
        message=message,
        reason=error.reason,
        detail=error.detail[:MAX_DETAIL],
        rejected_at=now,
        sender=delivery.sender,
        size=len(raw),
        unread=True,
    )
    return reject, raw
