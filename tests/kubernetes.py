"""The fake Kubernetes cluster of the embedded stack with what only tests use: watches, events, jobs and Karpenter.

`answer` serves it, and records which permission each request needs.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from faultbridge.local.kubernetes import api
from faultbridge.local.kubernetes.api import Request, Route, page
from faultbridge.local.kubernetes.cluster import ApiStatusError, Cluster, Document

if TYPE_CHECKING:
    from tests.karpenter import FakeKarpenter

NODES, EVENTS, PODS = "nodes", "events", "pods"
BOOKMARK_SECONDS = 1.0
"""Pause without a change after which a bookmark is sent; the real API sends one about every minute."""

MAX_SECONDS = 300.0
_RESOURCE = re.compile(r"/(?:api|apis/[^/]+)/v1(?:/namespaces/[^/]+)?/([a-z]+)(/[^/]+)?(/[a-z]+)?")
_VERBS = {"PATCH": "patch", "POST": "create", "DELETE": "delete"}


@dataclass(frozen=True, slots=True)
class LoggedChange:
    """One change of one object; `type` is `ADDED`, `MODIFIED` or `DELETED`."""

    version: int
    resource: str
    type: str
    object: Document


class VersionTooOld(Exception):  # noqa: N818 - names the situation, which a client handles
    """Raised when the changes after a requested resource version were already discarded."""


@dataclass(slots=True)
class ChangeLog:
    """Stores the changes of objects until `compact` discards them."""

    version: int = 0
    _compacted: int = 0
    _changes: list[LoggedChange] = field(default_factory=list)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def add(self, change: LoggedChange) -> None:
        """Log a change."""
        with self._changed:
            self.version = change.version
            self._changes.append(change)
            self._changed.notify_all()

    def compact(self) -> None:
        """Discard all changes so far; a watch from an earlier version then ends with the error 410."""
        with self._changed:
            self._changes.clear()
            self._compacted = self.version

    def after(self, version: int, seconds: float) -> list[LoggedChange]:
        """Return the changes after a version, or wait up to `seconds`; raises VersionTooOld if discarded."""
        with self._changed:
            self._changed.wait_for(lambda: self.version > version or self._compacted > version, seconds)
            if version < self._compacted:
                raise VersionTooOld
            return [change for change in self._changes if change.version > version]


@dataclass
class FullCluster(Cluster):
    """A fake cluster that can be watched.

    `permissions_used` contains the RBAC verb and resource of each request. `attached_volumes` maps attached persistent
    volumes to their nodes.
    """

    events: dict[str, Document] = field(default_factory=dict)
    job_pods: dict[str, Document] = field(default_factory=dict)
    jobs: dict[tuple[str, str], Document] = field(default_factory=dict)
    attached_volumes: dict[str, str] = field(default_factory=dict)
    permissions_used: set[tuple[str, str]] = field(default_factory=set)
    log: ChangeLog = field(default_factory=ChangeLog)
    karpenter: FakeKarpenter | None = None

    def changed(self, document: Document) -> None:
        """Set the next resource version on a node, and log whether it was added, modified or deleted."""
        is_new = "resourceVersion" not in document["metadata"]
        kind = "ADDED" if is_new else "MODIFIED" if document["metadata"]["name"] in self.nodes else "DELETED"
        self._log(NODES, kind, document)

    def _log(self, resource: str, kind: str, document: Document) -> None:
        super().changed(document)
        self.log.add(LoggedChange(self.version, resource, kind, deepcopy(document)))

    def set_condition(self, name: str, condition: Document) -> None:
        """Set one condition of a node, as an agent on the node does."""
        with self.lock:
            conditions = {one["type"]: one for one in self.node(name)["status"]["conditions"]}
            conditions[condition["type"]] = condition
            self.patch_node(name, {"status": {"conditions": list(conditions.values())}})

    def record_event(self, event: Document) -> None:
        """Store an event about a node, as an agent on the node does; `metadata.name` identifies the event."""
        self._store(EVENTS, self.events, event["metadata"]["name"], event)

    def apply_pod(self, pod: Document) -> None:
        """Store the pod of a job; `metadata.uid` identifies the pod. Only the pods of jobs can be watched."""
        self._store(PODS, self.job_pods, pod["metadata"]["uid"], pod)

    def _store(self, resource: str, stored: dict[str, Document], key: str, document: Document) -> None:
        with self.lock:
            kind = "MODIFIED" if key in stored else "ADDED"
            stored[key] = deepcopy(document)
            self._log(resource, kind, stored[key])

    def delete_pod(self, uid: str) -> None:
        """Delete the pod of a job."""
        with self.lock:
            self._log(PODS, "DELETED", self.job_pods.pop(uid))


def answer(cluster: FullCluster, environ: Any, start: Any) -> Iterable[bytes]:
    """Answer one request, and record the permission that it needs."""
    path, query = environ["PATH_INFO"], environ.get("QUERY_STRING", "")
    if cluster.reachable:
        cluster.permissions_used.add(_permission(environ["REQUEST_METHOD"], path, watches="watch=true" in query))
    return api.answer(lambda: cluster, path, environ, start, (*ROUTES, *api.ROUTES))


def _permission(method: str, path: str, *, watches: bool) -> tuple[str, str]:
    found = _RESOURCE.fullmatch(path)
    if found is None:
        return "get", path.removeprefix("/")
    resource, name, part = found.groups(default="")
    return _VERBS.get(method) or ("watch" if watches else "get" if name else "list"), f"{resource}{part}"


def _watched(resource: str, path: str, read: Callable[[Request], Document], wanted: Any) -> Route:
    """Return the route of a list that can also be watched; `wanted` selects an object by the query."""

    def handle(request: Request) -> Document | Iterator[bytes]:
        if request.first("watch") != "true":
            return read(request)
        version, seconds = int(request.query["resourceVersion"][0]), float(request.first("timeoutSeconds", "300"))
        return stream(_full(request).log, resource, version, seconds, lambda document: wanted(request, document))

    return "GET", path, handle


def _full(request: Request) -> FullCluster:
    assert isinstance(request.cluster, FullCluster)
    return request.cluster


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
            yield _line("ERROR", api.failure(410, "Expired", f"too old resource version: {version}"))
            return
        version = max([version, *(change.version for change in changes)])
        matching = [change for change in changes if change.resource == resource and wanted(change.object)]
        yield from (_line(change.type, change.object) for change in matching)
        if not matching:
            yield _line("BOOKMARK", {"metadata": {"resourceVersion": str(version)}})


def _line(type_: str, document: Document) -> bytes:
    return json.dumps({"type": type_, "object": document}).encode() + b"\n"


def _is_selected(request: Request, node: Document) -> bool:
    return request.selected("labelSelector").items() <= node["metadata"]["labels"].items()


def _concerns(request: Request, event: Document) -> bool:
    kind = request.selected("fieldSelector").get("involvedObject.kind")
    return kind in {None, event["involvedObject"]["kind"]}


def _list_events(request: Request) -> Document:
    with request.cluster.lock:
        events = [one for _, one in sorted(_full(request).events.items())]
    return page("EventList", [one for one in events if _concerns(request, one)], request)


def _annotate(request: Request, found: Document | None, resource: str) -> Document:
    patch = request.merge_patch()
    with request.cluster.lock:
        if found is None:
            raise ApiStatusError(404, "NotFound", f'{resource} "{request.names[1]}" not found')
        annotations = found["metadata"].setdefault("annotations", {})
        annotations |= patch["metadata"]["annotations"]
        return found


def _annotate_pod(request: Request) -> Document:
    pods = _full(request).job_pods.values()
    named = {(one["metadata"]["namespace"], one["metadata"]["name"]): one for one in pods}
    return _annotate(request, named.get(request.names), "pods")


def _list_volume_attachments(request: Request) -> Document:
    found: list[Document] = [
        {
            "metadata": {"name": f"csi-{volume}"},
            "spec": {"attacher": "ebs.csi.aws.com", "nodeName": node, "source": {"persistentVolumeName": volume}},
        }
        for volume, node in sorted(_full(request).attached_volumes.items())
    ]
    return page("VolumeAttachmentList", found, request)


def _karpenter(request: Request, path: str) -> FakeKarpenter:
    karpenter = _full(request).karpenter
    if karpenter is None:
        raise ApiStatusError(404, "NotFound", f"the server could not find the requested resource {path}")
    return karpenter


def _list_claims(request: Request) -> Document:
    claims = sorted(_karpenter(request, "nodeclaims").claims.items())
    return page("NodeClaimList", [one for _, one in claims if _is_selected(request, one)], request)


def _list_pools(request: Request) -> Document:
    pools = sorted(_karpenter(request, "nodepools").pools.items())
    return page("NodePoolList", [one for _, one in pools], request)


def _read_deployment(request: Request) -> Document:
    karpenter = _full(request).karpenter
    found = karpenter.deployments.get(request.names) if karpenter else None
    if found is None:
        raise ApiStatusError(404, "NotFound", f'deployments.apps "{request.names[1]}" not found')
    return found


_CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"
ROUTES: tuple[Route, ...] = (
    _watched(NODES, "/api/v1/nodes", api.list_nodes, _is_selected),
    _watched(EVENTS, "/api/v1/namespaces/default/events", _list_events, _concerns),
    _watched(
        PODS,
        "/api/v1(?:/namespaces/([^/]+))?/pods",
        lambda request: api.list_pods(request, tuple(_full(request).job_pods.values())),
        lambda _request, _pod: True,
    ),
    ("PATCH", "/api/v1/namespaces/([^/]+)/pods/([^/]+)", _annotate_pod),
    (
        "PATCH",
        "/apis/batch/v1/namespaces/([^/]+)/jobs/([^/]+)",
        lambda request: _annotate(request, _full(request).jobs.get(request.names), "jobs.batch"),
    ),
    ("GET", "/apis/storage.k8s.io/v1/volumeattachments", _list_volume_attachments),
    ("GET", _CLAIMS, _list_claims),
    (
        "DELETE",
        f"{_CLAIMS}/([^/]+)",
        lambda request: _karpenter(request, "nodeclaims").delete_claim(request.names[0], request.body()),
    ),
    ("GET", "/apis/karpenter.sh/v1/nodepools", _list_pools),
    ("GET", "/apis/apps/v1/namespaces/([^/]+)/deployments/([^/]+)", _read_deployment),
)
