"""Forwarding: records onto the queue, those that are too large for it beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from faultbridge.errors import Transient
from faultbridge.ports import ObjectStore, RecordQueue
from faultbridge.storage.wire.message import Message, encode_message, fits, raw_key


@dataclass(frozen=True, slots=True)
class Forward:
    """Puts messages on the queue, or raises Transient: whoever sent them does so again."""

    queue: RecordQueue
    objects: ObjectStore

    def __call__(self, messages: Sequence[Message]) -> None:
        """Send all of them; a message that came twice has the same id, and counts once."""
        whole = [message if fits(message) else self._put_aside(message) for message in messages]
        unsent = self.queue.send([(message.group, encode_message(message)) for message in whole])
        if unsent:
            raise Transient(f"the queue did not take {len(unsent)} of {len(whole)} records")

    def _put_aside(self, message: Message) -> Message:
        body = message.body or b""
        key = raw_key(message.cluster, message.sent_at, body)
        self.objects.put(key, body)
        return replace(message, body=None, pointer=key)
