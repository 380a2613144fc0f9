"""The way to AWS: messages to one queue, bodies to one bucket, over connections that stay open."""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from faultbridge.agent.clock import AgentClock
from faultbridge.agent.credentials import NoCredentials
from faultbridge.agent.outgoing import Outgoing
from faultbridge.agent.sender import NotSent
from faultbridge.agent.signing import Call, Credentials, signed

SECONDS = 10
MAX_ANSWER = 256 * 1024
HTTP_OK = 200
# What no repetition of the same bytes will mend; everything else is tried again.
NEVER = frozenset({"InvalidMessageContents", "InvalidParameterValue", "MessageTooLong", "BatchRequestTooLong"})

Wire = Callable[[Call, Mapping[str, str]], tuple[int, bytes]]
"""Sends a signed call; returns status and answer, raises OSError."""


class AwsTransport:
    """A Transport to SQS and S3; it never repeats a call by itself, the sender does."""

    def __init__(
        self,
        queue_url: str,
        bucket: str | None,
        region: str,
        credentials: Callable[[], Credentials],
        clock: AgentClock,
        *,
        wire: Wire | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._queue_url = queue_url
        self._region = region
        self._credentials = credentials
        self._clock = clock
        self._wire = wire or OpenConnections()
        given = os.environ if environment is None else environment
        everywhere = given.get("AWS_ENDPOINT_URL")
        queue = urlsplit(queue_url)
        self._sqs = (given.get("AWS_ENDPOINT_URL_SQS") or everywhere or f"{queue.scheme}://{queue.netloc}").rstrip("/")
        own = given.get("AWS_ENDPOINT_URL_S3") or everywhere
        self._bucket = f"{own}/{bucket}" if own else f"https://{bucket}.s3.{region}.amazonaws.com"

    def send(self, records: Sequence[Outgoing]) -> tuple[set[str], set[str]]:
        """Send up to ten messages in one call."""
        entries = [
            {"Id": str(place), "MessageBody": record.text, "MessageGroupId": record.group}
            for place, record in enumerate(records)
        ]
        body = json.dumps({"QueueUrl": self._queue_url, "Entries": entries}).encode()
        headers = {"content-type": "application/x-amz-json-1.0", "x-amz-target": "AmazonSQS.SendMessageBatch"}
        answer = self._call("POST", f"{self._sqs}/", body, headers, "sqs")
        try:
            failed: list[dict[str, Any]] = json.loads(answer).get("Failed") or []
            failing = {records[int(one["Id"])].record_id for one in failed}
            never = {records[int(one["Id"])].record_id for one in failed if one.get("Code") in NEVER}
        except (ValueError, LookupError, AttributeError, TypeError) as error:
            raise NotSent(f"the queue's answer cannot be read: {error}") from error
        return {record.record_id for record in records} - failing, never

    def put(self, key: str, body: bytes) -> None:
        """Put a body under a key that its content names."""
        self._call("PUT", f"{self._bucket}/{key}", body, {}, "s3")

    def _call(self, method: str, url: str, body: bytes, headers: Mapping[str, str], service: str) -> bytes:
        call = Call(method, url, body, headers, service, self._region)
        try:
            status, answer = self._wire(call, signed(call, self._credentials(), self._clock.now()))
        except (OSError, http.client.HTTPException, NoCredentials) as error:
            raise NotSent(f"{url}: {error}") from error
        if status != HTTP_OK:
            raise NotSent(f"{url}: {status} {answer[:300]!r}")
        return answer


class OpenConnections:
    """A Wire that keeps one connection a host; one that the other side closed meanwhile is opened anew, once."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, str], http.client.HTTPConnection] = {}

    def __call__(self, call: Call, headers: Mapping[str, str]) -> tuple[int, bytes]:
        """Send and read the answer."""
        url = urlsplit(call.url)
        place = (url.scheme, url.netloc)
        if place in self._open:
            try:
                return self._on(place, call, url.path, headers)
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                pass
        made = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
        self._open[place] = made(url.netloc, timeout=SECONDS)
        return self._on(place, call, url.path, headers)

    def _on(self, place: tuple[str, str], call: Call, path: str, headers: Mapping[str, str]) -> tuple[int, bytes]:
        connection = self._open[place]
        try:
            connection.request(call.method, path, call.body, dict(headers))
            answer = connection.getresponse()
            return answer.status, answer.read(MAX_ANSWER)
        except (OSError, http.client.HTTPException):
            self._open.pop(place).close()
            raise
