"""Sends messages to one SQS queue and objects to one S3 bucket, over HTTP connections that stay open."""

from __future__ import annotations

import http.client
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from faultbridge.agent.delivery.messages import text_of, to_messages
from faultbridge.agent.delivery.records import OutgoingRecord
from faultbridge.agent.delivery.service_clock import ServiceClock
from faultbridge.agent.delivery.signing import (
    Call,
    Credentials,
    NoCredentials,
    RoleCredentials,
    region_of,
    signed_headers,
)
from faultbridge.agent.delivery.transport_contract import AccessRefused, RecordRefused, SendFailed
from faultbridge.agent.host import print_warning
from faultbridge.agent.settings import AgentSettings
from faultbridge.domain.names import dns_suffix

TIMEOUT_SECONDS = 10
MAX_RESPONSE_BYTES = 256 * 1024
HTTP_OK = 200
HTTP_CLIENT_ERRORS = range(400, 500)
HTTP_TOO_MANY_REQUESTS = 429
# SQS refuses a message with these codes however often it is sent; a message with any other code is sent again.
PERMANENT_ERRORS = frozenset(
    {"InvalidMessageContents", "InvalidParameterValue", "MessageTooLong", "BatchRequestTooLong"}
)

# Codes of SQS, S3 and KMS that concern every call: access, credentials, time, the queue or bucket itself, and limits.
SERVICE_ERRORS = re.compile(
    r"AccessDenied|AccessKeyId|AllAccessDisabled|AccountProblem|Authoriz|Unauthorized|Credential|Token|Signature"
    r"|RequestTime|NonExistent|NotExist|NoSuchBucket|Throttl|K[Mm][Ss]"
)


class HttpResponse(NamedTuple):
    """The response to an HTTP call: status, body and `Date` header."""

    status: int
    body: bytes
    date: str | None = None


HttpCall = Callable[[Call, Mapping[str, str]], HttpResponse]
"""Sends a signed call and returns the response; raises OSError."""


