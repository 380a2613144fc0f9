"""Authenticates calls to AWS with the node's role and Signature Version 4.

The module uses only the standard library, because the agent may use at most 64 MB of memory: importing botocore takes
26 MB, and a botocore client takes 40 MB (measured).

Web identities (IRSA) are deliberately not supported. The session name of the credentials proves which instance sent a
record, but a process with a web identity can choose any session name, so this name would prove nothing. The signature
follows the AWS documentation page "Create a signed AWS API request".
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote, urlsplit

from faultbridge.agent.host import METADATA_URL, print_warning, read_metadata
from faultbridge.domain.times import from_text, to_text

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


class Now(Protocol):
    """A clock that returns the time in UTC."""

    def now(self) -> datetime:
        """Return the time in UTC."""
        ...


@dataclass(slots=True)
class RoleCredentials:
    """Loads the credentials of the node's role, and refreshes them before they expire.

    A call refreshes the credentials if they expire within ten minutes. If the refresh fails, the current credentials
    are used until they expire, and the refresh is tried again after `RETRY_REFRESH`, so that an outage of the metadata
    service does not delay each call by its timeout. `report` receives the failure; an unchanged failure is reported
    only once.
    """

    clock: Now
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
        yield _parse(json.loads(_get(url, headers)))

    def _from_instance(self) -> Iterator[Credentials]:
        with suppress(urllib.error.HTTPError):  # an instance without a role
            role = read_metadata("iam/security-credentials/", self.metadata_url).split("\n")[0]
            yield _parse(json.loads(read_metadata(f"iam/security-credentials/{role}", self.metadata_url)))


def _parse(document: Mapping[str, Any]) -> Credentials:
    expires = from_text(document["Expiration"]) if document.get("Expiration") else None
    return Credentials(document["AccessKeyId"], document["SecretAccessKey"], document.get("Token"), expires)


def _get(url: str, headers: Mapping[str, str]) -> str:
    request = urllib.request.Request(url, headers=dict(headers))  # noqa: S310 - only fixed or checked hosts
    with urllib.request.urlopen(request, timeout=CONTAINER_TIMEOUT_SECONDS) as response:  # noqa: S310 - as above
        return str(response.read(65536).decode())


def region_of(queue_url: str, configured: str | None) -> str:
    """Return the configured AWS Region, else the Region in the queue URL, else that of the environment.

    The environment variables are AWS_REGION and AWS_DEFAULT_REGION. Without any Region, the result is `us-east-1`.
    """
    in_url = re.match(r"https://sqs[.]([a-z0-9-]+)[.]", queue_url)
    return configured or (
        in_url[1] if in_url else os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION", "us-east-1")
    )
