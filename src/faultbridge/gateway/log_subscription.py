"""CloudWatch Logs: what a subscription filter hands over, one record for each batch of one stream's messages."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from faultbridge.domain.times import from_milliseconds
from faultbridge.errors import Rejected
from faultbridge.gateway.forward import Forward
from faultbridge.ports import Clock
from faultbridge.storage.keys import NO_CLUSTER
from faultbridge.storage.wire.message import Message

MAX_BYTES = 16 * 1024 * 1024
CONTROL = "CONTROL_MESSAGE"
# Which stream is of which source. The node is named nowhere but in the stream's name.
STREAMS: Mapping[str, re.Pattern[str]] = {
    "hyperpod-agent-log": re.compile(r"SagemakerHealthMonitoringAgent/[^/]{1,256}/(i-[0-9a-f]{8,17})"),
    "kernel-log": re.compile(r"(?:[\w.-]{1,128}/)?(i-[0-9a-f]{8,17})"),
}


@dataclass(frozen=True, slots=True)
class Subscription:
    """Takes what CloudWatch Logs delivers; the cluster is found later, by the instance."""

    forward: Forward
    clock: Clock

    def __call__(self, data: str) -> str | None:
        """Put a batch on the queue as it is, unpacked; returns its record id, or None where there was nothing in it.

        Rejected as `bad_body`, `too_large` or `unknown_stream`.
        """
        body = _unpacked(data)
        try:
            batch = json.loads(body)
        except (ValueError, RecursionError):
            raise Rejected("bad_body", "the batch is no JSON") from None
        if not isinstance(batch, dict) or batch.get("messageType") == CONTROL or not batch.get("logEvents"):
            return None
        source, instance_id = _origin(str(batch.get("logStream", "")))
        first = batch["logEvents"][0]
        record_id = "log-" + hashlib.sha256(body).hexdigest()[:32]
        sent_at = self._time(first) or self.clock.now()
        message = Message(record_id, source, NO_CLUSTER, sent_at, instance_id=instance_id, body=body)
        self.forward([message])
        return record_id

    def _time(self, event: Any) -> Any:  # noqa: ANN401 - JSON in, an instant or None out
        try:
            return min(from_milliseconds(int(event["timestamp"])), self.clock.now())
        except (KeyError, TypeError, ValueError, OverflowError):
            return None


def _origin(stream: str) -> tuple[str, str]:
    for source, pattern in STREAMS.items():
        found = pattern.fullmatch(stream)
        if found is not None:
            return source, found[1]
    raise Rejected("unknown_stream", f"{stream[:200]!r} is named after no instance")


def _unpacked(data: str) -> bytes:
    inflate = zlib.decompressobj(wbits=31)
    try:
        body = inflate.decompress(base64.b64decode(data, validate=True), MAX_BYTES)
    except (ValueError, binascii.Error, zlib.error) as error:
        raise Rejected("bad_body", f"the batch is not gzip in base64: {error}") from None
    if inflate.unconsumed_tail:
        raise Rejected("too_large", f"the batch unpacks to more than {MAX_BYTES} bytes")
    return body
