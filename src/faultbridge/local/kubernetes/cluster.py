"""The state of a fake Kubernetes cluster: its nodes, events, pods and pod disruption budgets.

No container runs. An evicted pod exists until its grace period ends. Its controller then starts another pod on a
schedulable node. A budget counts the healthy pods, as the disruption controller does.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from faultbridge.local.kubernetes.karpenter import FakeKarpenter

Document = dict[str, Any]


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
    """Counts resource versions, and stores the changes of objects until `compact` discards them."""

    version: int = 0
    _compacted: int = 0
    _changes: list[LoggedChange] = field(default_factory=list)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def add(self, resource: str, type_: str, document: Document) -> None:
        """Set the next resource version on an object, and log the change."""
        with self._changed:
            self.version += 1
            document["metadata"]["resourceVersion"] = str(self.version)
            self._changes.append(LoggedChange(self.version, resource, type_, deepcopy(document)))
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


NODES, EVENTS, PODS = "nodes", "events", "pods"


@dataclass(frozen=True, slots=True)
class RunningInstance:
    """A running instance, and the name under which its kubelet registers the node."""

    instance_id: str
    name: str
    zone: str = "us-east-1a"


@dataclass(frozen=True, slots=True)
class Budget:
    """A pod disruption budget: the minimum number of healthy pods with given labels in a namespace."""

    namespace: str
    name: str
    selector: Mapping[str, str]
    min_available: int

    def covers(self, pod: Pod) -> bool:
        """Return whether this disruption budget applies to the pod."""
        return pod.namespace == self.namespace and all(pod.labels.get(k) == v for k, v in self.selector.items())


@dataclass(slots=True)
class Pod:
    """A pod; `owner` is the kind of its controller, `gone_at` the end of the grace of its eviction."""

    namespace: str
    name: str
    node: str
    labels: Mapping[str, str] = field(default_factory=dict)
    owner: str | None = "Job"
    grace_seconds: float = 30.0
    phase: str = "Running"
    mirror: bool = False
    gpus: int = 8
    gone_at: datetime | None = None

    @property
    def up(self) -> bool:
        """Return whether the pod is running and is not being evicted."""
        return self.phase == "Running" and self.gone_at is None


class ApiStatusError(Exception):
    """An error response of the Kubernetes API; the fields are those of a Kubernetes `Status`."""

    def __init__(self, code: int, reason: str, message: str, cause: str = "") -> None:
        super().__init__(message)
        self.code, self.reason, self.message, self.cause = code, reason, message, cause


@dataclass(slots=True)
class Cluster:
    """A fake Kubernetes cluster; its methods take the lock, because the server has many threads.

    `permissions_used` contains the RBAC verb and resource of each request that needs a permission. `attached_volumes`
    maps attached persistent volumes to their nodes.
    """

    name: str
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    nodes: dict[str, Document] = field(default_factory=dict)
    events: dict[str, Document] = field(default_factory=dict)
    pods: list[Pod] = field(default_factory=list)
    budgets: list[Budget] = field(default_factory=list)
    job_pods: dict[str, Document] = field(default_factory=dict)
    jobs: dict[tuple[str, str], Document] = field(default_factory=dict)
    attached_volumes: dict[str, str] = field(default_factory=dict)
    reachable: bool = True
    register_taints: tuple[Document, ...] = ()
    lock: threading.RLock = field(default_factory=threading.RLock)
    permissions_used: set[tuple[str, str]] = field(default_factory=set)
    log: ChangeLog = field(default_factory=ChangeLog)
    karpenter: FakeKarpenter | None = None
    _started: int = 0

    def sync(self, instances: Iterable[RunningInstance]) -> None:
        """Register the nodes of new instances; remove nodes whose instance no longer runs, and their pods."""
        with self.lock:
            found = {instance.name: instance for instance in instances}
            for name in set(self.nodes) - set(found):
                self.remove_node(name)
            for name in set(found) - set(self.nodes):
                self.join(found[name])

    def remove_node(self, name: str) -> None:
        """Remove a node whose instance is terminated, and its pods."""
        with self.lock:
            self.log.add(NODES, "DELETED", self.nodes.pop(name))
            self.pods = [pod for pod in self.pods if pod.node != name]

    def join(self, instance: RunningInstance) -> None:
        """Register the node of an instance, as the kubelet of the instance does."""
        with self.lock:
            spec: Document = {"providerID": f"aws:///{instance.zone}/{instance.instance_id}"}
            if self.register_taints:
                spec["taints"] = deepcopy(list(self.register_taints))
            labels = {"kubernetes.io/hostname": instance.name, "topology.kubernetes.io/zone": instance.zone}
            addresses = [{"type": "InternalDNS", "address": instance.name}]
            self.nodes[instance.name] = {
                "kind": "Node",
                "apiVersion": "v1",
                "metadata": {"name": instance.name, "labels": labels},
                "spec": spec,
                "status": {"addresses": addresses, "conditions": [{"type": "Ready", "status": "True"}]},
            }
            self.log.add(NODES, "ADDED", self.nodes[instance.name])

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
            type_ = "MODIFIED" if key in stored else "ADDED"
            stored[key] = deepcopy(document)
            self.log.add(resource, type_, stored[key])

    def delete_pod(self, uid: str) -> None:
        """Delete the pod of a job."""
        with self.lock:
            self.log.add(PODS, "DELETED", self.job_pods.pop(uid))

    def start(self, pod: Pod) -> None:
        """Add a running pod to the cluster."""
        with self.lock:
            self.pods.append(pod)

    def node(self, name: str) -> Document:
        """Return a node by its name; raises a 404 error if there is no such node."""
        with self.lock:
            if name not in self.nodes:
                raise ApiStatusError(404, "NotFound", f'nodes "{name}" not found')
            return deepcopy(self.nodes[name])

    def patch_node(self, name: str, patch: Document) -> Document:
        """Apply a JSON merge patch, and return the node; raises a 409 error for another resource version."""
        with self.lock:
            before = self.node(name)
            wanted = (patch.get("metadata") or {}).get("resourceVersion")
            if wanted is not None and wanted != before["metadata"]["resourceVersion"]:
                text = f'Operation cannot be fulfilled on nodes "{name}": the object has been modified'
                raise ApiStatusError(409, "Conflict", text)
            after = merge_patch(before, patch)
            self.log.add(NODES, "MODIFIED", after)
            self.nodes[name] = after
            return deepcopy(after)

    def running(self) -> list[Pod]:
        """Return all pods except those in `job_pods`, including evicted pods until their grace period ends."""
        with self.lock:
            self._remove_evicted()
            return list(self.pods)

    def evict(self, namespace: str, name: str) -> None:
        """Evict a pod, at most once; raises a 429 error if this violates a budget, 404 for an unknown pod."""
        with self.lock:
            pod = next((one for one in self.running() if (one.namespace, one.name) == (namespace, name)), None)
            if pod is None:
                raise ApiStatusError(404, "NotFound", f'pods "{name}" not found')
            if not pod.up:
                return
            for budget in (one for one in self.budgets if one.covers(pod)):
                healthy = sum(one.up for one in self.pods if budget.covers(one))
                if healthy - 1 < budget.min_available:
                    text = "Cannot evict pod as it would violate the pod's disruption budget."
                    cause = f"The disruption budget {budget.name} needs {budget.min_available} healthy pods"
                    raise ApiStatusError(429, "TooManyRequests", text, f"{cause} and has {healthy} currently")
            pod.gone_at = self.now() + timedelta(seconds=pod.grace_seconds)

    def _remove_evicted(self) -> None:
        now = self.now()
        evicted = [pod for pod in self.pods if pod.gone_at is not None and pod.gone_at <= now]
        for pod in evicted:
            self.pods.remove(pod)
            self._restart(pod)

    def _restart(self, pod: Pod) -> None:
        node = next((name for name, found in sorted(self.nodes.items()) if takes_work(found)), None)
        if pod.owner is None or (node is None and self.karpenter is None):
            return
        self._started += 1
        name, phase = f"{pod.name.rsplit('-r', 1)[0]}-r{self._started}", "Running" if node else "Pending"
        self.pods.append(Pod(pod.namespace, name, node or "", pod.labels, pod.owner, pod.grace_seconds, phase))


def takes_work(node: Document) -> bool:
    """Return whether the scheduler may place a pod without tolerations on the node."""
    spec = node["spec"]
    effects = {taint.get("effect") for taint in spec.get("taints") or ()}
    return not spec.get("unschedulable") and effects.isdisjoint({"NoSchedule", "NoExecute"})


def merge_patch(before: Any, patch: Any) -> Any:  # noqa: ANN401 - any JSON
    """Apply a JSON merge patch (RFC 7396) to a document, and return the changed copy."""
    if not isinstance(patch, dict):
        return deepcopy(patch)
    after = deepcopy(before) if isinstance(before, dict) else {}
    for name, value in patch.items():
        if value is None:
            after.pop(name, None)
        else:
            after[name] = merge_patch(after.get(name), value)
    return after
