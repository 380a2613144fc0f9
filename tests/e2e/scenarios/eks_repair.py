"""A repair with the Auto Scaling provider and the EKS orchestrator."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

import pytest

from faultbridge import local
from faultbridge.adapters.kubernetes.client import Kubernetes, eks
from faultbridge.model.cluster.config import ClusterConfig, Mode, RepairOwner
from faultbridge.repair.registry.registration import NewNode
from faultbridge.serve.ingest.send import RawInput
from faultbridge.serve.wiring.services import wire_registration
from tests.e2e.harness.installation import Installation
from tests.e2e.harness.processes import clients_of
from tests.e2e.harness.records import GPU_LOST
from tests.waiting import eventually

NODE = "node-000"


@dataclass(frozen=True)
class EksRepair:
    """A repaired EKS cluster: its fake Kubernetes API and its entries in order."""

    cluster: str
    kubernetes: Kubernetes
    entries: list[dict[str, Any]]


@pytest.fixture(scope="session")
def eks_repair(installation: Installation) -> EksRepair:
    """Register two nodes of an Auto Scaling group; one loses a GPU while it runs a job."""
    name = f"eks-{uuid.uuid4().hex[:6]}"
    kubernetes = _eks_cluster(installation, name)
    installation.invoke("inventory", {})
    node = nodes_by_instance(kubernetes)[installation.instance_of(name, NODE)].metadata.name
    pod = {"namespace": "ml", "name": "job-0", "node": node, "labels": {"app": "train"}, "grace_seconds": 1}
    daemon = {"namespace": "kube-system", "name": "dcgm-exporter", "node": node, "owner": "DaemonSet"}
    local.configure_kubernetes(installation.stack.info.compute_endpoint, name, pods=[pod, daemon])
    installation.send([RawInput("kernel-log", name, GPU_LOST.encode(), node=NODE)])
    eventually(lambda: installation.cases(name), 60)
    installation.wait_until_idle(name, 120)
    entries = installation.entries(name).values()
    in_order = sorted(entries, key=lambda one: (one["metadata"]["recorded_at"], one["metadata"]["sequence"]))
    return EksRepair(name, kubernetes, in_order)


def _eks_cluster(installation: Installation, name: str) -> Kubernetes:
    stack = installation.stack
    stack.client("eks").create_cluster(
        name=name, roleArn="arn:aws:iam::000000000000:role/eks", resourcesVpcConfig={"subnetIds": []}
    )
    tags = {f"kubernetes.io/cluster/{name}": "owned"}
    instances = local.create_fleet(name, 2, environment=stack.info.environment, tags=tags)
    registration = wire_registration(installation.application)
    config = ClusterConfig(
        name, orchestrator="eks", eks_cluster=name, repair_owner=RepairOwner.FAULTBRIDGE, mode=Mode.ACT
    )
    registration.add_cluster(config)
    for number, instance in enumerate(instances):
        registration.add_node(name, NewNode(f"node-{number:03}", instance, group=name))
    return eks(clients_of(stack), name)


def nodes_by_instance(kubernetes: Kubernetes) -> dict[str, Any]:
    """Return the nodes of the cluster by instance id."""
    return {str(node.spec.providerID).rpartition("/")[2]: node for node in kubernetes.nodes() if node.spec}
