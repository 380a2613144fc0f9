"""Answer the requests of the fake Kubernetes API over WSGI.

As on EKS, each request needs a token that contains a presigned `GetCallerIdentity` call, or the token of a service
account. Signatures are not verified, because all credentials are fake. A header marks every response as fake.
"""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from faultbridge.local.kubernetes.cluster import EVENTS as EVENT_RESOURCE
from faultbridge.local.kubernetes.cluster import NODES as NODE_RESOURCE
from faultbridge.local.kubernetes.cluster import PODS as POD_RESOURCE
from faultbridge.local.kubernetes.cluster import ApiStatusError, ChangeLog, Cluster, Document, Pod, VersionTooOld

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

    from faultbridge.local.kubernetes.karpenter import FakeKarpenter


BOOKMARK_SECONDS = 1.0
"""Pause without a change after which a bookmark is sent; the real API sends one about every minute."""

MAX_SECONDS = 300.0


def stream(
    log: ChangeLog, resource: str, version: int, seconds: float, wanted: Callable[[Document], bool]
) -> Iterator[bytes]:
    """Yield the changes of a resource after a version, as JSON lines, for at most `MAX_SECONDS`.

    If nothing that is `wanted` changes for `BOOKMARK_SECONDS`, a bookmark (a line with only the latest version) is
    yielded. If the changes after `version` were discarded, the stream ends with an error.
    """
    end = time.monotonic() + min(seconds, MAX_SECONDS)
    while (left := end - time.monotonic()) > 0:
        try:
            changes = log.after(version, min(left, BOOKMARK_SECONDS))
        except VersionTooOld:
            yield _line("ERROR", expired(version))
            return
        version = max([version, *(change.version for change in changes)])
        matching = [change for change in changes if change.resource == resource and wanted(change.object)]
        yield from (_line(change.type, change.object) for change in matching)
        if not matching:
            yield _line("BOOKMARK", {"metadata": {"resourceVersion": str(version)}})


def expired(version: int) -> Document:
    """Return the Kubernetes `Status` (410) for a watch whose resource version is too old."""
    return _failure(410, "Expired", f"too old resource version: {version}")


def _failure(code: int, reason: str, message: str) -> Document:
    failed = {"kind": "Status", "apiVersion": "v1", "status": "Failure"}
    return {**failed, "reason": reason, "message": message, "code": code}


def _line(type_: str, document: Document) -> bytes:
    return json.dumps({"type": type_, "object": document}).encode() + b"\n"


MAX_PAGE = 500
TOKEN = re.compile(r"Bearer k8s-aws-v1\.([A-Za-z0-9_-]+)")
SERVICE_ACCOUNT_TOKEN = "fake-service-account-token"  # noqa: S105 - the token of a fake
MERGE_PATCHES = frozenset({"application/merge-patch+json", "application/strategic-merge-patch+json"})
FAKE = ("X-Faultbridge-Fake", "a small Kubernetes API of the embedded stack")


Query = dict[str, list[str]]


