"""Answer the requests of the fake Kubernetes API over WSGI.

As on EKS, each request needs a token that contains a presigned `GetCallerIdentity` call, or the token of a service
account. Signatures are not verified, because all credentials are fake. A header marks every response as fake.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Iterator
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from faultbridge.local.kubernetes.cluster import ApiStatusError, Cluster, Document, Pod

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment


MAX_PAGE = 500
TOKEN = re.compile(r"Bearer k8s-aws-v1\.([A-Za-z0-9_-]+)")
SERVICE_ACCOUNT_TOKEN = "fake-service-account-token"  # noqa: S105 - the token of a fake
MERGE_PATCHES = frozenset({"application/merge-patch+json", "application/strategic-merge-patch+json"})
FAKE = ("X-Faultbridge-Fake", "a small Kubernetes API of the embedded stack")


def answer(
    find: Callable[[], Cluster],
    path: str,
    environ: WSGIEnvironment,
    start: StartResponse,
    routes: Iterable[Route] | None = None,
) -> Iterable[bytes]:
    """Answer one request; `find` returns the cluster, `path` is the URL path after the cluster's name."""
    try:
        code, document = _answer(find(), path, environ, ROUTES if routes is None else routes)
        if not isinstance(document, dict):
            start("200 OK", [("Content-Type", "application/json"), FAKE])
            return document
    except ApiStatusError as error:
        code, document = error.code, _status(error)
    body = json.dumps(document).encode()
    status = f"{code} {HTTPStatus(code).phrase}"
    start(status, [("Content-Type", "application/json"), ("Content-Length", str(len(body))), FAKE])
    return [body]


class Request(NamedTuple):
    """A request: the cluster, the names in its path, its query and its environment."""

    cluster: Cluster
    names: tuple[Any, ...]
    query: dict[str, list[str]]
    environ: WSGIEnvironment

    def first(self, name: str, default: str = "") -> str:
        """Return the first value of a parameter of the query."""
        return self.query.get(name, [default])[0]

    def selected(self, name: str) -> dict[str, str]:
        """Return the names and values that a selector in the query requires."""
        terms = (term.partition("=") for term in self.first(name).split(",") if term)
        return {term: value.removeprefix("=") for term, _, value in terms}

    def body(self) -> Any:  # noqa: ANN401 - any JSON
        """Return the JSON body of the request."""
        length = int(self.environ.get("CONTENT_LENGTH") or 0)
        try:
            return json.loads(self.environ["wsgi.input"].read(length) or b"{}")
        except ValueError:
            raise ApiStatusError(400, "BadRequest", "the body is not JSON") from None

    def merge_patch(self) -> Any:  # noqa: ANN401 - any JSON
        """Return the body of a request that patches an object."""
        if str(self.environ.get("CONTENT_TYPE")) not in MERGE_PATCHES:
            raise ApiStatusError(415, "UnsupportedMediaType", "the body of the request was in an unknown format")
        return self.body()


def _answer(
    cluster: Cluster, path: str, environ: WSGIEnvironment, routes: Iterable[Route]
) -> tuple[int, Document | Iterator[bytes]]:
    if not cluster.reachable:
        raise ApiStatusError(503, "ServiceUnavailable", "the API server is unreachable (injected fault)")
    if not _is_authenticated(str(environ.get("HTTP_AUTHORIZATION", ""))):
        raise ApiStatusError(401, "Unauthorized", "Unauthorized")
    query, method = parse_qs(str(environ.get("QUERY_STRING", ""))), str(environ["REQUEST_METHOD"])
    for route_method, pattern, handler in routes:
        found = re.fullmatch(pattern, path)
        if found and route_method == method:
            return 201 if method == "POST" else 200, handler(Request(cluster, found.groups(), query, environ))
    raise ApiStatusError(404, "NotFound", f"this fake API does not implement {method} {path}")


def _is_authenticated(authorization: str) -> bool:
    found = TOKEN.fullmatch(authorization)
    if found is None:
        return authorization == f"Bearer {SERVICE_ACCOUNT_TOKEN}"
    encoded = found[1] + "=" * (-len(found[1]) % 4)
    query = parse_qs(urlsplit(base64.urlsafe_b64decode(encoded).decode(errors="replace")).query)
    signed = query.get("X-Amz-SignedHeaders", [""])[0].split(";")
    return query.get("Action") == ["GetCallerIdentity"] and "x-k8s-aws-id" in signed


