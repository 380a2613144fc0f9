"""Patch that gives moto's EKS clusters a working Kubernetes endpoint: a fake cluster for each of them.

`kubernetes_endpoints`
AWS: `DescribeCluster` returns the address of the cluster's API server and its certificate authority.
moto: the call returns an address without a server, and random bytes as the certificate.
Here: the call returns the address of the fake Kubernetes API (`faultbridge.local.kubernetes`) on the compute plane. It
returns no certificate, because the API is on loopback. The nodes are the running instances with the tag
`kubernetes.io/cluster/<name>`, which EKS requires.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

from faultbridge.local.environment import PORT_VARIABLE, endpoint
from faultbridge.local.gaps.patching import Gap, resolve, source_has, wrap
from faultbridge.local.kubernetes import PATH
from faultbridge.local.kubernetes.cluster import ApiStatusError, Budget, Cluster, Pod, RunningInstance

CREATE = "moto.eks.models:Cluster|__init__"
EC2 = "moto.ec2.models:ec2_backends"
EKS = "moto.eks.models:eks_backends"


def _with_fake_endpoint(create: Callable[..., None], cluster: Any, *arguments: Any, **options: Any) -> None:  # noqa: ANN401 - moto's types
    create(cluster, *arguments, **options)
    cluster.endpoint = f"{endpoint(int(os.environ[PORT_VARIABLE]))}{PATH}{cluster.name}"
    cluster.certificate_authority = {}


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
    for regions in resolve(name).values():
        yield from regions.values()


GAPS = (
    Gap(
        "kubernetes_endpoints",
        (CREATE, EC2, EKS),
        source_has(CREATE, "self.endpoint = ENDPOINT_TEMPLATE"),
        lambda: wrap(CREATE, _with_fake_endpoint),
    ),
)