def answer(find: Callable[[], Cluster], path: str, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
    """Answer one request; `find` returns the cluster, `path` is the URL path after the cluster's name."""
    try:
        cluster = find()
        code, document = _answer(cluster, path, environ)
        if "watch" in document:
            start("200 OK", [("Content-Type", "application/json"), FAKE])
            return stream(cluster.log, **document["watch"])
    except ApiStatusError as error:
        code, document = error.code, _status(error)
    body = json.dumps(document).encode()
    status = f"{code} {HTTPStatus(code).phrase}"
    start(status, [("Content-Type", "application/json"), ("Content-Length", str(len(body))), FAKE])
    return [body]


class _Request(NamedTuple):
    """A request: the cluster, the names in its path, its query and its environment."""

    cluster: Cluster
    names: tuple[Any, ...]
    query: Query
    environ: WSGIEnvironment

    def first(self, name: str, default: str = "") -> str:
        """Return the first value of a parameter of the query."""
        return self.query.get(name, [default])[0]

    def selected(self, name: str) -> dict[str, str]:
        """Return the names and values that a selector in the query requires."""
        return dict(_pairs(self.first(name)))


def _answer(cluster: Cluster, path: str, environ: WSGIEnvironment) -> tuple[int, Document]:
    if not cluster.reachable:
        raise ApiStatusError(503, "ServiceUnavailable", "the API server is unreachable (injected fault)")
    if not _is_authenticated(str(environ.get("HTTP_AUTHORIZATION", ""))):
        raise ApiStatusError(401, "Unauthorized", "Unauthorized")
    query, method = parse_qs(str(environ.get("QUERY_STRING", ""))), str(environ["REQUEST_METHOD"])
    for route_method, pattern, permission, handler in _ROUTES:
        found = re.fullmatch(pattern, path)
        if found and route_method == method:
            if permission is not None:  # otherwise the handler adds it: list or watch
                cluster.permissions_used.add(permission)
            return 201 if method == "POST" else 200, handler(_Request(cluster, found.groups(), query, environ))
    raise ApiStatusError(404, "NotFound", f"this fake API does not implement {method} {path}")


def _is_authenticated(authorization: str) -> bool:
    found = TOKEN.fullmatch(authorization)
    if found is None:
        return authorization == f"Bearer {SERVICE_ACCOUNT_TOKEN}"
    encoded = found[1] + "=" * (-len(found[1]) % 4)
    query = parse_qs(urlsplit(base64.urlsafe_b64decode(encoded).decode(errors="replace")).query)
    signed = query.get("X-Amz-SignedHeaders", [""])[0].split(";")
    return query.get("Action") == ["GetCallerIdentity"] and "x-k8s-aws-id" in signed


def _list_nodes(request: _Request) -> Document:
    selector = request.selected("labelSelector").items()
    return _list_or_watch(request, NODE_RESOURCE, lambda node: selector <= node["metadata"]["labels"].items())


def _list_events(request: _Request) -> Document:
    kind = request.selected("fieldSelector").get("involvedObject.kind")
    return _list_or_watch(request, EVENT_RESOURCE, lambda event: kind in {None, event["involvedObject"]["kind"]})


def _list_or_watch(request: _Request, resource: str, wanted: Callable[[Document], bool]) -> Document:
    cluster = request.cluster
    if request.first("watch") == "true":
        cluster.permissions_used.add(("watch", resource))
        version, seconds = int(request.query["resourceVersion"][0]), float(request.first("timeoutSeconds", "300"))
        return {"watch": {"resource": resource, "version": version, "seconds": seconds, "wanted": wanted}}
    cluster.permissions_used.add(("list", resource))
    with cluster.lock:
        stored = cluster.nodes if resource == NODE_RESOURCE else cluster.events
        found = [one for _, one in sorted(stored.items()) if wanted(one)]
        return _page({NODE_RESOURCE: "NodeList", EVENT_RESOURCE: "EventList"}[resource], found, request)


def _list_pods(request: _Request) -> Document:
    cluster = request.cluster
    if request.first("watch") == "true":
        return _list_or_watch(request, POD_RESOURCE, lambda _: True)
    cluster.permissions_used.add(("list", POD_RESOURCE))
    fields = request.selected("fieldSelector")
    node, phase = fields.get("spec.nodeName"), fields.get("status.phase")
    found = [_pod(pod) for pod in cluster.running() if node in {None, pod.node} and phase in {None, pod.phase}]
    with cluster.lock:
        jobs = [] if phase else cluster.job_pods.values()
        found += [pod for pod in jobs if node in {None, pod["spec"].get("nodeName")}]
    labels = request.selected("labelSelector").items()
    found = [pod for pod in found if labels <= pod["metadata"].get("labels", {}).items()]
    found = [pod for pod in found if request.names[0] in {None, pod["metadata"].get("namespace")}]
    return _page("PodList", found, request)


def _annotate_pod(request: _Request) -> Document:
    pods = request.cluster.job_pods.values()
    named = {(one["metadata"]["namespace"], one["metadata"]["name"]): one for one in pods}
    return _annotate(request, named.get(request.names), "pods")


def _annotate_job(request: _Request) -> Document:
    return _annotate(request, request.cluster.jobs.get(request.names), "jobs.batch")


def _annotate(request: _Request, found: Document | None, resource: str) -> Document:
    patch = _merge_patch(request.environ)
    with request.cluster.lock:
        if found is None:
            raise ApiStatusError(404, "NotFound", f'{resource} "{request.names[1]}" not found')
        annotations = found["metadata"].setdefault("annotations", {})
        annotations |= patch["metadata"]["annotations"]
        return found


def _list_volume_attachments(request: _Request) -> Document:
    found: list[Document] = [
        {
            "metadata": {"name": f"csi-{volume}"},
            "spec": {"attacher": "ebs.csi.aws.com", "nodeName": node, "source": {"persistentVolumeName": volume}},
        }
        for volume, node in sorted(request.cluster.attached_volumes.items())
    ]
    return _page("VolumeAttachmentList", found, request)


def _evict(request: _Request) -> Document:
    eviction = _body(request.environ)
    if eviction.get("kind") != "Eviction" or eviction.get("apiVersion") != "policy/v1":
        raise ApiStatusError(400, "BadRequest", "the body is not a policy/v1 Eviction")
    request.cluster.evict(*request.names)
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def _karpenter(request: _Request, path: str) -> FakeKarpenter:
    if request.cluster.karpenter is None:
        raise ApiStatusError(404, "NotFound", f"the server could not find the requested resource {path}")
    return request.cluster.karpenter


def _list_claims(request: _Request) -> Document:
    selector = request.selected("labelSelector").items()
    claims = _karpenter(request, "nodeclaims").claims
    found = [one for _, one in sorted(claims.items()) if selector <= one["metadata"]["labels"].items()]
    return _page("NodeClaimList", found, request)


def _list_pools(request: _Request) -> Document:
    pools = _karpenter(request, "nodepools").pools
    return _page("NodePoolList", [one for _, one in sorted(pools.items())], request)


def _delete_claim(request: _Request) -> Document:
    return _karpenter(request, "nodeclaims").delete_claim(request.names[0], _body(request.environ))


def _read_deployment(request: _Request) -> Document:
    karpenter = request.cluster.karpenter
    found = karpenter.deployments.get(request.names) if karpenter else None
    if found is None:
        raise ApiStatusError(404, "NotFound", f'deployments.apps "{request.names[1]}" not found')
    return found


_POD = "/api/v1/namespaces/([^/]+)/pods/([^/]+)"
_CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"
_ROUTES: tuple[tuple[str, str, tuple[str, str] | None, Callable[[_Request], Document]], ...] = (
    ("GET", "/api/v1/nodes", None, _list_nodes),
    ("GET", "/api/v1/namespaces/default/events", None, _list_events),
    ("GET", "/api/v1/nodes/([^/]+)", ("get", "nodes"), lambda request: request.cluster.node(request.names[0])),
    (
        "PATCH",
        "/api/v1/nodes/([^/]+)",
        ("patch", "nodes"),
        lambda request: request.cluster.patch_node(request.names[0], _merge_patch(request.environ)),
    ),
    ("GET", "/api/v1(?:/namespaces/([^/]+))?/pods", None, _list_pods),
    ("POST", f"{_POD}/eviction", ("create", "pods/eviction"), _evict),
    ("PATCH", _POD, ("patch", "pods"), _annotate_pod),
    ("PATCH", "/apis/batch/v1/namespaces/([^/]+)/jobs/([^/]+)", ("patch", "jobs"), _annotate_job),
    ("GET", "/apis/storage.k8s.io/v1/volumeattachments", ("list", "volumeattachments"), _list_volume_attachments),
    ("GET", _CLAIMS, ("list", "nodeclaims"), _list_claims),
    ("DELETE", f"{_CLAIMS}/([^/]+)", ("delete", "nodeclaims"), _delete_claim),
    ("GET", "/apis/karpenter.sh/v1/nodepools", ("list", "nodepools"), _list_pools),
    ("GET", "/apis/apps/v1/namespaces/([^/]+)/deployments/([^/]+)", ("get", "deployments"), _read_deployment),
    ("GET", "/version", ("get", "version"), lambda _: {"major": "1", "minor": "33", "gitVersion": "v1.33.0-fake"}),
)


def _page(kind: str, found: list[Document], request: _Request) -> Document:
    first = int(request.first("continue", "0"))
    following = first + int(request.first("limit", str(MAX_PAGE)))
    metadata = {"resourceVersion": str(request.cluster.log.version)}
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
    return {**_failure(error.code, error.reason, error.message), "metadata": {}, "details": details}


def _pairs(selector: str) -> Iterator[tuple[str, str]]:
    for term in filter(None, selector.split(",")):
        name, _, value = term.partition("=")
        yield name, value.removeprefix("=")


def _merge_patch(environ: WSGIEnvironment) -> Any:  # noqa: ANN401 - any JSON
    if str(environ.get("CONTENT_TYPE")) not in MERGE_PATCHES:
        raise ApiStatusError(415, "UnsupportedMediaType", "the body of the request was in an unknown format")
    return _body(environ)


def _body(environ: WSGIEnvironment) -> Any:  # noqa: ANN401 - any JSON
    length = int(environ.get("CONTENT_LENGTH") or 0)
    try:
        return json.loads(environ["wsgi.input"].read(length) or b"{}")
    except ValueError:
        raise ApiStatusError(400, "BadRequest", "the body is not JSON") from None
