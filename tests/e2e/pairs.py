"""What happens on pairs of provider and orchestrator other than the usual one, once a session."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

import pytest

from faultbridge import local
from faultbridge.adapters.kubernetes.client import Kubernetes, eks
from faultbridge.domain.clusters import ClusterConfig, Mode, RepairOwner
from faultbridge.ingest.send import Parcel
from faultbridge.registry.registration import NewNode
from tests.e2e.batches import LOST
from tests.e2e.installation import Installation, aimed_clients, eventually

NODE = "node-000"


@dataclass(frozen=True)
class OnEks:
    """A cluster whose orchestrator is EKS: the API (fake) of it, and its record in order when all was done."""

    cluster: str
    kubernetes: Kubernetes
    record: list[dict[str, Any]]


@pytest.fixture(scope="session")
def on_eks(installation: Installation) -> OnEks:
    """Two nodes of an Auto Scaling group; a GPU is lost under a running job."""
    name = f"eks-{uuid.uuid4().hex[:6]}"
    kubernetes = _eks_cluster(installation, name)
    installation.invoke("inventory", {})
    sitting = installation.states(name)[NODE].incarnation
    assert sitting is not None
    node = by_instance(kubernetes)[str(sitting.instance_id)].metadata.name
    pod = {"namespace": "ml", "name": "job-0", "node": node, "labels": {"app": "train"}, "grace_seconds": 1}
    daemon = {"namespace": "kube-system", "name": "dcgm-exporter", "node": node, "owner": "DaemonSet"}
    local.script_cluster(installation.stack.info.compute_endpoint, name, pods=[pod, daemon])
    installation.send([Parcel("kernel-log", name, LOST.encode(), node=NODE)])
    eventually(lambda: installation.cases(name), 60)
    installation.settle(name, 120)
    record = installation.entries(name).values()
    in_order = sorted(record, key=lambda one: (one["metadata"]["recorded_at"], one["metadata"]["sequence"]))
    return OnEks(name, kubernetes, in_order)


def _eks_cluster(installation: Installation, name: str) -> Kubernetes:
    stack = installation.stack
    stack.client("eks").create_cluster(
        name=name, roleArn="arn:aws:iam::000000000000:role/eks", resourcesVpcConfig={"subnetIds": []}
    )
    tags = {f"kubernetes.io/cluster/{name}": "owned"}
    instances = local.create_fleet(name, 2, environment=stack.info.environment, tags=tags)
    registration = installation.application.registration
    config = ClusterConfig(
        name, orchestrator="eks", eks_cluster=name, repair_owner=RepairOwner.FAULTBRIDGE, mode=Mode.ACT
    )
    registration.add_cluster(config)
    for number, instance in enumerate(instances):
        registration.add_node(name, NewNode(f"node-{number:03}", instance, group=name))
    return eks(aimed_clients(stack), name)


def by_instance(kubernetes: Kubernetes) -> dict[str, Any]:
    """The nodes of the cluster by the instance that each is."""
    return {str(node.spec.providerID).rpartition("/")[2]: node for node in kubernetes.nodes() if node.spec}
