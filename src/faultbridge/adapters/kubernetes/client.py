"""Call the Kubernetes API of an EKS cluster through lightkube, with the caller's AWS identity.

docs/decisions/0004-kubernetes-client.md gives the reasons for lightkube. lightkube is in a Lambda layer that only some
functions have, so this module is imported only for EKS clusters.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx2
from botocore.signers import RequestSigner
from lightkube import ApiError, Client
from lightkube.config.client_adapter import Client as HttpClient
from lightkube.config.client_adapter import ConnectionParams
from lightkube.config.kubeconfig import SingleConfig
from lightkube.config.models import Cluster, Context, User
from lightkube.resources.batch_v1 import Job
from lightkube.resources.core_v1 import Node, Pod
from lightkube.resources.storage_v1 import VolumeAttachment
from lightkube.types import PatchType
from msgspec import MsgspecError, Struct, field

from faultbridge.adapters.aws.clients import CONNECT_SECONDS, READ_SECONDS, Clients
from faultbridge.adapters.aws.errors import translated
from faultbridge.model.errors import FaultbridgeError, Misconfigured, Transient
from faultbridge.model.names import dns_suffix
from faultbridge.model.retry import Retry

PAGE = 500
FIELD_MANAGER = "faultbridge"
TOKEN_PREFIX = "k8s-aws-v1."  # noqa: S105 - the public prefix of every token
TOKEN_SIGNED_SECONDS = 60
TOKEN_KEPT_SECONDS = 600.0
"""Seconds for which a token is used. EKS accepts it for 15 minutes, independent of the signed expiry."""

BUDGET = "DisruptionBudget"
"""The reason of a 429 that a disruption budget causes. Any other 429 means that the API is overloaded."""

Document = dict[str, Any]
_LOCAL = frozenset({"127.0.0.1", "localhost"})
T = TypeVar("T")
RETRY_ONCE = Retry(2, first_seconds=0)


class ApiAccess(Struct, frozen=True):
    """Access to a Kubernetes API: endpoint, certificate authority (PEM in base64) and bearer token."""

    endpoint: str
    authority: str | None
    token: str


class ApiRejection(FaultbridgeError):  # noqa: N818 - named like the other errors of this package
    """The Kubernetes API rejected the request, for example with HTTP 404, 409 or 422, for `reasons`."""

    def __init__(self, status: int, text: str, reasons: frozenset[str] = frozenset()) -> None:
        super().__init__(text)
        self.status = status
        self.reasons = reasons


class InternalFailure(Transient):
    """The Kubernetes API answered with HTTP 500, because an admission webhook or etcd failed, for example."""


class ReadTimedOut(Transient):
    """The Kubernetes API accepted the connection, but did not answer the request in time."""


class Unauthorized(Misconfigured):
    """The Kubernetes API did not accept the identity of the token (HTTP 401)."""


class Kubernetes(Struct):
    """Calls the API of one cluster, with a new token of `access` every ten minutes and after HTTP 401."""

    access: Callable[[], ApiAccess]
    monotonic: Callable[[], float] = time.monotonic
    _client: Client | None = None
    _http: httpx2.Client | None = None
    _until: float = field(default=0.0)

    def call(self, action: str, request: Callable[[Client], T]) -> T:
        """Make one API request, and return the result of `request`; error texts contain `action`.

        After HTTP 401, the request is sent once more with a new token, because the AWS credentials that signed the
        first token may have been renewed. Raises:

        - Transient after HTTP 410, a server error, a refusal because of load, or a missing or incomplete response
        - ReadTimedOut, which is a Transient, if no response arrives in time
        - Misconfigured if the permission is missing, or if the new token gets HTTP 401 too
        - ApiRejection after any other rejection
        """
        return RETRY_ONCE(
            lambda: self._call_once(action, request),
            retry_on=Unauthorized,
            on_retry=lambda _attempt, _error, _pause: self._drop_client(),
        )

    def send(
        self, action: str, method: str, path: str, body: Document | None = None, params: Mapping[str, str] | None = None
    ) -> Document:
        """Send one request with a JSON body, for what lightkube has no call; raises what `call` raises."""

        def request(client: Client) -> Document:
            if self._http is None:
                timeout = httpx2.Timeout(READ_SECONDS, connect=CONNECT_SECONDS)
                self._http = HttpClient(client.config, ConnectionParams(timeout=timeout, trust_env=False))
            headers = {"Content-Type": "application/json"}
            content = None if body is None else json.dumps(body).encode()
            response = self._http.request(method, path, params=params, content=content, headers=headers)
            try:
                document: Document = response.json()
            except ValueError as error:
                if not response.is_error:  # an incomplete list must not look like an empty one
                    raise Transient(f"Kubernetes, {action}: no complete response: {error}") from error
                document = {}
            if response.is_error:
                text = str(document.get("message") or f"HTTP {response.status_code}")
                raise error_of_status(action, response.status_code, text)
            return document

        return self.call(action, request)

    def documents(self, action: str, path: str, **params: str) -> Iterator[Document]:
        """Yield the objects of a list as JSON documents; one call lists 500 of them."""
        following: dict[str, str] = {}
        while True:
            page = self.send(action, "GET", path, params={"limit": str(PAGE), **params, **following})
            yield from page.get("items") or ()
            token = str((page.get("metadata") or {}).get("continue") or "")
            if not token:
                return
            following = {"continue": token}

    def nodes(self, labels: dict[str, str] | None = None) -> Iterator[Node]:
        """Yield the nodes of the cluster that have all `labels`; one call lists 500 nodes."""
        yield from self.call(
            "listing nodes", lambda client: tuple(client.list(Node, labels=dict(labels or {}), chunk_size=PAGE))
        )

    def attached_volumes(self, node: str) -> Iterator[str]:
        """Yield the persistent volumes with a VolumeAttachment to a node; else the attachment's name."""
        for one in self.call(
            "listing volume attachments", lambda client: tuple(client.list(VolumeAttachment, chunk_size=PAGE))
        ):
            if one.spec.nodeName == node:
                yield one.spec.source.persistentVolumeName or (one.metadata and one.metadata.name) or "a volume"

    def _call_once(self, action: str, request: Callable[[Client], T]) -> T:
        try:
            return request(self._current_client())
        except ApiError as error:
            raise _converted(action, error) from error
        except httpx2.ReadTimeout as error:
            raise ReadTimedOut(f"Kubernetes, {action}: no response within {READ_SECONDS} seconds") from error
        except (httpx2.HTTPError, MsgspecError) as error:
            raise Transient(f"Kubernetes, {action}: no complete response: {error}") from error

    def _drop_client(self) -> None:
        self._client = self._http = None

    def _current_client(self) -> Client:
        now = self.monotonic()
        if self._client is None or now >= self._until:
            self._client, self._http = _client(self.access()), None
            self._until = now + TOKEN_KEPT_SECONDS
        return self._client


