"""Log subscription: accepts batches of CloudWatch Logs and queues each batch as one record."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import logging
import re
import zlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from faultbridge.model.errors import Rejected, Transient
from faultbridge.model.log import log_cause
from faultbridge.model.storage.keys import NO_CLUSTER
from faultbridge.model.storage.wire.message import Message, encode_message, fits, raw_key
from faultbridge.model.times import from_milliseconds
from faultbridge.model.values import replace
from faultbridge.record.ports.messaging import RecordQueue
from faultbridge.record.ports.objects import ObjectStore
from faultbridge.record.ports.table import Clock


class Forward(Struct, frozen=True):
    """Puts messages on the queue of raw records."""

    queue: RecordQueue
    objects: ObjectStore

    def forward(self, messages: Sequence[Message]) -> None:
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


MAX_BYTES = 16 * 1024 * 1024
CONTROL = "CONTROL_MESSAGE"
# The source of each log stream, by the stream's name. Only the name of the stream contains the instance id.
STREAMS: Mapping[str, re.Pattern[str]] = {
    "hyperpod-agent-log": re.compile(r"SagemakerHealthMonitoringAgent/[^/]{1,256}/(i-[0-9a-f]{8,17})"),
    "kernel-log": re.compile(r"(?:[\w.-]{1,128}/)?(i-[0-9a-f]{8,17})"),
}


class LogSubscription(Struct, frozen=True):
    """Accepts the batches that CloudWatch Logs delivers.

    A batch names no cluster; ingest finds the cluster by the instance id.
    """

    forward: Forward
    clock: Clock

    def accept(self, data: str) -> str | None:
        """Unpack a batch, put it on the queue, and return its record id.

        Returns None, and queues nothing, for a control message or a batch without events.
        Raises `Rejected` (`bad_body`, `too_large` or `unknown_stream`).
        """
        body = _unpack(data)
        try:
            batch = json.loads(body)
        except (ValueError, RecursionError):
            batch = None
        if not isinstance(batch, dict):
            raise Rejected("bad_body", "the batch is not a JSON object; subscribe with a CloudWatch Logs filter")
        if batch.get("messageType") == CONTROL or not batch.get("logEvents"):
            return None
        if not isinstance(batch["logEvents"], list):
            raise Rejected(
                "bad_body", "`logEvents` of the batch is not a list; subscribe with a CloudWatch Logs filter"
            )
        source, instance_id = _origin(str(batch.get("logStream", "")))
        sent_at = self._sent_at(batch["logEvents"][0]) or self.clock.now()
        record_id = "log-" + hashlib.sha256(body).hexdigest()[:32]
        message = Message(record_id, source, NO_CLUSTER, sent_at, instance_id=instance_id, body=body)
        self.forward.forward([message])
        return record_id

    def _sent_at(self, event: Any) -> datetime | None:  # noqa: ANN401 - any JSON value
        try:
            return min(from_milliseconds(int(event["timestamp"])), self.clock.now())
        except (KeyError, TypeError, ValueError, OverflowError):
            return None


def _origin(stream: str) -> tuple[str, str]:
    for source, pattern in STREAMS.items():
        found = pattern.fullmatch(stream)
        if found is not None:
            return source, found[1]
    raise Rejected("unknown_stream", f"the log stream's name has no instance id: {stream[:200]!r}")


def _unpack(data: str) -> bytes:
    inflate = zlib.decompressobj(wbits=31)
    try:
        body = inflate.decompress(base64.b64decode(data, validate=True), MAX_BYTES)
    except (ValueError, binascii.Error, zlib.error) as error:
        raise Rejected("bad_body", f"the batch is not gzip in base64: {error}") from None
    if inflate.unconsumed_tail:
        raise Rejected("too_large", f"the batch unpacks to more than {MAX_BYTES} bytes")
    return body
