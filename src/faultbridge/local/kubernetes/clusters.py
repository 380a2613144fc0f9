"""Create and find the fake Kubernetes clusters, one for each EKS cluster of the compute plane."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

from faultbridge.local.gaps import patching
from faultbridge.local.gaps.eks_endpoints import EC2, EKS
from faultbridge.local.kubernetes.cluster import ApiStatusError, Budget, Cluster, Pod, RunningInstance

TAG = "kubernetes.io/cluster/"

_clusters: dict[str, Cluster] = {}
_lock = threading.RLock()


def find(name: str) -> Cluster:
    """Return the fake cluster of an EKS cluster, its running instances as nodes; raises a 404 error."""
    if not any(name in backend.clusters for backend in _backends(EKS)):
        raise ApiStatusError(404, "NotFound", f"EKS has no cluster {name!r}")
    with _lock:
        cluster = _clusters.setdefault(name, Cluster(name))
    cluster.sync(_running_instances(name))
    return cluster


def configure(body: dict[str, Any]) -> None:
    """Add `pods` and `budgets` to the cluster, and replace `reachable` and `register_taints` if present."""
    cluster = find(str(body["cluster"]))
    with cluster.lock:
        cluster.pods.extend(Pod(**pod) for pod in body.get("pods", ()))
        cluster.budgets.extend(Budget(**budget) for budget in body.get("budgets", ()))
        cluster.reachable = bool(body.get("reachable", cluster.reachable))
        cluster.register_taints = tuple(body.get("register_taints", cluster.register_taints))


def reset() -> None:
    """Discard the state of every fake cluster: its pods, budgets and settings, and changes of its nodes."""
    with _lock:
        _clusters.clear()


def _running_instances(name: str) -> Iterator[RunningInstance]:
    for backend in _backends(EC2):
        for instance in backend.all_instances():
            tags = {tag["key"]: tag["value"] for tag in instance.get_tags()}
            if instance.state == "running" and TAG + name in tags:
                yield RunningInstance(instance.id, instance.private_dns_name, instance.placement.zone)


def _backends(name: str) -> Iterator[Any]:
    for regions in patching.resolve(name).values():
        yield from regions.values()