def eks(clients: Clients, cluster: str) -> Kubernetes:
    """Return the client of the Kubernetes API of an EKS cluster."""
    return Kubernetes(lambda: eks_access(clients, cluster))


def eks_access(clients: Clients, cluster: str) -> ApiAccess:
    """Return the endpoint of an EKS cluster, and a token for the identity of the AWS credentials."""
    with translated(f"reading the EKS cluster {cluster}"):
        found = clients.eks.describe_cluster(name=cluster)["cluster"]
        request = {
            "method": "GET",
            "url": f"https://sts.{clients.region}.{dns_suffix(clients.region)}/?Action=GetCallerIdentity&Version=2011-06-15",
            "body": {},
            "headers": {"x-k8s-aws-id": cluster},
            "context": {},
        }
        url = _signed(clients, request)
    return ApiAccess(
        endpoint=str(found.get("endpoint") or ""),
        authority=(found.get("certificateAuthority") or {}).get("data"),
        token=TOKEN_PREFIX + base64.urlsafe_b64encode(url.encode()).decode().rstrip("="),
    )


def single_config(access: ApiAccess) -> SingleConfig:
    """Return lightkube's configuration; raises Misconfigured for http, except on the local host."""
    url = urlsplit(access.endpoint)
    # The token is never sent over an unencrypted connection, except on this machine.
    if not url.hostname or not (url.scheme == "https" or (url.scheme == "http" and url.hostname in _LOCAL)):
        raise Misconfigured(f"invalid endpoint of a Kubernetes API: {access.endpoint!r}; an https URL")
    cluster = Cluster(server=access.endpoint, certificate_auth_data=access.authority)
    return SingleConfig("eks", Context(cluster="eks"), cluster, User(token=access.token))


