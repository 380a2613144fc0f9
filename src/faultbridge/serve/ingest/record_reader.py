"""Record reader: decodes a message of the raw queue into a record and its observations."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct

from faultbridge.decide.normalize.mask_secrets import mask
from faultbridge.decide.normalize.oversized_records import add_evidence_object
from faultbridge.decide.normalize.timestamp import assign_times, bounded_sent_at, shift_last_sent
from faultbridge.decide.normalize.trust import TRUST_ALL, Trust
from faultbridge.decode.data import sources_with
from faultbridge.decode.frames.body import unpacked
from faultbridge.decode.frames.decoder import Decoded, Hints
from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.errors import Rejected
from faultbridge.model.faults import Observation, faults_of
from faultbridge.model.records import CANARY, JOB_REPORT, RawRecord
from faultbridge.model.storage.keys import NO_CLUSTER
from faultbridge.model.storage.wire.decode_message import decode_message, split_records
from faultbridge.model.storage.wire.message import MAX_BODY_BYTES, MAX_UNPACKED_BYTES, Message, is_body_of, raw_key
from faultbridge.model.values import replace
from faultbridge.serve.ingest.mappings import MappingsByName

if TYPE_CHECKING:
    from faultbridge.record.ports.objects import ObjectStore

UNREADABLE_PREFIX = "unread-"
"""Start of the id that is given to a message without the raw record format."""

WHOLE_SOURCES = frozenset({CANARY, JOB_REPORT})
"""Sources whose records are about no node. Ingest passes them on without decoding."""

Decode = Callable[[str, bytes, Hints], Decoded]
"""Decodes a body by the name of its source."""


class RecordIds(Struct, frozen=True):
    """The ids of the record, the cluster and the node that a message states."""

    record_id: str
    cluster: str | None = None
    node: str | None = None


class Delivery(Struct, frozen=True, dict=True):
    """One message as the queue delivered it, or one record of a message that contains several.

    `received_at` is when the queue first accepted the message. `receives` counts its deliveries, including this one. If
    the message contains several records, `shared_message` is its id, and `records_in_message` is their number.
    Otherwise, `shared_message` is None, because `id` is the id of the message.
    """

    id: str
    text: str
    received_at: datetime
    sender: str | None = None
    receives: int = 1
    shared_message: str | None = None
    records_in_message: int = 1

    @property
    def message_id(self) -> str:
        """Return the id of the message on the queue."""
        return self.shared_message or self.id

    def records(self) -> tuple[Delivery, ...]:
        """Return a delivery for each record of the message.

        If the message has several records, each id ends with `/` and a number.
        """
        texts = split_records(self.text)
        if len(texts) == 1:
            return (replace(self, text=texts[0]),)
        return tuple(
            replace(self, id=f"{self.id}/{place}", text=text, shared_message=self.id, records_in_message=len(texts))
            for place, text in enumerate(texts)
        )

    def ids(self) -> RecordIds:
        """Return the ids that the message states. An unreadable message gets an id from the hash of its text."""
        message = self._decoded
        if message is None:
            return RecordIds(unreadable_id(self.text))
        return RecordIds(message.record_id, message.cluster, message.node)

    def message(self) -> Message:
        """Return the message, decoded at the first call; an invalid message raises Rejected at each call."""
        return self._decoded or decode_message(self.text)

    @property
    def is_pointing(self) -> bool:
        """Return whether the body of the message, which can be large, is in the object store."""
        return self._decoded is not None and self._decoded.pointer is not None

    def unmasked(self, body: bytes) -> bytes:
        """Return the body of a record, unpacked so that its secrets can be masked afterwards.

        A body that is not packed is returned unchanged. Each record of a message may use an equal share of the unpacked
        size that one message may have. A record that is larger or cannot be unpacked raises Rejected.
        """
        return unpacked(body, MAX_UNPACKED_BYTES // self.records_in_message)

    @cached_property
    def _decoded(self) -> Message | None:
        # An error kept here would never be freed: its traceback refers to this delivery, and the garbage collector
        # does not look into a Struct of plain values.
        try:
            return decode_message(self.text)
        except Rejected:
            return None


class RecordPart(Struct, frozen=True, eq=False):
    """The observations of one record about one node.

    `named` is the node name found in the body of the record. It is None if the body names no node, or if the message or
    its sender already states the node or instance. `unparsed` is the number of lines or documents of the record that
    look like faults but match no known pattern. It is 0 in every part but the first.
    """

    delivery: Delivery
    record: RawRecord
    named: str | None
    observations: tuple[Observation, ...]
    unparsed: int = 0


class BodyBudget(Struct):
    """How many bytes of bodies from the object store one Lambda invocation may still decode."""

    remaining: int = MAX_BODY_BYTES

    @property
    def is_used_up(self) -> bool:
        """Return whether no further body from the object store may be read."""
        return self.remaining <= 0


class RecordReader(Struct, frozen=True):
    """Reads records from queue messages.

    `mappings` returns the customer's mappings of alert and log texts to fault codes.
    """

    objects: ObjectStore
    decode: Decode
    trust: Trust = TRUST_ALL
    mappings: Callable[[], MappingsByName] = dict
    config: Callable[[str], ClusterConfig | None] = lambda _cluster: None

    def read(self, delivery: Delivery, budget: BodyBudget | None = None) -> Sequence[RecordPart]:
        """Read a record and return its parts; each part has the observations about one node.

        The sender is checked before the body is fetched, masked and decoded. If `budget` is given, the size of a body
        from the object store is subtracted from it. Raises Rejected if the record cannot be used, for example because
        its sender is not trusted, Transient if a dependency does not respond, and Misconfigured if the current mappings
        of the customer are not stored.
        """
        message = delivery.message()
        self._check_sender(delivery, message)
        record = self.trust.with_sender_instance(self._record(delivery, message, budget))
        if record.source in WHOLE_SOURCES:
            return (RecordPart(delivery, record, None, ()),)
        mappings = self.mappings() if record.source in sources_with("mapped") else {}
        hints = Hints(record.received_at, record.node, record.cluster, mappings)
        found = self.decode(record.source, record.body, hints)
        decoded = found.observations
        complete = self._with_full_record(record, decoded)
        observations = assign_times(complete, sent_at=message.sent_at, received_at=record.received_at)
        if record.node or record.instance_id or not observations:
            return (RecordPart(delivery, record, None, tuple(observations), found.unparsed),)
        by_name: dict[str | None, list[Observation]] = {}
        for observation in observations:
            by_name.setdefault(observation.node, []).append(observation)
        parts = [RecordPart(delivery, record, name, tuple(of_node)) for name, of_node in by_name.items()]
        return (replace(parts[0], unparsed=found.unparsed), *parts[1:])

    def _check_sender(self, delivery: Delivery, message: Message) -> None:
        if not self.trust.required:
            return
        sender = self.trust.sender(delivery.sender, message.sender)
        config = self.config(message.cluster) if message.cluster != NO_CLUSTER else None
        if message.source == CANARY:
            refusal = self.trust.refusal_of_canary(sender)
        elif config is not None and message.source == JOB_REPORT:
            refusal = self.trust.refusal_of_report(sender, config)
        else:
            refusal = self.trust.refusal_of_sender(sender, message.instance_id, config) if config else None
        if refusal is not None:
            raise Rejected("untrusted", refusal)

    def _with_full_record(self, record: RawRecord, observations: tuple[Observation, ...]) -> tuple[Observation, ...]:
        """Return the observations, adding the S3 key of the full record to each fault with cut evidence.

        The full record is stored only if evidence of a fault was cut. The key contains a hash of the content, so a
        repetition stores the same object.
        """
        if not any(fault.is_truncated for observation in observations for fault in faults_of(observation)):
            return observations
        key = raw_key(record.cluster, record.sent_at, record.body)
        self.objects.put(key, record.body)
        return add_evidence_object(observations, key)

    def _record(self, delivery: Delivery, message: Message, budget: BodyBudget | None) -> RawRecord:
        body = message.body
        if message.pointer is not None:
            body = self.objects.get(message.pointer)
            if budget is not None:
                budget.remaining -= len(body or b"")
        if body is None:
            raise Rejected("body_missing", f"the body does not exist: {message.pointer}; send the record again")
        if len(body) > MAX_BODY_BYTES:
            raise Rejected("too_large", f"the body has {len(body)} bytes; at most {MAX_BODY_BYTES} are read")
        if message.pointer is not None and not is_body_of(message.pointer, body):
            raise Rejected("body_changed", f"the body was replaced: {message.pointer}; send the record again")
        received_at = self.trust.received_at(delivery.sender, message.received_at, delivery.received_at)
        sent_at = bounded_sent_at(message.sent_at, received_at)
        return RawRecord(
            record_id=message.record_id,
            source=message.source,
            cluster=message.cluster,
            node=message.node,
            body=mask(delivery.unmasked(body)),
            sent_at=sent_at,
            received_at=received_at,
            instance_id=message.instance_id,
            boot_id=message.boot_id,
            sender=self.trust.sender(delivery.sender, message.sender),
            values=shift_last_sent(message.values, sent_at - message.sent_at),
        )


def unreadable_id(text: str) -> str:
    """Return a record id for a message that does not have the raw record format."""
    return UNREADABLE_PREFIX + hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:24]
