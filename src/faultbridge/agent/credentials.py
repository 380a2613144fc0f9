"""Credentials of the role that this node has: from the environment, its pod, or its instance profile.

Web identities are left out on purpose: whoever takes such a role chooses the name of the session, and that name is what
proves to the queue which instance sent a record.
"""

from __future__ import annotations

import json
import os
import re
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from faultbridge.agent import identity
from faultbridge.agent.clock import AgentClock
from faultbridge.agent.signing import Credentials
from faultbridge.domain.times import from_text

EARLY = timedelta(minutes=10)
PATIENCE = 5.0
CONTAINER_HOST = "http://169.254.170.2"
# Whom a pod's agent, EKS Pod Identity or ECS may be; a URL from the environment must not lead elsewhere.
_CONTAINER_HOSTS = frozenset({"169.254.170.2", "169.254.170.23", "fd00:ec2::23", "localhost", "127.0.0.1"})


class NoCredentials(Exception):  # noqa: N818 - names the situation, which may end by itself
    """Neither environment, pod nor instance gave a role's keys."""


@dataclass(slots=True)
class RoleCredentials:
    """The role's keys, asked for again ten minutes before they end."""

    clock: AgentClock
    environment: Mapping[str, str]
    metadata: str = identity.METADATA
    _held: Credentials | None = None

    def __call__(self) -> Credentials:
        """Return keys that hold; raises NoCredentials."""
        held = self._held
        if held is None or (held.expires is not None and held.expires - EARLY <= self.clock.now()):
            self._held = held = self._ask()
        return held

    def _ask(self) -> Credentials:
        told: list[str] = []
        for read in (self._from_environment, self._from_container, self._from_instance):
            try:
                for found in read():
                    return found
            except (urllib.error.URLError, OSError, ValueError, KeyError) as error:
                told.append(str(error))
        raise NoCredentials("; ".join(told) or "there is no role")

    def _from_environment(self) -> Iterator[Credentials]:
        key, secret = self.environment.get("AWS_ACCESS_KEY_ID"), self.environment.get("AWS_SECRET_ACCESS_KEY")
        if key and secret:
            yield Credentials(key, secret, self.environment.get("AWS_SESSION_TOKEN"))

    def _from_container(self) -> Iterator[Credentials]:
        relative = self.environment.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
        url = CONTAINER_HOST + relative if relative else self.environment.get("AWS_CONTAINER_CREDENTIALS_FULL_URI")
        if not url:
            return
        if urlsplit(url).hostname not in _CONTAINER_HOSTS:
            raise ValueError(f"{url} is no place for a pod's credentials")
        headers = {}
        file = self.environment.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")
        if file:
            headers["Authorization"] = Path(file).read_text(encoding="utf-8").strip()
        yield _read(json.loads(_get(url, headers)))

    def _from_instance(self) -> Iterator[Credentials]:
        with suppress(urllib.error.HTTPError):  # an instance without a role
            role = identity.metadata("iam/security-credentials/", self.metadata).split("\n")[0]
            yield _read(json.loads(identity.metadata(f"iam/security-credentials/{role}", self.metadata)))


def _read(answer: Mapping[str, Any]) -> Credentials:
    expires = from_text(answer["Expiration"]) if answer.get("Expiration") else None
    return Credentials(answer["AccessKeyId"], answer["SecretAccessKey"], answer.get("Token"), expires)


def _get(url: str, headers: Mapping[str, str]) -> str:
    asking = urllib.request.Request(url, headers=dict(headers))  # noqa: S310 - only fixed or checked hosts
    with urllib.request.urlopen(asking, timeout=PATIENCE) as answer:  # noqa: S310 - as above
        return str(answer.read(65536).decode())


def region_of(queue_url: str, given: str | None) -> str:
    """Return the region that was given, else the queue's, else the environment's."""
    named = re.match(r"https://sqs[.]([a-z0-9-]+)[.]", queue_url)
    return given or (
        named[1] if named else os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION", "us-east-1")
    )
