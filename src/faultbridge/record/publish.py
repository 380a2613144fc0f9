"""Publish: sends entries from the table to the event bus, at least once each.

An event that is sent again has the same id. The index attributes `gsi4pk` and `gsi4sk` mark an entry that is not
published yet.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from faultbridge.model.errors import Conflict, Transient
from faultbridge.model.events.hyperpod import StackLocation, mirror
from faultbridge.model.events.wire import detail_of, stub_of
from faultbridge.model.log import log_cause
from faultbridge.model.recorded import read_event
from faultbridge.model.storage.writes import Item, Key, Present, Update
from faultbridge.record.ports.messaging import BusEvent, EventBus, FailedEvent
from faultbridge.record.ports.table import Table

STACK_ARN_PARTS = 6
MARKS_PER_TRANSACTION = 90
"""Limit of writes in a transaction; DynamoDB accepts 100."""

_UNPUBLISHED_MARK = (("gsi4pk",), ("gsi4sk",))


class Publish(Struct, frozen=True):
    """Sends entries to the event bus and removes their unpublished marks.

    The sweep publishes entries whose mark remains. Some entries of the clusters in `mirrored` are also sent as copies
    in the format of SageMaker HyperPod events.
    """

    table: Table
    bus: EventBus
    stack_id: str
    mirrored: frozenset[str] = frozenset()

    def publish(self, entries: Sequence[Item]) -> int:
        """Publish entry items and return their number; raises Transient if at least one must be sent again."""
        pending = {str(entry["event_id"]): entry for entry in entries}
        refused = self._put(pending, stub=False)
        permanent = {refusal.event_id: pending[refusal.event_id] for refusal in refused if refusal.permanent}
        _log_refusals("event_refused", refused)
        refused = [refusal for refusal in refused if not refusal.permanent]
        if permanent:
            # Consumers find gaps by sequence number: an event that the bus never accepts is sent without its data.
            stubs = self._put(permanent, stub=True)
            _log_refusals("event_stub_refused", stubs)
            refused += stubs
        delayed = {refusal.event_id for refusal in refused}
        refused += self._mirror({event_id: entry for event_id, entry in pending.items() if event_id not in delayed})
        unpublished = {refusal.event_id for refusal in refused}
        self._mark_done([_key(entry) for event_id, entry in pending.items() if event_id not in unpublished])
        if unpublished:
            reason = refused[0].reason
            raise Transient(
                f"{len(unpublished)} of {len(pending)} events were not published: {reason}; they are retried"
            )
        return len(pending)

    def from_table(self, entry_keys: Iterable[Key]) -> int:
        """Publish those entries with the given keys that are not published yet, and return their number."""
        items = self.table.get_many(entry_keys)
        pending = [item for item in items.values() if "gsi4pk" in item]
        return self.publish(pending) if pending else 0

    def _put(self, entries: Mapping[str, Item], *, stub: bool) -> list[FailedEvent]:
        """Put the events of entries on the bus; return the entries that failed.

        With `stub`, the events are sent without their data, because the bus permanently refused the complete events. A
        damaged entry fails and does not prevent the other entries from being sent.
        """
        events, failed = [], []
        for event_id, entry in entries.items():
            try:
                events.append(self._event(entry, stub=stub))
            except (KeyError, TypeError, ValueError) as error:
                failed.append(FailedEvent(event_id, f"{type(error).__name__}: {error}", permanent=False))
        return [*(self.bus.put(events) if events else ()), *failed]

    def _mirror(self, entries: Mapping[str, Item]) -> list[FailedEvent]:
        """Send copies of mirrored clusters' entries as HyperPod events; return the copies to send again.

        A copy that the bus permanently refuses is not sent again, because the original event is published.
        """
        if not self.mirrored:
            return []
        home = StackLocation.of(self.stack_id)
        copies = [
            BusEvent(event_id, copy.detail_type, copy.detail, copy.resources)
            for event_id, entry in entries.items()
            if entry.get("cluster") in self.mirrored
            for copy in mirror(read_event(json.loads(str(entry["body"]))), home)
        ]
        refused = self.bus.put(copies) if copies else ()
        _log_refusals("mirror_event_refused", refused)
        return [refusal for refusal in refused if not refusal.permanent]

    def _mark_done(self, published: Sequence[Key]) -> None:
        for first in range(0, len(published), MARKS_PER_TRANSACTION):
            batch = published[first : first + MARKS_PER_TRANSACTION]
            marks = [Update(key, remove=_UNPUBLISHED_MARK, when=Present()) for key in batch]
            try:
                self.table.transact(marks)
            except Conflict:
                for mark in marks:
                    self._mark_one_done(mark)

    def _mark_one_done(self, mark: Update) -> None:
        try:
            self.table.write(mark)
        except Conflict as conflict:
            # The entry expired after it was archived, so its mark is gone too.
            log_cause("published_mark_skipped", reason=str(conflict), entry_pk=mark.key.pk, entry_sk=mark.key.sk)

    def _event(self, entry: Item, *, stub: bool) -> BusEvent:
        body = str(entry["body"])
        return BusEvent(
            event_id=str(entry["event_id"]),
            detail_type=str(entry["type"]),
            detail=stub_of(body) if stub else detail_of(body, str(entry.get("evidence") or "")),
            resources=resources(self.stack_id, entry.get("instance_id")),
        )


def _key(entry: Item) -> Key:
    return Key(str(entry["pk"]), str(entry["sk"]))


def _log_refusals(decision: str, refused: Iterable[FailedEvent]) -> None:
    for one in refused:
        log_cause(decision, reason=one.reason, level=logging.WARNING, event_id=one.event_id, permanent=one.permanent)


def resources(stack_id: str, instance_id: object) -> tuple[str, ...]:
    """Return the ARN of an event's instance in a tuple, which is empty if the ARN cannot be formed.

    This is the case if `instance_id` is empty or if `stack_id` is not an ARN.
    """
    parts = stack_id.split(":")
    if not instance_id or len(parts) < STACK_ARN_PARTS or parts[0] != "arn":
        return ()
    _, partition, _, region, account, *_ = parts
    return (f"arn:{partition}:ec2:{region}:{account}:instance/{instance_id}",)
