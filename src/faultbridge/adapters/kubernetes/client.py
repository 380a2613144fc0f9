"""The Kubernetes API of an EKS cluster, as whoever the AWS credentials say, through lightkube.

docs/decisions/0004-kubernetes-client.md says why lightkube. It comes in a layer that only some functions have, so
this module is imported only where a cluster is one of EKS.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx2
from botocore.signers import RequestSigner
from lightkube import ApiError, Client
from lightkube.config.kubeconfig import SingleConfig
from lightkube.config.models import Cluster, Context, User
from lightkube.resources.core_v1 import Node
from msgspec import MsgspecError

from faultbridge.adapters.aws_errors import translated
from faultbridge.adapters.clients import CONNECT_SECONDS, READ_SECONDS, Clients
from faultbridge.errors import FaultbridgeError, Misconfigured, Transient

PAGE = 500
FIELD_MANAGER = "faultbridge"
TOKEN_PREFIX = "k8s-aws-v1."  # noqa: S105 - what every token begins with
TOKEN_SIGNED_SECONDS = 60
TOKEN_KEPT_SECONDS = 600.0
"""A token holds for fifteen minutes, whatever it was signed for."""

_LOCAL = frozenset({"127.0.0.1", "localhost"})
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Access:
    """Where an API is, whom its certificate is signed by (PEM in base64), and the token that proves who asks."""

    endpoint: str
    authority: str | None
    token: str


class Refused(FaultbridgeError):  # noqa: N818 - an answer, as the errors beside it are situations
    """The API understood and did not do it (404, 409, 422, 429); what that means is for the caller to judge."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Unauthorized(Misconfigured):
    """The API does not know who asks."""


@dataclass(slots=True)
class Kubernetes:
    """Asks the API of one cluster; `access` finds the way in, and is asked anew when a token gets old."""

    access: Callable[[], Access]
    monotonic: Callable[[], float] = time.monotonic
    _client: Client | None = None
    _until: float = field(default=0.0)

    def ask(self, what: str, question: Callable[[Client], T]) -> T:
        """Put one question to the API; `what` says for people what was tried.

        Transient when no whole answer came or the API is ill, Misconfigured when it forbids it, Refused otherwise.
        """
        try:
            return self._once(what, question)
        except Unauthorized:
            self._client = None  # its token was signed by credentials that were renewed meanwhile
            return self._once(what, question)

    def nodes(self, labels: dict[str, str] | None = None) -> Iterator[Node]:
        """List the nodes of the cluster, or those with these labels; five hundred a call."""
        yield from self.ask(
            "listing nodes",
            lambda client: tuple(client.list(Node, labels=dict(labels or {}), chunk_size=PAGE)),
        )

    def _once(self, what: str, question: Callable[[Client], T]) -> T:
        try:
            return question(self._connected())
        except ApiError as error:
            raise _judged(what, error) from error
        except (httpx2.HTTPError, MsgspecError) as error:
            raise Transient(f"Kubernetes, {what}: no whole answer: {error}") from error

    def _connected(self) -> Client:
        now = self.monotonic()
        if self._client is None or now >= self._until:
            self._client, self._until = _client(self.access()), now + TOKEN_KEPT_SECONDS
        return self._client


def eks(clients: Clients, cluster: str) -> Kubernetes:
    """Return the API of an EKS cluster."""
    return Kubernetes(lambda: eks_access(clients, cluster))


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
    return Access(
        endpoint=str(found.get("endpoint") or ""),
        authority=(found.get("certificateAuthority") or {}).get("data"),
        token=TOKEN_PREFIX + base64.urlsafe_b64encode(url.encode()).decode().rstrip("="),
    )


def _client(access: Access) -> Client:
    place = urlsplit(access.endpoint)
    # A token is given to nobody over a line that others can read.
    if not place.hostname or not (place.scheme == "https" or (place.scheme == "http" and place.hostname in _LOCAL)):
        raise Misconfigured(f"{access.endpoint!r} is no address of a Kubernetes API")
    where = Cluster(server=access.endpoint, certificate_auth_data=access.authority)
    config = SingleConfig("eks", Context(cluster="eks"), where, User(token=access.token))
    patience = httpx2.Timeout(READ_SECONDS, connect=CONNECT_SECONDS)
    return Client(config=config, timeout=patience, trust_env=False, field_manager=FIELD_MANAGER)


def _judged(what: str, error: ApiError) -> FaultbridgeError:
    status = int(error.status.code or 0)
    text = f"Kubernetes, {what}: {error.status.message or f'HTTP {status}'}"
    if status == HTTPStatus.UNAUTHORIZED:
        return Unauthorized(text)
    if status == HTTPStatus.FORBIDDEN:
        return Misconfigured(text)
    # Gone is a list that changed too much to be read to its end.
    if status == HTTPStatus.GONE or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return Transient(text)
    return Refused(status, text)


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