class AwsTransport:
    """Sends messages to SQS and objects to S3. A failed call raises SendFailed or a subclass of it."""

    def __init__(
        self,
        queue_url: str,
        bucket: str | None,
        region: str,
        credentials: Callable[[], Credentials],
        clock: ServiceClock,
        *,
        http_call: HttpCall | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._queue_url = queue_url
        self._region = region
        self._credentials = credentials
        self._clock = clock
        self._http_call = http_call or HttpConnections()
        variables = os.environ if environment is None else environment
        endpoint = variables.get("AWS_ENDPOINT_URL")
        queue = urlsplit(queue_url)
        sqs_endpoint = variables.get("AWS_ENDPOINT_URL_SQS") or endpoint or f"{queue.scheme}://{queue.netloc}"
        self._sqs_url = sqs_endpoint.rstrip("/")
        s3_endpoint = variables.get("AWS_ENDPOINT_URL_S3") or endpoint
        aws_url = f"https://{bucket}.s3.{region}.{dns_suffix(region)}"
        self._bucket_url = f"{s3_endpoint}/{bucket}" if s3_endpoint else aws_url

    def send_batch(self, records: Sequence[OutgoingRecord]) -> tuple[set[str], set[str]]:
        """Send up to ten records in one call.

        Returns the ids of the accepted records, and the ids of the refused records. Records of one message group share
        a message if they fit. If SQS permanently refuses a message, all its records are refused, even if some of them
        are valid. A record in neither set can be sent again. Raises SendFailed if the whole call failed.
        """
        messages = to_messages(records)
        entries = [
            {"Id": str(number), "MessageBody": text_of(message), "MessageGroupId": message[0].group}
            for number, message in enumerate(messages)
        ]
        body = json.dumps({"QueueUrl": self._queue_url, "Entries": entries}).encode()
        headers = {"content-type": "application/x-amz-json-1.0", "x-amz-target": "AmazonSQS.SendMessageBatch"}
        response = self._call("POST", f"{self._sqs_url}/", body, headers, "sqs")
        try:
            failed: list[dict[str, Any]] = json.loads(response).get("Failed") or []
            not_accepted = _ids(messages[int(entry["Id"])] for entry in failed)
            refused = _ids(messages[int(entry["Id"])] for entry in failed if entry.get("Code") in PERMANENT_ERRORS)
        except (ValueError, LookupError, AttributeError, TypeError) as error:
            raise SendFailed(f"the response of SQS cannot be read: {error}") from error
        return {record.record_id for record in records} - not_accepted, refused

    def put_object(self, key: str, body: bytes) -> None:
        """Write an object to the bucket. `key` is derived from `body`, so a repeated write changes nothing."""
        self._call("PUT", f"{self._bucket_url}/{key}", body, {}, "s3")

    def _call(self, method: str, url: str, body: bytes, headers: Mapping[str, str], service: str) -> bytes:
        call = Call(method, url, body, headers, service, self._region)
        response = self._exchange(call)
        if response.status in HTTP_CLIENT_ERRORS and self._clock.correct(response.date):
            response = self._exchange(call)  # signed again, with the time of the service
        if response.status == HTTP_OK:
            return response.body
        raise _failure(response)(f"{url}: HTTP status {response.status}: {response.body[:300]!r}")

    def _exchange(self, call: Call) -> HttpResponse:
        try:
            return self._http_call(call, signed_headers(call, self._credentials(), self._clock.now()))
        except NoCredentials as error:
            raise SendFailed(f"no AWS credentials: {error}") from error
        except (OSError, http.client.HTTPException) as error:
            raise SendFailed(f"{call.url}: {error}") from error


def _ids(messages: Iterable[Sequence[OutgoingRecord]]) -> set[str]:
    return {record.record_id for message in messages for record in message}


def _failure(response: HttpResponse) -> type[SendFailed]:
    """Return the class of the error for a response whose status is not 200.

    - `SendFailed`: HTTP 429, or a status that is not a client error (4xx). The call may succeed later.
    - `AccessRefused`: a client error whose code names a cause other than the content, such as a missing permission, a
      wrong clock or throttling.
    - `RecordRefused`: any other client error. Calls with other content may succeed, so the agent continues with other
      records.
    """
    if response.status not in HTTP_CLIENT_ERRORS or response.status == HTTP_TOO_MANY_REQUESTS:
        return SendFailed
    return AccessRefused if SERVICE_ERRORS.search(response.body.decode("utf-8", "replace")) else RecordRefused


class HttpConnections:
    """Sends HTTP calls over one open connection per host.

    If the server has closed the connection, a new connection is opened and the call is sent once more.
    """

    def __init__(self) -> None:
        self._connections: dict[tuple[str, str], http.client.HTTPConnection] = {}

    def __call__(self, call: Call, headers: Mapping[str, str]) -> HttpResponse:
        """Send a call and return its response; raises OSError or HTTPException when the call fails."""
        url = urlsplit(call.url)
        host = (url.scheme, url.netloc)
        if host in self._connections:
            try:
                return self._exchange(host, call, url.path, headers)
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                pass
        connect = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
        self._connections[host] = connect(url.netloc, timeout=TIMEOUT_SECONDS)
        return self._exchange(host, call, url.path, headers)

    def _exchange(self, host: tuple[str, str], call: Call, path: str, headers: Mapping[str, str]) -> HttpResponse:
        connection = self._connections[host]
        try:
            connection.request(call.method, path, call.body, dict(headers))
            response = connection.getresponse()
            return HttpResponse(response.status, response.read(MAX_RESPONSE_BYTES), response.headers.get("Date"))
        except (OSError, http.client.HTTPException):
            self._connections.pop(host).close()
            raise


def aws_transport(
    settings: AgentSettings, clock: ServiceClock, report: Callable[[str], None] = print_warning
) -> AwsTransport:
    """Return the transport to the queue and the bucket in the settings.

    The transport signs its calls with the credentials of the node's role. `report` receives a warning when these
    credentials cannot be refreshed.
    """
    region = region_of(settings.queue_url, settings.region)
    credentials = RoleCredentials(clock, os.environ, report=report)
    return AwsTransport(settings.queue_url, settings.bucket, region, credentials, clock)
