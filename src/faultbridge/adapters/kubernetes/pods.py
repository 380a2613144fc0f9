"""The pods of a node: which of them must leave before it is given up, and how they are asked to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus

from lightkube import Client
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import Pod

from faultbridge.adapters.kubernetes.client import PAGE, Kubernetes, Refused

DAEMON_SET = "DaemonSet"
MIRROR = "kubernetes.io/config.mirror"
"""Annotation of a pod that the kubelet runs from a file of its own: the API cannot end it."""

OVER = frozenset({"Succeeded", "Failed"})
MAX_TOLD = 5


@dataclass(frozen=True, slots=True)
class Staying:
    """A pod that is still there, and why."""

    name: str
    why: str

    def __str__(self) -> str:
        """Tell both in a few words."""
        return f"{self.name} ({self.why})"


def evict_all(kubernetes: Kubernetes, node: str, *, late: bool) -> list[Staying]:
    """Ask every pod of a node to leave within its disruption budget; returns those that are still there.

    DaemonSet pods, those of the kubelet and those that are over do not count. `late` asks nobody any more.
    """

    def read(client: Client) -> tuple[Pod, ...]:
        return tuple(client.list(Pod, namespace="*", fields={"spec.nodeName": node}, chunk_size=PAGE))

    pods = kubernetes.ask(f"listing the pods of {node}", read)
    return list(_staying(kubernetes, pods, late=late))


def told(staying: list[Staying]) -> str:
    """Say in a line which pods stay."""
    names = ", ".join(map(str, staying[:MAX_TOLD]))
    more = f" and {len(staying) - MAX_TOLD} more" if len(staying) > MAX_TOLD else ""
    return f"{len(staying)} pods are still there: {names}{more}"


def _staying(kubernetes: Kubernetes, pods: tuple[Pod, ...], *, late: bool) -> Iterator[Staying]:
    for pod in pods:
        about = pod.metadata
        if about is None or not _must_leave(pod, about):
            continue
        name = f"{about.namespace}/{about.name}"
        if about.deletionTimestamp is not None:
            yield Staying(name, "leaving")
        elif late:
            yield Staying(name, "not asked any more")
        elif why := _evict(kubernetes, about):
            yield Staying(name, why)


def _must_leave(pod: Pod, about: ObjectMeta) -> bool:
    if any(owner.controller and owner.kind == DAEMON_SET for owner in about.ownerReferences or ()):
        return False
    over = pod.status is not None and pod.status.phase in OVER
    return not over and MIRROR not in (about.annotations or {})


def _evict(kubernetes: Kubernetes, about: ObjectMeta) -> str:
    """Ask one pod to leave; returns why it stays, empty where it is gone already."""
    place = ObjectMeta(name=about.name, namespace=about.namespace)
    request = Pod.Eviction(metadata=place)

    def evict(client: Client) -> None:
        client.create(request, str(about.name), namespace=about.namespace)

    try:
        kubernetes.ask(f"evicting {about.namespace}/{about.name}", evict)
    except Refused as refused:
        if refused.status == HTTPStatus.NOT_FOUND:
            return ""
        if refused.status == HTTPStatus.TOO_MANY_REQUESTS:
            return "its disruption budget allows no eviction now"
        raise
    return "asked to leave"
