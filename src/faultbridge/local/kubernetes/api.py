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
from typing import TYPE_CHECKING, Any
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
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": "Expired",
        "message": f"too old resource version: {version}",
        "code": 410,
    }


def _line(type_: str, document: Document) -> bytes:
    return json.dumps({"type": type_, "object": document}).encode() + b"\n"


MAX_PAGE = 500
TOKEN = re.compile(r"Bearer k8s-aws-v1\.([A-Za-z0-9_-]+)")
SERVICE_ACCOUNT_TOKEN = "fake-service-account-token"  # noqa: S105 - the token of a fake
MERGE_PATCHES = frozenset({"application/merge-patch+json", "application/strategic-merge-patch+json"})
FAKE = ("X-Faultbridge-Fake", "a small Kubernetes API of the embedded stack")

NODES = re.compile(r"/api/v1/nodes")
NODE = re.compile(r"/api/v1/nodes/([^/]+)")
EVENTS = re.compile(r"/api/v1/namespaces/default/events")
PODS = re.compile(r"/api/v1(?:/namespaces/([^/]+))?/pods")
POD = re.compile(r"/api/v1/namespaces/([^/]+)/pods/([^/]+)")
EVICTION = re.compile(r"/api/v1/namespaces/([^/]+)/pods/([^/]+)/eviction")
JOB = re.compile(r"/apis/batch/v1/namespaces/([^/]+)/jobs/([^/]+)")
VOLUME_ATTACHMENTS = re.compile(r"/apis/storage\.k8s\.io/v1/volumeattachments")
NODE_CLAIMS = re.compile(r"/apis/karpenter\.sh/v1/nodeclaims")
NODE_CLAIM = re.compile(r"/apis/karpenter\.sh/v1/nodeclaims/([^/]+)")
NODE_POOLS = re.compile(r"/apis/karpenter\.sh/v1/nodepools")
DEPLOYMENT = re.compile(r"/apis/apps/v1/namespaces/([^/]+)/deployments/([^/]+)")
VERSION = re.compile(r"/version")
_VERSION = {"major": "1", "minor": "33", "gitVersion": "v1.33.0-fake"}

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


def _answer(cluster: Cluster, path: str, environ: WSGIEnvironment) -> tuple[int, Document]:
    if not cluster.reachable:
        raise ApiStatusError(503, "ServiceUnavailable", "the API server is unreachable (injected fault)")
    if not _is_authenticated(str(environ.get("HTTP_AUTHORIZATION", ""))):
        raise ApiStatusError(401, "Unauthorized", "Unauthorized")
    query, method = parse_qs(str(environ.get("QUERY_STRING", ""))), str(environ["REQUEST_METHOD"])
    for route_method, pattern, permission, handler in _ROUTES:
        found = pattern.fullmatch(path)
        if found and route_method == method:
            if permission is not None:  # otherwise the handler adds it: list or watch
                cluster.permissions_used.add(permission)
            return handler(cluster, found.groups(), query, environ)
    raise ApiStatusError(404, "NotFound", f"this fake API does not implement {method} {path}")


def _is_authenticated(authorization: str) -> bool:
    found = TOKEN.fullmatch(authorization)
    if found is None:
        return authorization == f"Bearer {SERVICE_ACCOUNT_TOKEN}"
    encoded = found[1] + "=" * (-len(found[1]) % 4)
    query = parse_qs(urlsplit(base64.urlsafe_b64decode(encoded).decode(errors="replace")).query)
    signed = query.get("X-Amz-SignedHeaders", [""])[0].split(";")
    return query.get("Action") == ["GetCallerIdentity"] and "x-k8s-aws-id" in signed


def _list_nodes(cluster: Cluster, _: tuple[str, ...], query: Query, __: WSGIEnvironment) -> tuple[int, Document]:
    selector = dict(_pairs(query.get("labelSelector", [""])[0]))

    def wanted(node: Document) -> bool:
        return all(node["metadata"]["labels"].get(name) == value for name, value in selector.items())

    return _list_or_watch(cluster, NODE_RESOURCE, query, wanted)


