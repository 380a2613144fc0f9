"""The Kubernetes API of an EKS cluster over plain HTTPS, as whoever the AWS credentials say.

The official client library weighs 126 MB unpacked (its dependencies 37 MB more) and takes 0.2 s and 44 MB to import;
a layer has 250 MB in all. What is needed here are a handful of JSON calls, so the standard library makes them.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode, urlsplit

from botocore.signers import RequestSigner

from faultbridge.adapters.aws_errors import translated
from faultbridge.adapters.clients import Clients
from faultbridge.errors import Misconfigured, Transient

CALL_SECONDS = 15.0
PAGE = 500
JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
TOKEN_PREFIX = "k8s-aws-v1."  # noqa: S105 - what every token begins with
TOKEN_SIGNED_SECONDS = 60
TOKEN_KEPT_SECONDS = 600.0
"""A token holds for fifteen minutes, whatever it was signed for."""

_REFUSED = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})
_MOST_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Reply:
    """What the API answered: its status and its document, a `Status` object where it did not do what was asked."""

    status: int
    document: Mapping[str, Any]

    @property
    def ok(self) -> bool:
        """Tell whether it was done."""
        return HTTPStatus.OK <= self.status < HTTPStatus.MULTIPLE_CHOICES

    @property
    def message(self) -> str:
        """Return the API's own words."""
        return str(self.document.get("message", "")) or f"HTTP {self.status}"


@dataclass(frozen=True, slots=True)
class Access:
    """Where an API is, whom its certificate is signed by (PEM), and the token that proves who asks."""

    endpoint: str
    authority: str | None
    token: str


@dataclass(slots=True)
class Kubernetes:
    """Makes calls to one cluster's API; `access` finds the way in, and is asked anew when a token gets old."""

    access: Callable[[], Access]
    monotonic: Callable[[], float] = time.monotonic
    _held: Access | None = None
    _until: float = field(default=0.0)

    def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        content: str = JSON,
    ) -> Reply:
        """Make one call; Transient when no whole answer came or the API is ill, Misconfigured when it forbids it.

        Any other refusal (404, 409, 422, 429) is the caller's to judge.
        """
        target = f"{path}?{urlencode(query)}" if query else path
        data = json.dumps(body).encode() if body is not None else None
        reply = self._once(method, target, data, content)
        if reply.status == HTTPStatus.UNAUTHORIZED:
            self._held = None  # signed by credentials that were renewed meanwhile
            reply = self._once(method, target, data, content)
        if reply.status in _REFUSED:
            raise Misconfigured(f"Kubernetes refuses {method} {path}: {reply.message}")
        if reply.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise Transient(f"Kubernetes, {method} {path}: {reply.message}")
        return reply

    def items(self, path: str, query: Mapping[str, str] | None = None) -> Iterator[Mapping[str, Any]]:
        """Read a list, five hundred objects a call; Transient when it changed too much to be read to its end."""
        asked = {**(query or {}), "limit": str(PAGE)}
        while True:
            reply = self.call("GET", path, query=asked)
            if not reply.ok:
                raise Transient(f"Kubernetes, GET {path}: {reply.message}")
            yield from reply.document.get("items") or ()
            following = (reply.document.get("metadata") or {}).get("continue")
            if not following:
                return
            asked = {**asked, "continue": str(following)}

    def _once(self, method: str, target: str, data: bytes | None, content: str) -> Reply:
        access = self._way_in()
        headers = {"Authorization": f"Bearer {access.token}", "Accept": JSON}
        headers |= {"Content-Type": content} if data is not None else {}
        connection = _connection(access)
        try:
            connection.request(method, urlsplit(access.endpoint).path.rstrip("/") + target, body=data, headers=headers)
            answer = connection.getresponse()
            return Reply(answer.status, _document(answer.read(_MOST_BYTES)))
        except (OSError, http.client.HTTPException) as error:
            raise Transient(f"Kubernetes does not answer {method} {target.partition('?')[0]}: {error}") from error
        finally:
            connection.close()

    def _way_in(self) -> Access:
        now = self.monotonic()
        if self._held is None or now >= self._until:
            self._held, self._until = self.access(), now + TOKEN_KEPT_SECONDS
        return self._held


def eks_access(clients: Clients, cluster: str) -> Access:
    """Find the way into an EKS cluster: where it is, and a token that its authenticator reads as our AWS identity."""
    with translated(f"looking for the EKS cluster {cluster}"):
        found = clients.eks.describe_cluster(name=cluster)["cluster"]
        request = {
            "method": "GET",
            "url": f"https://sts.{clients.region}.{_domain(clients.region)}/?Action=GetCallerIdentity&Version=2011-06-15",
            "body": {},
            "headers": {"x-k8s-aws-id": cluster},
            "context": {},
        }
        url = _signed(clients, request)
    authority = (found.get("certificateAuthority") or {}).get("data")
    return Access(
        endpoint=str(found.get("endpoint") or ""),
        authority=base64.b64decode(authority).decode() if authority else None,
        token=TOKEN_PREFIX + base64.urlsafe_b64encode(url.encode()).decode().rstrip("="),
    )


def eks(clients: Clients, cluster: str) -> Kubernetes:
    """Return the API of an EKS cluster."""
    return Kubernetes(lambda: eks_access(clients, cluster))


def _domain(region: str | None) -> str:
    return "amazonaws.com.cn" if str(region).startswith("cn-") else "amazonaws.com"


def _signed(clients: Clients, request: dict[str, Any]) -> str:
    """Sign a request that botocore does not model: the header with the cluster's name is part of what is signed."""
    session, region = clients.session, str(clients.region)
    credentials, service = session.get_credentials(), clients.sts.meta.service_model.service_id
    if credentials is None:
        raise Misconfigured("there are no AWS credentials to show to Kubernetes")
    signer = RequestSigner(service, region, "sts", "v4", credentials, session.events)
    url: str = signer.generate_presigned_url(
        request, operation_name="", expires_in=TOKEN_SIGNED_SECONDS, region_name=region
    )
    return url


def _connection(access: Access) -> http.client.HTTPConnection:
    place = urlsplit(access.endpoint)
    if place.scheme == "https" and place.hostname:
        trusted = ssl.create_default_context(cadata=access.authority)
        return http.client.HTTPSConnection(place.hostname, place.port, timeout=CALL_SECONDS, context=trusted)
    if place.scheme == "http" and place.hostname in {"127.0.0.1", "localhost"}:
        return http.client.HTTPConnection(place.hostname, place.port, timeout=CALL_SECONDS)
    raise Misconfigured(f"{access.endpoint!r} is no address of a Kubernetes API")


def _document(body: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(body or b"{}")
    except ValueError as error:
        raise Transient("Kubernetes answered something that is no JSON") from error
    return found if isinstance(found, dict) else {}
