"""The state of a fake Kubernetes cluster: its nodes, pods and pod disruption budgets.

No container runs. An evicted pod exists until its grace period ends. Its controller then starts another pod on a
schedulable node. A budget counts the healthy pods, as the disruption controller does.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

Document = dict[str, Any]


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

    `version` counts the changes of objects. If `keeps_pending`, a pod that no node takes waits for a new node.
    """

    name: str
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    nodes: dict[str, Document] = field(default_factory=dict)
    pods: list[Pod] = field(default_factory=list)
    budgets: list[Budget] = field(default_factory=list)
    reachable: bool = True
    register_taints: tuple[Document, ...] = ()
    lock: threading.RLock = field(default_factory=threading.RLock)
    version: int = 0
    keeps_pending: bool = False
    _started: int = 0

    def changed(self, document: Document) -> None:
        """Set the next resource version on an object that was added, modified or deleted."""
        self.version += 1
        document["metadata"]["resourceVersion"] = str(self.version)

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
            self.changed(self.nodes.pop(name))
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
            self.changed(self.nodes[instance.name])

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
            self.changed(after)
            self.nodes[name] = after
            return deepcopy(after)

    def running(self) -> list[Pod]:
        """Return all pods, including evicted pods until their grace period ends."""
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
        if pod.owner is None or (node is None and not self.keeps_pending):
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