def _list_events(cluster: Cluster, _: tuple[str, ...], query: Query, __: WSGIEnvironment) -> tuple[int, Document]:
    kind = dict(_pairs(query.get("fieldSelector", [""])[0])).get("involvedObject.kind")

    def wanted(event: Document) -> bool:
        return kind in {None, event["involvedObject"]["kind"]}

    return _list_or_watch(cluster, EVENT_RESOURCE, query, wanted)


def _is_watch(query: Query) -> bool:
    return query.get("watch") == ["true"]


def _list_or_watch(
    cluster: Cluster, resource: str, query: Query, wanted: Callable[[Document], bool]
) -> tuple[int, Document]:
    if _is_watch(query):
        cluster.permissions_used.add(("watch", resource))
        version, seconds = int(query["resourceVersion"][0]), float(query.get("timeoutSeconds", ["300"])[0])
        return 200, {"watch": {"resource": resource, "version": version, "seconds": seconds, "wanted": wanted}}
    cluster.permissions_used.add(("list", resource))
    with cluster.lock:
        stored = cluster.nodes if resource == NODE_RESOURCE else cluster.events
        found = [one for _, one in sorted(stored.items()) if wanted(one)]
        return 200, _page({NODE_RESOURCE: "NodeList", EVENT_RESOURCE: "EventList"}[resource], found, query, cluster)


def _patch_node(cluster: Cluster, names: tuple[str, ...], _: Query, environ: WSGIEnvironment) -> tuple[int, Document]:
    return 200, cluster.patch_node(names[0], _merge_patch(environ))


def _list_pods(
    cluster: Cluster, names: tuple[str | None, ...], query: Query, __: WSGIEnvironment
) -> tuple[int, Document]:
    if _is_watch(query):
        return _list_or_watch(cluster, POD_RESOURCE, query, lambda _: True)
    cluster.permissions_used.add(("list", POD_RESOURCE))
    fields = dict(_pairs(query.get("fieldSelector", [""])[0]))
    node, phase = fields.get("spec.nodeName"), fields.get("status.phase")
    found = [_pod(pod) for pod in cluster.running() if node in {None, pod.node} and phase in {None, pod.phase}]
    with cluster.lock:
        jobs = [] if phase else cluster.job_pods.values()
        found += [pod for pod in jobs if node in {None, pod["spec"].get("nodeName")}]
    labels = dict(_pairs(query.get("labelSelector", [""])[0])).items()
    found = [pod for pod in found if labels <= pod["metadata"].get("labels", {}).items()]
    found = [pod for pod in found if names[0] in {None, pod["metadata"].get("namespace")}]
    return 200, _page("PodList", found, query, cluster)


def _annotate_pod(cluster: Cluster, names: tuple[str, ...], _: Query, environ: WSGIEnvironment) -> tuple[int, Document]:
    named = {(one["metadata"]["namespace"], one["metadata"]["name"]): one for one in cluster.job_pods.values()}
    return _annotate(cluster, named.get((names[0], names[1])), f'pods "{names[1]}"', environ)


def _annotate_job(cluster: Cluster, names: tuple[str, ...], _: Query, environ: WSGIEnvironment) -> tuple[int, Document]:
    return _annotate(cluster, cluster.jobs.get((names[0], names[1])), f'jobs.batch "{names[1]}"', environ)


def _annotate(cluster: Cluster, found: Document | None, name: str, environ: WSGIEnvironment) -> tuple[int, Document]:
    patch = _merge_patch(environ)
    with cluster.lock:
        if found is None:
            raise ApiStatusError(404, "NotFound", f"{name} not found")
        annotations = found["metadata"].setdefault("annotations", {})
        annotations |= patch["metadata"]["annotations"]
        return 200, found


def _list_volume_attachments(
    cluster: Cluster, _: tuple[str, ...], query: Query, __: WSGIEnvironment
) -> tuple[int, Document]:
    found: list[Document] = [
        {
            "metadata": {"name": f"csi-{volume}"},
            "spec": {"attacher": "ebs.csi.aws.com", "nodeName": node, "source": {"persistentVolumeName": volume}},
        }
        for volume, node in sorted(cluster.attached_volumes.items())
    ]
    return 200, _page("VolumeAttachmentList", found, query, cluster)


