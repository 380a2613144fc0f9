"""The calls that the fake Kubernetes API answers, over WSGI: nodes, pods by node, evictions.

As on EKS nobody is let in without a token that is a presigned `GetCallerIdentity` for this cluster; as everywhere
where credentials are made up, its signature is not checked. Every answer says by a header that it is a fake.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Iterator
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from faultbridge.local.kubernetes.cluster import Cluster, Document, Pod, Refusal

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

MAX_PAGE = 500
TOKEN = re.compile(r"Bearer k8s-aws-v1\.([A-Za-z0-9_-]+)")
MERGE_PATCHES = frozenset({"application/merge-patch+json", "application/strategic-merge-patch+json"})
FAKE = ("X-Faultbridge-Fake", "a small Kubernetes API of the embedded stack")

NODES = re.compile(r"/api/v1/nodes")
NODE = re.compile(r"/api/v1/nodes/([^/]+)")
PODS = re.compile(r"/api/v1/pods")
EVICTION = re.compile(r"/api/v1/namespaces/([^/]+)/pods/([^/]+)/eviction")
VERSION = re.compile(r"/version")

Query = dict[str, list[str]]


def answer(find: Callable[[], Cluster], path: str, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
    """Answer one request to the API of the cluster that is found; `path` is what follows its own address."""
    try:
        code, document = _answer(find(), path, environ)
    except Refusal as refusal:
        code, document = refusal.code, _status(refusal)
    body = json.dumps(document).encode()
    status = f"{code} {HTTPStatus(code).phrase}"
    start(status, [("Content-Type", "application/json"), ("Content-Length", str(len(body))), FAKE])
    return [body]


def _answer(cluster: Cluster, path: str, environ: WSGIEnvironment) -> tuple[int, Document]:
    if not cluster.reachable:
        raise Refusal(503, "ServiceUnavailable", "the API server is not to be had (scripted)")
    if not _is_let_in(str(environ.get("HTTP_AUTHORIZATION", ""))):
        raise Refusal(401, "Unauthorized", "Unauthorized")
    query, method = parse_qs(str(environ.get("QUERY_STRING", ""))), str(environ["REQUEST_METHOD"])
    for known, pattern, right, act in _ROUTES:
        found = pattern.fullmatch(path)
        if found and known == method:
            cluster.asked.add(right)
            return act(cluster, found.groups(), query, environ)
    raise Refusal(404, "NotFound", f"this fake does not answer {method} {path}")


def _is_let_in(authorization: str) -> bool:
    found = TOKEN.fullmatch(authorization)
    if found is None:
        return False
    packed = found[1] + "=" * (-len(found[1]) % 4)
    asked = parse_qs(urlsplit(base64.urlsafe_b64decode(packed).decode(errors="replace")).query)
    signed = asked.get("X-Amz-SignedHeaders", [""])[0].split(";")
    return asked.get("Action") == ["GetCallerIdentity"] and "x-k8s-aws-id" in signed


def _list_nodes(cluster: Cluster, _: tuple[str, ...], query: Query, __: WSGIEnvironment) -> tuple[int, Document]:
    wanted = dict(_pairs(query.get("labelSelector", [""])[0]))
    with cluster.lock:
        found = [node for _, node in sorted(cluster.nodes.items()) if _has(node["metadata"]["labels"], wanted)]
    return 200, _page("NodeList", found, query)


def _get_node(cluster: Cluster, names: tuple[str, ...], _: Query, __: WSGIEnvironment) -> tuple[int, Document]:
    return 200, cluster.node(names[0])


def _patch_node(cluster: Cluster, names: tuple[str, ...], _: Query, environ: WSGIEnvironment) -> tuple[int, Document]:
    if str(environ.get("CONTENT_TYPE")) not in MERGE_PATCHES:
        raise Refusal(415, "UnsupportedMediaType", "the body of the request was in an unknown format")
    return 200, cluster.patch_node(names[0], _body(environ))


def _list_pods(cluster: Cluster, _: tuple[str, ...], query: Query, __: WSGIEnvironment) -> tuple[int, Document]:
    fields = dict(_pairs(query.get("fieldSelector", [""])[0]))
    node = fields.get("spec.nodeName")
    found = [_pod(pod) for pod in cluster.running() if node in {None, pod.node}]
    return 200, _page("PodList", found, query)


def _evict(cluster: Cluster, names: tuple[str, ...], _: Query, environ: WSGIEnvironment) -> tuple[int, Document]:
    eviction = _body(environ)
    if eviction.get("kind") != "Eviction" or eviction.get("apiVersion") != "policy/v1":
        raise Refusal(400, "BadRequest", "the body is no policy/v1 Eviction")
    cluster.evict(*names)
    return 201, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def _version(*_: object) -> tuple[int, Document]:
    return 200, {"major": "1", "minor": "33", "gitVersion": "v1.33.0-fake"}


_Act = Callable[[Cluster, tuple[str, ...], Query, "WSGIEnvironment"], tuple[int, Document]]
_ROUTES: tuple[tuple[str, re.Pattern[str], tuple[str, str], _Act], ...] = (
    ("GET", NODES, ("list", "nodes"), _list_nodes),
    ("GET", NODE, ("get", "nodes"), _get_node),
    ("PATCH", NODE, ("patch", "nodes"), _patch_node),
    ("GET", PODS, ("list", "pods"), _list_pods),
    ("POST", EVICTION, ("create", "pods/eviction"), _evict),
    ("GET", VERSION, ("get", "version"), _version),
)


def _page(kind: str, found: list[Document], query: Query) -> Document:
    limit, first = int(query.get("limit", [str(MAX_PAGE)])[0]), int(query.get("continue", ["0"])[0])
    following = first + limit
    metadata = {"continue": str(following)} if following < len(found) else {}
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
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": metadata,
        "spec": {"nodeName": pod.node, "containers": []},
        "status": {"phase": pod.phase},
    }


def _status(refusal: Refusal) -> Document:
    details: Document = {"causes": [{"reason": "DisruptionBudget", "message": refusal.cause}]} if refusal.cause else {}
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "reason": refusal.reason,
        "message": refusal.message,
        "details": details,
        "code": refusal.code,
    }


def _pairs(selector: str) -> Iterator[tuple[str, str]]:
    for one in filter(None, selector.split(",")):
        name, _, value = one.partition("=")
        yield name, value.removeprefix("=")


def _has(labels: Document, wanted: dict[str, str]) -> bool:
    return all(labels.get(name) == value for name, value in wanted.items())


def _body(environ: WSGIEnvironment) -> Any:  # noqa: ANN401 - any JSON
    length = int(environ.get("CONTENT_LENGTH") or 0)
    try:
        return json.loads(environ["wsgi.input"].read(length) or b"{}")
    except ValueError:
        raise Refusal(400, "BadRequest", "the body is no JSON") from None
