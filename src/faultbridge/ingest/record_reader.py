"""Records: what lies in one message of the raw queue, read as far as it can be without knowing any node."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from faultbridge.decoders.common.decoder import READ_WITH_MAPPINGS, Hints
from faultbridge.domain.faults import Observation
from faultbridge.domain.records import CANARY, RawRecord
from faultbridge.errors import Rejected
from faultbridge.pipeline.normalize.mask_secrets import mask
from faultbridge.pipeline.normalize.oversized_records import add_evidence_object, any_truncated, limit_faults
from faultbridge.pipeline.normalize.timestamp import assign_times
from faultbridge.pipeline.normalize.trust import TRUST_ALL, Trust
from faultbridge.ports import ObjectStore
from faultbridge.storage.wire.message import Message, decode_message, raw_key

Decode = Callable[[str, bytes, Hints], tuple[Observation, ...]]


@dataclass(frozen=True, slots=True)
class Delivery:
    """One message as the queue gave it; `received_at` is when the queue first took it, `receives` how often it came."""

    id: str
    text: str
    received_at: datetime
    sender: str | None = None
    receives: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """What one record says about one node; `named` is the node's name as found inside the record."""

    delivery: Delivery
    record: RawRecord
    named: str | None
    observations: tuple[Observation, ...]


@dataclass(frozen=True, slots=True)
class Reader:
    """Turns deliveries into observations with settled times; `words` are the customer's own for faults."""

    objects: ObjectStore
    decode: Decode
    trust: Trust = TRUST_ALL
    words: Callable[[], Mapping[str, Mapping[str, Any]]] = dict

    def read(self, delivery: Delivery) -> Sequence[Part]:
        """Read a delivery; raises Rejected when it cannot be read, Transient when its body cannot be fetched now."""
        record = self.trust.with_sender_instance(self._record(delivery, decode_message(delivery.text)))
        if record.source == CANARY:
            return (Part(delivery, record, None, ()),)
        words = self.words() if record.source in READ_WITH_MAPPINGS else {}
        hints = Hints(record.received_at, record.node, record.cluster, words)
        decoded = limit_faults(self.decode(record.source, record.body, hints), record.source)
        kept = add_evidence_object(decoded, self._put_aside(record, decoded))
        observations = assign_times(kept, sent_at=record.sent_at, received_at=record.received_at)
        if record.node or record.instance_id or not observations:
            return (Part(delivery, record, None, tuple(observations)),)
        by_name: dict[str | None, list[Observation]] = {}
        for observation in observations:
            by_name.setdefault(observation.node, []).append(observation)
        return tuple(Part(delivery, record, name, tuple(found)) for name, found in by_name.items())

    def _put_aside(self, record: RawRecord, observations: tuple[Observation, ...]) -> str | None:
        """Keep the whole record where an excerpt of it was cut; its content names it, so twice is once."""
        if not any_truncated(observations):
            return None
        key = raw_key(record.cluster, record.sent_at, record.body)
        self.objects.put(key, record.body)
        return key

    def record_id(self, delivery: Delivery) -> str:
        """Return the id by which a delivery's record is accounted for, even when nothing else can be read."""
        try:
            return decode_message(delivery.text).record_id
        except Rejected:
            return "unread-" + hashlib.sha256(delivery.text.encode()).hexdigest()[:24]

    def _record(self, delivery: Delivery, message: Message) -> RawRecord:
        body = message.body
        if message.pointer is not None:
            body = self.objects.get(message.pointer)
        if body is None:
            raise Rejected("body_missing", f"nothing is kept at {message.pointer}")
        return RawRecord(
            record_id=message.record_id,
            source=message.source,
            cluster=message.cluster,
            node=message.node,
            body=mask(body),
            sent_at=message.sent_at,
            received_at=message.received_at or delivery.received_at,
            instance_id=message.instance_id,
            boot_id=message.boot_id,
            sender=self.trust.sender(delivery.sender, message.sender),
        )