def _evict(cluster: Cluster, names: tuple[str, ...], _: Query, environ: WSGIEnvironment) -> tuple[int, Document]:
    eviction = _body(environ)
    if eviction.get("kind") != "Eviction" or eviction.get("apiVersion") != "policy/v1":
        raise ApiStatusError(400, "BadRequest", "the body is not a policy/v1 Eviction")
    cluster.evict(*names)
    return 201, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def _karpenter(cluster: Cluster, path: str) -> FakeKarpenter:
    if cluster.karpenter is None:
        raise ApiStatusError(404, "NotFound", f"the server could not find the requested resource {path}")
    return cluster.karpenter


def _list_claims(cluster: Cluster, _: tuple[str, ...], query: Query, __: WSGIEnvironment) -> tuple[int, Document]:
    selector = dict(_pairs(query.get("labelSelector", [""])[0])).items()
    claims = _karpenter(cluster, "nodeclaims").claims
    found = [one for _, one in sorted(claims.items()) if selector <= one["metadata"]["labels"].items()]
    return 200, _page("NodeClaimList", found, query, cluster)


def _list_pools(cluster: Cluster, _: tuple[str, ...], query: Query, __: WSGIEnvironment) -> tuple[int, Document]:
    pools = _karpenter(cluster, "nodepools").pools
    return 200, _page("NodePoolList", [one for _, one in sorted(pools.items())], query, cluster)


def _delete_claim(cluster: Cluster, names: tuple[str, ...], _: Query, environ: WSGIEnvironment) -> tuple[int, Document]:
    return 200, _karpenter(cluster, "nodeclaims").delete_claim(names[0], _body(environ))


def _read_deployment(cluster: Cluster, names: tuple[str, ...], *_: object) -> tuple[int, Document]:
    found = cluster.karpenter.deployments.get((names[0], names[1])) if cluster.karpenter else None
    if found is None:
        raise ApiStatusError(404, "NotFound", f'deployments.apps "{names[1]}" not found')
    return 200, found


_Handler = Callable[[Cluster, tuple[str, ...], Query, "WSGIEnvironment"], tuple[int, Document]]
_ROUTES: tuple[tuple[str, re.Pattern[str], tuple[str, str] | None, _Handler], ...] = (
    ("GET", NODES, None, _list_nodes),
    ("GET", EVENTS, None, _list_events),
    ("GET", NODE, ("get", "nodes"), lambda cluster, names, *_: (200, cluster.node(names[0]))),
    ("PATCH", NODE, ("patch", "nodes"), _patch_node),
    ("GET", PODS, None, _list_pods),
    ("POST", EVICTION, ("create", "pods/eviction"), _evict),
    ("PATCH", POD, ("patch", "pods"), _annotate_pod),
    ("PATCH", JOB, ("patch", "jobs"), _annotate_job),
    ("GET", VOLUME_ATTACHMENTS, ("list", "volumeattachments"), _list_volume_attachments),
    ("GET", NODE_CLAIMS, ("list", "nodeclaims"), _list_claims),
    ("DELETE", NODE_CLAIM, ("delete", "nodeclaims"), _delete_claim),
    ("GET", NODE_POOLS, ("list", "nodepools"), _list_pools),
    ("GET", DEPLOYMENT, ("get", "deployments"), _read_deployment),
    ("GET", VERSION, ("get", "version"), lambda *_: (200, _VERSION)),
)


def _page(kind: str, found: list[Document], query: Query, cluster: Cluster) -> Document:
    limit, first = int(query.get("limit", [str(MAX_PAGE)])[0]), int(query.get("continue", ["0"])[0])
    following = first + limit
    metadata = {"resourceVersion": str(cluster.log.version)}
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
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "reason": error.reason,
        "message": error.message,
        "details": details,
        "code": error.code,
    }


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
