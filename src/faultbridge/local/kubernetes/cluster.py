"""What is in a Kubernetes cluster (fake): its nodes, the pods on them, and how many of these may be disrupted.

Nothing runs. A pod that is evicted is there until its grace is over, then its controller starts another one on a node
that takes work; a budget counts the pods that are up, as the disruption controller does.
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
class Machine:
    """An instance that is up, and what its kubelet calls itself."""

    instance_id: str
    name: str
    zone: str = "us-east-1a"


@dataclass(frozen=True, slots=True)
class Budget:
    """A pod disruption budget: of the pods with these labels in the namespace so many must stay up."""

    namespace: str
    name: str
    selector: Mapping[str, str]
    min_available: int

    def covers(self, pod: Pod) -> bool:
        """Tell whether the pod counts for the budget."""
        return pod.namespace == self.namespace and all(pod.labels.get(k) == v for k, v in self.selector.items())


@dataclass(slots=True)
class Pod:
    """One pod; `owner` is the kind of its controller, `gone_at` the end of its grace once it was evicted."""

    namespace: str
    name: str
    node: str
    labels: Mapping[str, str] = field(default_factory=dict)
    owner: str | None = "Job"
    grace_seconds: float = 30.0
    phase: str = "Running"
    mirror: bool = False
    gone_at: datetime | None = None

    @property
    def up(self) -> bool:
        """Tell whether the pod works, and goes on working."""
        return self.phase == "Running" and self.gone_at is None


class Refusal(Exception):  # noqa: N818 - an answer of the API
    """What the API does not do, as its `Status` says it."""

    def __init__(self, code: int, reason: str, message: str, cause: str = "") -> None:
        super().__init__(message)
        self.code, self.reason, self.message, self.cause = code, reason, message, cause


@dataclass(slots=True)
class Cluster:
    """One cluster (fake); `now` is its clock, `asked` what was asked for, as RBAC names it.

    Every call takes the lock, because the server has many threads.
    """

    name: str
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    nodes: dict[str, Document] = field(default_factory=dict)
    pods: list[Pod] = field(default_factory=list)
    budgets: list[Budget] = field(default_factory=list)
    reachable: bool = True
    register_taints: tuple[Document, ...] = ()
    lock: threading.RLock = field(default_factory=threading.RLock)
    asked: set[tuple[str, str]] = field(default_factory=set)
    _version: int = 0
    _started: int = 0

    def sync(self, machines: Iterable[Machine]) -> None:
        """Let machines that are up join, and take nodes away whose machine is gone, their pods with them."""
        with self.lock:
            found = {machine.name: machine for machine in machines}
            for name in set(self.nodes) - set(found):
                del self.nodes[name]
                self.pods = [pod for pod in self.pods if pod.node != name]
            for name in set(found) - set(self.nodes):
                self.join(found[name])

    def join(self, machine: Machine) -> None:
        """Register a node as its kubelet does."""
        with self.lock:
            spec: Document = {"providerID": f"aws:///{machine.zone}/{machine.instance_id}"}
            if self.register_taints:
                spec["taints"] = deepcopy(list(self.register_taints))
            labels = {"kubernetes.io/hostname": machine.name, "topology.kubernetes.io/zone": machine.zone}
            addresses = [{"type": "InternalDNS", "address": machine.name}]
            self.nodes[machine.name] = {
                "kind": "Node",
                "apiVersion": "v1",
                "metadata": {"name": machine.name, "labels": labels, "resourceVersion": self._next()},
                "spec": spec,
                "status": {"addresses": addresses, "conditions": [{"type": "Ready", "status": "True"}]},
            }

    def start(self, pod: Pod) -> None:
        """Let a pod run."""
        with self.lock:
            self.pods.append(pod)

    def node(self, name: str) -> Document:
        """Return a node."""
        with self.lock:
            if name not in self.nodes:
                raise Refusal(404, "NotFound", f'nodes "{name}" not found')
            return deepcopy(self.nodes[name])

    def patch_node(self, name: str, patch: Document) -> Document:
        """Apply a JSON merge patch; one that names another version than the node's is a conflict."""
        with self.lock:
            before = self.node(name)
            wanted = (patch.get("metadata") or {}).get("resourceVersion")
            if wanted is not None and wanted != before["metadata"]["resourceVersion"]:
                text = f'Operation cannot be fulfilled on nodes "{name}": the object has been modified'
                raise Refusal(409, "Conflict", text)
            after = merged(before, patch)
            after["metadata"]["resourceVersion"] = self._next()
            self.nodes[name] = after
            return deepcopy(after)

    def running(self) -> list[Pod]:
        """Return the pods that are there, those in their grace included."""
        with self.lock:
            self._end_graces()
            return list(self.pods)

    def evict(self, namespace: str, name: str) -> None:
        """Evict a pod if every budget that covers it stays kept; a pod that leaves already is left to it."""
        with self.lock:
            pod = next((one for one in self.running() if (one.namespace, one.name) == (namespace, name)), None)
            if pod is None:
                raise Refusal(404, "NotFound", f'pods "{name}" not found')
            if not pod.up:
                return
            for budget in (one for one in self.budgets if one.covers(pod)):
                healthy = sum(one.up for one in self.pods if budget.covers(one))
                if healthy - 1 < budget.min_available:
                    text = "Cannot evict pod as it would violate the pod's disruption budget."
                    told = f"The disruption budget {budget.name} needs {budget.min_available} healthy pods"
                    raise Refusal(429, "TooManyRequests", text, f"{told} and has {healthy} currently")
            pod.gone_at = self.now() + timedelta(seconds=pod.grace_seconds)

    def _end_graces(self) -> None:
        now = self.now()
        over = [pod for pod in self.pods if pod.gone_at is not None and pod.gone_at <= now]
        for pod in over:
            self.pods.remove(pod)
            self._start_again(pod)

    def _start_again(self, pod: Pod) -> None:
        place = next((name for name, node in sorted(self.nodes.items()) if takes_work(node)), None)
        if pod.owner is None or place is None:
            return
        self._started += 1
        again = f"{pod.name.rsplit('-r', 1)[0]}-r{self._started}"
        self.pods.append(Pod(pod.namespace, again, place, pod.labels, pod.owner, pod.grace_seconds))

    def _next(self) -> str:
        self._version += 1
        return str(self._version)


def takes_work(node: Document) -> bool:
    """Tell whether the scheduler may bind a pod without tolerations to a node."""
    spec = node["spec"]
    effects = {taint.get("effect") for taint in spec.get("taints") or ()}
    return not spec.get("unschedulable") and effects.isdisjoint({"NoSchedule", "NoExecute"})


def merged(before: Any, patch: Any) -> Any:  # noqa: ANN401 - any JSON
    """Apply a JSON merge patch (RFC 7396)."""
    if not isinstance(patch, dict):
        return deepcopy(patch)
    after = deepcopy(before) if isinstance(before, dict) else {}
    for name, value in patch.items():
        if value is None:
            after.pop(name, None)
        else:
            after[name] = merged(after.get(name), value)
    return after
