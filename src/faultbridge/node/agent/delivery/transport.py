"""Sends messages to one SQS queue and objects to one S3 bucket, over HTTP connections that stay open."""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import os
import re
import urllib.error
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, urlsplit

from faultbridge.model.names import dns_suffix
from faultbridge.model.storage.wire.message import (
    MAX_MESSAGE_BYTES,
    MAX_SHARED_RECORDS,
    MAX_UNPACKED_BYTES,
    OVERHEAD_BYTES,
    join_records,
    unpacked_bytes,
)
from faultbridge.model.times import from_text, to_text
from faultbridge.node.agent.delivery.records import OutgoingRecord
from faultbridge.node.agent.delivery.sender import AccessRefused, RecordRefused, SendFailed, ServiceClock
from faultbridge.node.agent.host import METADATA_URL, AgentClock, print_warning, read_metadata, read_url
from faultbridge.node.agent.settings import AgentSettings


def to_messages(records: Sequence[OutgoingRecord]) -> list[list[OutgoingRecord]]:
    """Divide records into queue messages of one group each; the records of a group keep their order."""
    messages: list[_Filling] = []
    last_of_group: dict[str, _Filling] = {}
    for record in records:
        unpacked = unpacked_bytes(record.text)
        last = last_of_group.get(record.group)
        if last is None or unpacked is None or not last.has_room(record, unpacked):
            last = last_of_group[record.group] = _Filling()
            messages.append(last)
        last.add(record, unpacked)
    return [message.records for message in messages]


def text_of(records: Sequence[OutgoingRecord]) -> str:
    """Return the body of the queue message that contains these records."""
    return join_records([record.text for record in records])


@dataclass(slots=True)
class _Filling:
    """A queue message to which records are added until it is full.

    `size` is the size of the message in bytes. `unpacked` is the total size in bytes of the bodies of its records
    before compression. `shares` is False if no other record may be added to the message.
    """

    records: list[OutgoingRecord] = field(default_factory=list)
    size: int = OVERHEAD_BYTES
    unpacked: int = 0
    shares: bool = True

    def has_room(self, record: OutgoingRecord, unpacked: int) -> bool:
        return (
            self.shares
            and len(self.records) < MAX_SHARED_RECORDS
            and self.size + record.size + 1 <= MAX_MESSAGE_BYTES
            and self.unpacked + unpacked <= MAX_UNPACKED_BYTES
        )

    def add(self, record: OutgoingRecord, unpacked: int | None) -> None:
        """Add a record; if the size of its body is not known (None), no other record may follow."""
        self.records.append(record)
        self.size += record.size + 1
        self.unpacked += unpacked or 0
        self.shares = unpacked is not None


# The module uses only the standard library, because the agent may use at most 64 MB of memory: importing botocore takes
# 26 MB, and a botocore client takes 40 MB (measured).
#
# Web identities (IRSA) are deliberately not supported. The session name of the credentials proves which instance sent a
# record, but a process with a web identity can choose any session name, so this name would prove nothing. The signature
# follows the AWS documentation page "Create a signed AWS API request".

ALGORITHM = "AWS4-HMAC-SHA256"
REFRESH_BEFORE_EXPIRY = timedelta(minutes=10)
RETRY_REFRESH = timedelta(seconds=30)
CONTAINER_TIMEOUT_SECONDS = 5.0
CONTAINER_URL = "http://169.254.170.2"
# The credential endpoints of ECS, EKS Pod Identity and local agents; a URL from the environment must use one of them.
_CONTAINER_HOSTS = frozenset({"169.254.170.2", "169.254.170.23", "fd00:ec2::23", "localhost", "127.0.0.1"})


