"""Rejects: stores raw records that ingest could not use, with the reason, and retries them.

A record of an unknown node or cluster is retried automatically for a day, each time when its age has doubled, because
the node may be registered later. Any other record stays until an operator fixes the cause and runs `reject retry`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import datetime, timedelta

from msgspec import Struct

from faultbridge.decide.normalize.mask_secrets import mask
from faultbridge.decide.normalize.trust import TRUST_ALL, Trust, instance_of
from faultbridge.model.errors import Conflict, Rejected, Transient
from faultbridge.model.log import log_cause
from faultbridge.model.records import RawRecord
from faultbridge.model.storage import keys, rejects
from faultbridge.model.storage.rejects import Reject
from faultbridge.model.storage.wire.message import Message, encode_message, fits, is_body_of, raw_key
from faultbridge.model.storage.writes import Absent, AnyOf, Below, Delete, Equals, Item, Key, Put, Update
from faultbridge.model.times import to_text
from faultbridge.model.values import replace
from faultbridge.record.ports.messaging import RecordQueue
from faultbridge.record.ports.objects import ObjectStore
from faultbridge.record.ports.table import Clock, Table
from faultbridge.serve.ingest.record_reader import UNREADABLE_PREFIX, Delivery, unreadable_id

MAX_PER_HOUR = 100
"""Maximum number of rejects of one counter that are stored in an hour; more are only counted."""

COUNTED_BY_SENDER = frozenset({"untrusted", "unknown_cluster", "unknown_source"})
"""Reasons for which the hourly limit counts all rejects of a sender together, even of a collector."""

RETRY_PERIOD = timedelta(hours=24)
MIN_RETRY_DELAY = timedelta(minutes=1)
RETRIED_REASONS = frozenset({"unknown_node", "unknown_cluster"})
MAX_DETAIL = 500


class Rejects(Struct, frozen=True):
    """Stores, lists and retries rejected records. Ingest calls it with each record that ingest rejects."""

    table: Table
    objects: ObjectStore
    queue: RecordQueue
    clock: Clock
    trust: Trust = TRUST_ALL

    def reject(self, delivery: Delivery, record: RawRecord | None, error: Rejected) -> None:
        """Store a rejected record with its reason.

        A second call for a record replaces the stored reject, unless that reject has the same or a later time of
        rejection. In an hour, at most about 100 records are stored for each instance and reason. A collector sends for
        many nodes, so its limit applies to each node, source and reason, except for the reasons in `COUNTED_BY_SENDER`.
        Further records are only counted.
        """
        reject, raw = self._describe(delivery, record, error)
        counter = rejects.counter(reject, self.clock.now(), by_sender=_is_counted_by_sender(reject))
        if self._is_full(counter):
            self.table.write(Update(counter, set=rejects.counter_label(reject), add={"n": 1, "dropped": 1}))
            return
        if raw is not None:
            self.objects.put(reject.raw, raw)
        put = Put(rejects.item(reject), when=AnyOf((Absent(), Below("rejected_at", to_text(reject.rejected_at)))))
        try:
            self.table.transact([put, Update(counter, set=rejects.counter_label(reject), add={"n": 1})])
        except Conflict as conflict:
            if self.table.get(rejects.key(reject)) is None:
                raise
            _log(reject, "reject_not_stored", "newer_reject_stored", error=str(conflict))

    def list(self, cluster: str) -> Iterator[Reject]:
        """Yield a cluster's rejected records, sorted by time of sending.

        The cluster `-` has the records of unknown clusters, and unreadable messages.
        """
        from faultbridge.record.queries import query_all  # ingest stores rejects and never lists them

        yield from map(rejects.read, query_all(self.table, keys.reject_partition(cluster), up_to=rejects.COUNTERS))

    def dropped(self, cluster: str) -> int:
        """Return how many rejected records of a cluster were counted but not stored, in the last 30 days."""
        from faultbridge.record.queries import query_all  # as in `list`

        counters = query_all(self.table, keys.reject_partition(cluster), prefix=rejects.COUNTERS)
        return sum(int(str(item.get("dropped", 0))) for item in counters)

    def find(self, record_id: str, cluster: str) -> Reject | None:
        """Return the stored reject of the record with this id in a cluster, or None if there is none."""
        return next((one for one in self.list(cluster) if one.record_id == record_id), None)

    def raw(self, reject: Reject) -> bytes | None:
        """Return the bytes of a rejected record, or None if they no longer exist."""
        return self.objects.get(reject.raw)

    def retry(self, reject: Reject) -> None:
        """Put a rejected record on the queue again with its original id and times, and delete the reject.

        A repeated call is harmless, because the pipeline applies the effects of a record only once. If the record is
        rejected again before the deletion, the newer reject is kept. Raises Rejected if the bytes of the record no
        longer exist or were replaced, and Transient if the queue refuses the record.
        """
        group, text = self._message(reject)
        if self.queue.send([(group, text)]):
            raise Transient(f"the queue refused the record: {reject.record_id}; run the command again")
        try:
            self.table.write(Delete(rejects.key(reject), when=Equals("rejected_at", to_text(reject.rejected_at))))
        except Conflict as conflict:
            _log(reject, "retried_reject_not_deleted", "rejected_again", error=str(conflict))

    def retry_at(self, key: Key) -> bool:
        """Retry the rejected record with this table key, whose timer is due; returns whether it was sent.

        Returns False if the reject or the bytes of its record no longer exist, or if these bytes were replaced. The
        automatic retries of the record then stop.
        """
        found = self.table.get(key)
        if found is None:
            return False
        reject = rejects.read(found)
        try:
            self.retry(reject)
        except Rejected as error:
            _log(reject, "reject_retries_stopped", error.reason, level=logging.WARNING)
            self._stop_retries(found)
            return False
        return True

    def _describe(self, delivery: Delivery, record: RawRecord | None, error: Rejected) -> tuple[Reject, bytes | None]:
        """Return the stored form of a rejected record (its reject), and the bytes to store.

        The second value is None if the object store already contains the bytes.
        """
        now = self.clock.now()
        try:
            message = delivery.message()
        except Rejected:
            return _unreadable(delivery, error, now)
        received = self.trust.received_at(delivery.sender, message.received_at, delivery.received_at)
        cluster = keys.NO_CLUSTER if error.reason == "unknown_cluster" else message.cluster
        body = record.body if record is not None else message.body
        body = None if body is None else mask(_unpacked(delivery, body))
        key = message.pointer or raw_key(message.cluster, message.sent_at, body or b"")
        reject = Reject(
            cluster=cluster,
            message=replace(message, body=None, pointer=key, received_at=received),
            reason=error.reason,
            detail=error.detail[:MAX_DETAIL],
            rejected_at=now,
            sender=self.trust.sender(delivery.sender, message.sender),
            size=None if body is None else len(body),
            due_at=_next_retry(error.reason, received, now),
        )
        return reject, None if message.pointer else body

    def _is_full(self, counter: Key) -> bool:
        found = self.table.get(counter)
        return found is not None and int(str(found["n"])) >= MAX_PER_HOUR

    def _message(self, reject: Reject) -> tuple[str, str]:
        raw = self.raw(reject)
        if raw is None:
            detail = f"the bytes of the record no longer exist: {reject.record_id}; send it again from its source"
            raise Rejected("raw_gone", detail)
        if not is_body_of(reject.raw, raw):
            detail = f"the bytes of the record were replaced: {reject.raw}; send the record again from its source"
            raise Rejected("body_changed", detail)
        if reject.unread:
            return UNREADABLE_PREFIX, raw.decode()
        with_pointer = replace(reject.message, sender=reject.sender)
        with_body = replace(with_pointer, body=raw, pointer=None)
        return with_body.group, encode_message(with_body if fits(with_body) else with_pointer)

    def _stop_retries(self, found: Item) -> None:
        self.table.write(Update(Key(str(found["pk"]), str(found["sk"])), remove=(("gsi4pk",), ("gsi4sk",))))


def _is_counted_by_sender(reject: Reject) -> bool:
    """Return whether the hourly limit counts all rejects of a sender together.

    Otherwise, it counts them by node and source. The result is True for a sender that is an instance, and for reasons
    in `COUNTED_BY_SENDER`. Limits by node would not stop such a sender, because its records can name any number of
    nodes and clusters.
    """
    return reject.reason in COUNTED_BY_SENDER or instance_of(reject.sender) is not None


def _unpacked(delivery: Delivery, body: bytes) -> bytes:
    try:
        return delivery.unmasked(body)
    except Rejected:
        return body


def _next_retry(reason: str, received: datetime, now: datetime) -> datetime | None:
    """Return when a rejected record is retried: when its age has doubled, at most a day after arrival.

    An age of less than a minute counts as a minute. Returns None if records with this `reason` are not retried, or if
    the record is a day old.
    """
    age = max(now - received, MIN_RETRY_DELAY)
    return min(now + age, received + RETRY_PERIOD) if reason in RETRIED_REASONS and age < RETRY_PERIOD else None


def _unreadable(delivery: Delivery, error: Rejected, now: datetime) -> tuple[Reject, bytes]:
    raw = mask(delivery.text.encode(errors="surrogatepass"))
    message = Message(
        record_id=unreadable_id(delivery.text),
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


def _log(reject: Reject, decision: str, reason: str, level: int = logging.INFO, **fields: str) -> None:
    ids = {"cluster": reject.cluster, "node": reject.message.node, "record_ids": [reject.record_id]}
    log_cause(decision, reason=reason, level=level, **ids, **fields)