def list_nodes(request: Request) -> Document:
    """List the nodes that a label selector selects."""
    selector = request.selected("labelSelector").items()
    with request.cluster.lock:
        nodes = [node for _, node in sorted(request.cluster.nodes.items())]
    return page("NodeList", [one for one in nodes if selector <= one["metadata"]["labels"].items()], request)


def list_pods(request: Request, others: Iterable[Document] = ()) -> Document:
    """List the pods, and `others`, that the selectors of the query select, in one namespace or in all."""
    fields, labels = request.selected("fieldSelector"), request.selected("labelSelector").items()
    node, phase = fields.get("spec.nodeName"), fields.get("status.phase")
    found = [
        document
        for document in (*map(_pod, request.cluster.running()), *others)
        if node in {None, document["spec"].get("nodeName")}
        and phase in {None, document.get("status", {}).get("phase")}
        and labels <= document["metadata"].get("labels", {}).items()
        and request.names[0] in {None, document["metadata"].get("namespace")}
    ]
    return page("PodList", found, request)


def _evict(request: Request) -> Document:
    eviction = request.body()
    if eviction.get("kind") != "Eviction" or eviction.get("apiVersion") != "policy/v1":
        raise ApiStatusError(400, "BadRequest", "the body is not a policy/v1 Eviction")
    request.cluster.evict(*request.names)
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


Route = tuple[str, str, Callable[[Request], Document | Iterator[bytes]]]
"""The method of a request, the pattern of its path, and the function that answers: with a document or with a stream."""

ROUTES: tuple[Route, ...] = (
    ("GET", "/api/v1/nodes", list_nodes),
    ("GET", "/api/v1/nodes/([^/]+)", lambda request: request.cluster.node(request.names[0])),
    (
        "PATCH",
        "/api/v1/nodes/([^/]+)",
        lambda request: request.cluster.patch_node(request.names[0], request.merge_patch()),
    ),
    ("GET", "/api/v1(?:/namespaces/([^/]+))?/pods", list_pods),
    ("POST", "/api/v1/namespaces/([^/]+)/pods/([^/]+)/eviction", _evict),
    ("GET", "/apis/storage.k8s.io/v1/volumeattachments", lambda request: page("VolumeAttachmentList", [], request)),
    ("GET", "/version", lambda _: {"major": "1", "minor": "33", "gitVersion": "v1.33.0-fake"}),
)


def page(kind: str, found: list[Document], request: Request) -> Document:
    """Return the page of a list that a request selects."""
    first = int(request.first("continue", "0"))
    following = first + int(request.first("limit", str(MAX_PAGE)))
    metadata = {"resourceVersion": str(request.cluster.version)}
    metadata |= {"continue": str(following)} if following < len(found) else {}
    return {"kind": kind, "apiVersion": "v1", "metadata": metadata, "items": found[first:following]}


def _pod(pod: Pod) -> Document:
    metadata: Document = {"namespace": pod.namespace, "name": pod.name, "labels": dict(pod.labels)}
    if pod.owner:
        metadata["ownerReferences"] = [
            {"apiVersion": "apps/v1", "kind": pod.owner, "name": pod.name, "uid": pod.name, "controller": True}
        ]
    if pod.mirror:
        metadata["annotations"] = {"kubernetes.io/config.mirror": "sample"}
    if pod.gone_at is not None:
        metadata["deletionTimestamp"] = pod.gone_at.strftime("%Y-%m-%dT%H:%M:%SZ")
    waits = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}] if pod.phase == "Pending" else []
    requests = {"requests": {"nvidia.com/gpu": str(pod.gpus)} if pod.gpus else {}}
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": metadata,
        "spec": {"nodeName": pod.node, "containers": [{"name": "main", "resources": requests}]},
        "status": {"phase": pod.phase, "conditions": waits},
    }


def _status(error: ApiStatusError) -> Document:
    details: Document = {"causes": [{"reason": "DisruptionBudget", "message": error.cause}]} if error.cause else {}
    return {**failure(error.code, error.reason, error.message), "metadata": {}, "details": details}


def failure(code: int, reason: str, message: str) -> Document:
    """Return the Kubernetes `Status` of a refusal."""
    failed = {"kind": "Status", "apiVersion": "v1", "status": "Failure"}
    return {**failed, "reason": reason, "message": message, "code": code}
