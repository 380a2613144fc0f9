"""Evict the pods of a node before it is repaired."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus

from lightkube import Client
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import Pod

from faultbridge.adapters.kubernetes.client import PAGE, ApiRejection, Kubernetes
from faultbridge.dataclass import dataclass

DAEMON_SET = "DaemonSet"
MIRROR = "kubernetes.io/config.mirror"
"""Annotation of a static pod, which the kubelet runs from a local file; the API cannot evict it."""

BUDGET = "DisruptionBudget"
"""The reason of a 429 that a disruption budget causes. Any other 429 means that the API is overloaded."""

FINISHED = frozenset({"Succeeded", "Failed"})
MAX_LISTED = 5


@dataclass(frozen=True, slots=True)
class RemainingPod:
    """A pod that still runs on the node, and the reason why it still runs."""

    name: str
    reason: str

    def __str__(self) -> str:
        """Return the name of the pod and the reason as text."""
        return f"{self.name} ({self.reason})"


def evict_all(kubernetes: Kubernetes, node: str, *, late: bool) -> list[RemainingPod]:
    """Evict the pods of a node within their disruption budgets; returns the pods that still run.

    DaemonSet pods, static pods and finished pods are ignored. If `late` is True, the deadline of the drain has passed,
    and no further pod is evicted.
    """

    def read(client: Client) -> tuple[Pod, ...]:
        return tuple(client.list(Pod, namespace="*", fields={"spec.nodeName": node}, chunk_size=PAGE))

    pods = kubernetes.call(f"listing the pods of {node}", read)
    return list(_remaining(kubernetes, pods, late=late))


def describe(pods: list[RemainingPod]) -> str:
    """Return one line of text that lists the pods that still run."""
    names = ", ".join(map(str, pods[:MAX_LISTED]))
    more = f" and {len(pods) - MAX_LISTED} more" if len(pods) > MAX_LISTED else ""
    return f"{len(pods)} pods are still there: {names}{more}"


def _remaining(kubernetes: Kubernetes, pods: tuple[Pod, ...], *, late: bool) -> Iterator[RemainingPod]:
    """Evict the pods that must leave the node, and yield each pod that still runs.

    If `late` is True, the deadline of the drain has passed, and no further pod is evicted.
    """
    for pod in pods:
        metadata = pod.metadata
        if metadata is None or not _must_leave(pod, metadata):
            continue
        name = f"{metadata.namespace}/{metadata.name}"
        if metadata.deletionTimestamp is not None:
            yield RemainingPod(name, "terminating")
        elif late:
            yield RemainingPod(name, "not evicted after the deadline")
        elif reason := _evict(kubernetes, metadata):
            yield RemainingPod(name, reason)


def _must_leave(pod: Pod, metadata: ObjectMeta) -> bool:
    """Return whether a drain must wait until this pod has left the node.

    A drain does not wait for finished pods, nor for the pods of DaemonSets and static pods, which would run again.
    """
    if any(owner.controller and owner.kind == DAEMON_SET for owner in metadata.ownerReferences or ()):
        return False
    finished = pod.status is not None and pod.status.phase in FINISHED
    return not finished and MIRROR not in (metadata.annotations or {})


def _evict(kubernetes: Kubernetes, metadata: ObjectMeta) -> str:
    """Evict one pod; returns the reason why it still runs, or an empty text if it is already gone."""
    request = Pod.Eviction(metadata=ObjectMeta(name=metadata.name, namespace=metadata.namespace))

    def evict(client: Client) -> None:
        client.create(request, str(metadata.name), namespace=metadata.namespace)

    try:
        kubernetes.call(f"evicting {metadata.namespace}/{metadata.name}", evict)
    except ApiRejection as rejection:
        if rejection.status == HTTPStatus.NOT_FOUND:
            return ""
        if BUDGET in rejection.reasons:
            return "its disruption budget allows no eviction now"
        raise
    return "eviction started"
