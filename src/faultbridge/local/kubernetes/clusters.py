"""The Kubernetes clusters of the compute plane (fakes): those that its EKS has, with its instances for nodes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

from faultbridge.local.gaps import names as patch
from faultbridge.local.gaps.kubernetes_endpoints import EC2, EKS
from faultbridge.local.kubernetes.cluster import Budget, Cluster, Machine, Pod, Refusal

TAG = "kubernetes.io/cluster/"

_known: dict[str, Cluster] = {}
_lock = threading.RLock()


def cluster_of(name: str) -> Cluster:
    """Return a cluster that EKS has, its nodes as its instances are now; 404 for another name."""
    if not any(name in backend.clusters for backend in _backends(EKS)):
        raise Refusal(404, "NotFound", f"EKS has no cluster {name!r}")
    with _lock:
        cluster = _known.setdefault(name, Cluster(name))
    cluster.sync(_machines(name))
    return cluster


def script(body: dict[str, Any]) -> None:
    """Do what a test asks: pods that run, budgets, taints of new nodes, an API that does not answer."""
    cluster = cluster_of(str(body["cluster"]))
    with cluster.lock:
        cluster.pods.extend(Pod(**pod) for pod in body.get("pods", ()))
        cluster.budgets.extend(Budget(**budget) for budget in body.get("budgets", ()))
        cluster.reachable = bool(body.get("reachable", cluster.reachable))
        cluster.register_taints = tuple(body.get("register_taints", cluster.register_taints))


def forget() -> None:
    """Let every cluster be empty of pods and to be reached again."""
    with _lock:
        _known.clear()


def _machines(name: str) -> Iterator[Machine]:
    for backend in _backends(EC2):
        for instance in backend.all_instances():
            tags = {tag["key"]: tag["value"] for tag in instance.get_tags()}
            if instance.state == "running" and TAG + name in tags:
                yield Machine(instance.id, instance.private_dns_name, instance.placement.zone)


def _backends(name: str) -> Iterator[Any]:
    for regions in patch.resolve(name).values():
        yield from regions.values()