def error_of_status(action: str, status: int, message: str, reasons: frozenset[str] = frozenset()) -> FaultbridgeError:
    """Return the error for an HTTP status with which the Kubernetes API answered a request.

    `reasons` contains the causes that the API names. `action` and `message` are parts of the error text.

    - Unauthorized for 401, Misconfigured for 403, and InternalFailure for 500
    - Transient for 410, for any other 5xx, and for 429 because of load
    - ApiRejection for any other status, and for 429 because of a disruption budget
    """
    text = f"Kubernetes, {action}: {message}"
    if status == HTTPStatus.UNAUTHORIZED:
        return Unauthorized(text)
    if status == HTTPStatus.FORBIDDEN:
        return Misconfigured(text)
    if status == HTTPStatus.INTERNAL_SERVER_ERROR:
        return InternalFailure(text)
    overloaded = status == HTTPStatus.TOO_MANY_REQUESTS and BUDGET not in reasons
    # Status 410 (Gone): the list changed too much while its pages were read.
    if overloaded or status == HTTPStatus.GONE or status > HTTPStatus.INTERNAL_SERVER_ERROR:
        return Transient(text)
    return ApiRejection(status, text, reasons)


def _client(access: ApiAccess) -> Client:
    config = single_config(access)
    timeout = httpx2.Timeout(READ_SECONDS, connect=CONNECT_SECONDS)
    return Client(config=config, timeout=timeout, trust_env=False, field_manager=FIELD_MANAGER)


def _converted(action: str, error: ApiError) -> FaultbridgeError:
    status = int(error.status.code or 0)
    causes = (error.status.details.causes if error.status.details else None) or ()
    reasons = frozenset(cause.reason for cause in causes if cause.reason)
    return error_of_status(action, status, error.status.message or f"HTTP {status}", reasons)


def _signed(clients: Clients, request: dict[str, Any]) -> str:
    """Return the presigned URL of an STS call; it is valid for the cluster in its signed header only."""
    session, region = clients.session, str(clients.region)
    credentials, service = session.get_credentials(), clients.sts.meta.service_model.service_id
    if credentials is None:
        raise Misconfigured("no AWS credentials for the Kubernetes API; configure credentials")
    signer = RequestSigner(service, region, "sts", "v4", credentials, session.get_component("event_emitter"))
    url: str = signer.generate_presigned_url(
        request, operation_name="", expires_in=TOKEN_SIGNED_SECONDS, region_name=region
    )
    return url


def annotate_job(api: Kubernetes, namespace: str, name: str, annotations: Mapping[str, str]) -> None:
    """Set annotations of a Kubernetes Job (`batch/v1`); raises ApiRejection 404 if there is no such Job."""

    def apply(client: Client) -> None:
        patch = {"metadata": {"annotations": dict(annotations)}}
        client.patch(Job, name, patch, namespace=namespace, patch_type=PatchType.MERGE)

    api.call(f"annotating the Job {namespace}/{name}", apply)


def annotate_pods(
    api: Kubernetes, namespace: str, labels: Mapping[str, str | Collection[str]], annotations: Mapping[str, str]
) -> int:
    """Set annotations of the pods with these labels; returns their number."""

    def apply(client: Client) -> int:
        names = [
            one.metadata.name for one in client.list(Pod, namespace=namespace, labels=dict(labels)) if one.metadata
        ]
        for name in names:
            patch = {"metadata": {"annotations": dict(annotations)}}
            client.patch(Pod, str(name), patch, namespace=namespace, patch_type=PatchType.MERGE)
        return len(names)

    return api.call(f"annotating pods in {namespace}", apply)


FOLDER = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def in_cluster_access(environment: Mapping[str, str], folder: Path = FOLDER) -> ApiAccess:
    """Return the access of the current pod to the API, with the token of its service account.

    Raises Misconfigured outside a pod. The kubelet renews the token in its file, so each call reads the file.
    """
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise Misconfigured("not in a pod: KUBERNETES_SERVICE_HOST is not set; name the cluster with --eks-cluster")
    try:
        token = (folder / "token").read_text(encoding="ascii").strip()
        authority = base64.b64encode((folder / "ca.crt").read_bytes()).decode()
    except (OSError, ValueError) as error:
        raise Misconfigured(f"the token of the service account cannot be read: {error}") from None
    address = f"[{host}]" if ":" in host else host
    return ApiAccess(f"https://{address}:{port}", authority, token)