class NoCredentials(Exception):  # noqa: N818 - names the situation, which may end without a change
    """No credentials could be loaded from the environment, the container or the instance profile."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """Access keys of a role. `expires` is None for keys that do not expire."""

    key: str
    secret: str
    token: str | None = None
    expires: datetime | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """One HTTP call to sign; `url` must not have a query."""

    method: str
    url: str
    body: bytes
    headers: Mapping[str, str]
    service: str
    region: str


def signed_headers(call: Call, credentials: Credentials, at: datetime) -> dict[str, str]:
    """Return the headers of a call with its signature (Signature Version 4).

    `at` is the time of the call in UTC. AWS refuses the call if this time differs from the time of the service by more
    than 5 to 15 minutes, depending on the service.
    """
    url = urlsplit(call.url)
    timestamp, content = f"{at:%Y%m%dT%H%M%SZ}", hashlib.sha256(call.body).hexdigest()
    headers = {name.lower(): value for name, value in call.headers.items()}
    headers |= {"host": url.netloc, "x-amz-date": timestamp}
    if call.service == "s3":
        headers["x-amz-content-sha256"] = content
    if credentials.token:
        headers["x-amz-security-token"] = credentials.token
    names = ";".join(sorted(headers))
    lines = [f"{name}:{' '.join(headers[name].split())}" for name in sorted(headers)]
    canonical = "\n".join([call.method, quote(url.path or "/"), url.query, *lines, "", names, content])
    scope = f"{at:%Y%m%d}/{call.region}/{call.service}/aws4_request"
    to_sign = "\n".join([ALGORITHM, timestamp, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = f"AWS4{credentials.secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.new(key, to_sign.encode(), "sha256").hexdigest()
    proof = f"{ALGORITHM} Credential={credentials.key}/{scope}, SignedHeaders={names}, Signature={signature}"
    return headers | {"authorization": proof}


@dataclass(slots=True)
class RoleCredentials:
    """Loads the credentials of the node's role, and refreshes them before they expire.

    A call refreshes the credentials if they expire within ten minutes. If the refresh fails, the current credentials
    are used until they expire, and the refresh is tried again after `RETRY_REFRESH`, so that an outage of the metadata
    service does not delay each call by its timeout. `report` receives the failure; an unchanged failure is reported
    only once.
    """

    clock: AgentClock | ServiceClock
    environment: Mapping[str, str]
    metadata_url: str = METADATA_URL
    report: Callable[[str], None] = print_warning
    _current: Credentials | None = None
    _reported: str = ""
    _retry_at: datetime | None = None

    def __call__(self) -> Credentials:
        """Return valid credentials from the environment, the container or the instance profile.

        The first of these three that has credentials is used. Raises NoCredentials if none has credentials and the
        credentials loaded before are not valid now.
        """
        current = self._current
        if current is None:
            current = self._current = self._load()
        elif current.expires is not None and self._refresh_at(current.expires) <= self.clock.now():
            current = self._current = self._refresh(current, current.expires)
        return current

    def _refresh_at(self, expires: datetime) -> datetime:
        return min(self._retry_at, expires) if self._retry_at else expires - REFRESH_BEFORE_EXPIRY

    def _refresh(self, current: Credentials, expires: datetime) -> Credentials:
        try:
            current, failure, self._retry_at = self._load(), "", None
        except NoCredentials as error:
            if expires <= self.clock.now():
                raise
            self._retry_at = self.clock.now() + RETRY_REFRESH
            failure = f"AWS credentials were not refreshed and are used until {to_text(expires)}: {error}"
            if failure != self._reported:
                self.report(failure)
        self._reported = failure
        return current

    def _load(self) -> Credentials:
        failures: list[str] = []
        for read in (self._from_environment, self._from_container, self._from_instance):
            try:
                for found in read():
                    return found
            except (urllib.error.URLError, OSError, ValueError, KeyError) as error:
                failures.append(str(error))
        raise NoCredentials("; ".join(failures) or "no role was found in environment, container or instance profile")

    def _from_environment(self) -> Iterator[Credentials]:
        key, secret = self.environment.get("AWS_ACCESS_KEY_ID"), self.environment.get("AWS_SECRET_ACCESS_KEY")
        if key and secret:
            yield Credentials(key, secret, self.environment.get("AWS_SESSION_TOKEN"))

    def _from_container(self) -> Iterator[Credentials]:
        relative = self.environment.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
        url = CONTAINER_URL + relative if relative else self.environment.get("AWS_CONTAINER_CREDENTIALS_FULL_URI")
        if not url:
            return
        if urlsplit(url).hostname not in _CONTAINER_HOSTS:
            allowed = ", ".join(sorted(_CONTAINER_HOSTS))
            raise ValueError(f"unknown host for container credentials: {url}; allowed hosts: {allowed}")
        headers = {}
        file = self.environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")
        if file:
            headers["Authorization"] = Path(file).read_text(encoding="utf-8").strip()
        yield _parse(json.loads(read_url(url, headers, CONTAINER_TIMEOUT_SECONDS)))

    def _from_instance(self) -> Iterator[Credentials]:
        with suppress(urllib.error.HTTPError):  # an instance without a role
            role = read_metadata("iam/security-credentials/", self.metadata_url).split("\n")[0]
            yield _parse(json.loads(read_metadata(f"iam/security-credentials/{role}", self.metadata_url)))


def _parse(document: Mapping[str, str]) -> Credentials:
    expires = from_text(document["Expiration"]) if document.get("Expiration") else None
    return Credentials(document["AccessKeyId"], document["SecretAccessKey"], document.get("Token"), expires)


def region_of(queue_url: str, configured: str | None) -> str:
    """Return the configured Region, else that of the queue URL or the environment, else `us-east-1`."""
    in_url = re.match(r"https://sqs[.]([a-z0-9-]+)[.]", queue_url)
    return configured or (
        in_url[1] if in_url else os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION", "us-east-1")
    )


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
        """Send up to ten records in one call; returns the ids of the accepted and of the refused records.

        Records of one group share a message if they fit. If SQS permanently refuses a message, all its records are
        refused, even if some are valid. A record in neither set can be sent again. Raises SendFailed if the whole call
        failed.
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
            failed: list[dict[str, str]] = json.loads(response).get("Failed") or []
            not_accepted = _ids(messages[int(entry["Id"])] for entry in failed)
            refused = _ids(messages[int(entry["Id"])] for entry in failed if entry.get("Code") in PERMANENT_ERRORS)
        except (ValueError, LookupError, AttributeError, TypeError) as error:
            raise SendFailed(f"the response of SQS cannot be read: {error}") from error
        return {record.record_id for record in records} - not_accepted, refused

    def put_object(self, key: str, body: bytes) -> None:
        """Write an object to the bucket; `key` is derived from `body`, so a repeated write changes nothing."""
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
    """Sends calls over one open connection per host; if the server closed it, once more over a new one."""

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
    """Return the transport to the queue and bucket in the settings, signed with the node's role."""
    region = region_of(settings.queue_url, settings.region)
    credentials = RoleCredentials(clock, os.environ, report=report)
    return AwsTransport(settings.queue_url, settings.bucket, region, credentials, clock)
