"""Log subscription: accepts batches of CloudWatch Logs and queues each batch as one record."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
import zlib
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from faultbridge.dataclass import dataclass
from faultbridge.domain.times import from_milliseconds
from faultbridge.errors import Rejected
from faultbridge.gateway.forward import Forward
from faultbridge.ports import Clock
from faultbridge.storage.keys import NO_CLUSTER
from faultbridge.storage.wire.message import Message

MAX_BYTES = 16 * 1024 * 1024
CONTROL = "CONTROL_MESSAGE"
# The source of each log stream, by the stream's name. Only the name of the stream contains the instance id.
STREAMS: Mapping[str, re.Pattern[str]] = {
    "hyperpod-agent-log": re.compile(r"SagemakerHealthMonitoringAgent/[^/]{1,256}/(i-[0-9a-f]{8,17})"),
    "kernel-log": re.compile(r"(?:[\w.-]{1,128}/)?(i-[0-9a-f]{8,17})"),
}


@dataclass(frozen=True, slots=True)
class LogSubscription:
    """Accepts the batches that CloudWatch Logs delivers.

    A batch names no cluster; ingest finds the cluster by the instance id.
    """

    forward: Forward
    clock: Clock

    def __call__(self, data: str) -> str | None:
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
        self.forward([message])
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
