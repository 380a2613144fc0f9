"""Forward: puts messages on the queue of raw records, and large bodies in the object store."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from faultbridge.dataclass import dataclass
from faultbridge.errors import Transient
from faultbridge.log import log_cause
from faultbridge.ports import ObjectStore, RecordQueue
from faultbridge.storage.wire.message import Message, encode_message, fits, raw_key


@dataclass(frozen=True, slots=True)
class Forward:
    """Puts messages on the queue of raw records."""

    queue: RecordQueue
    objects: ObjectStore

    def __call__(self, messages: Sequence[Message]) -> None:
        """Put all messages on the queue.

        Bodies that are too large for a message are stored in the object store first. Raises `Transient` if the queue
        does not accept a message. The caller may then send all messages again, because ingest processes a repeated
        record id once.
        """
        sendable = [message if fits(message) else self._store_body(message) for message in messages]
        unsent = self.queue.send([(message.group, encode_message(message)) for message in sendable])
        if unsent:
            reason = f"the queue refused {len(unsent)} of {len(sendable)} records; send them again"
            log_cause("records_not_queued", reason=reason, level=logging.WARNING, first_record_id=messages[0].record_id)
            raise Transient(reason)

    def _store_body(self, message: Message) -> Message:
        body = message.body or b""
        key = raw_key(message.cluster, message.sent_at, body)
        self.objects.put(key, body)
        return replace(message, body=None, pointer=key)
