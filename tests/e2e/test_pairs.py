"""The happy path of each pair of provider and orchestrator that is not told elsewhere."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from faultbridge import local
from faultbridge.adapters.kubernetes.client import Kubernetes, eks
from faultbridge.adapters.kubernetes.marks import ISOLATED
from faultbridge.domain.cases import Resolution
from faultbridge.domain.clusters import ClusterConfig, Mode, RepairOwner
from faultbridge.domain.edges import NodeStatus
from faultbridge.services.registration import NewNode
from faultbridge.services.send import Parcel
from tests.e2e.batches import LOST
from tests.e2e.installation import Installation, aimed_clients, eventually

pytestmark = [pytest.mark.embedded, pytest.mark.slow]

NODE = "node-000"


@pytest.fixture(scope="module")
def name() -> str:
    return f"eks-{uuid.uuid4().hex[:6]}"


@pytest.fixture(scope="module")
def kubernetes(installation: Installation, name: str) -> Kubernetes:
    """The API (fake) of an EKS cluster whose two nodes are an Auto Scaling group; a job runs on one of them."""
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
    clients = aimed_clients(stack)
    return eks(clients, name)


def by_instance(kubernetes: Kubernetes) -> dict[str, Any]:
    return {str(node.spec.providerID).rpartition("/")[2]: node for node in kubernetes.nodes() if node.spec}


@pytest.fixture(scope="module")
def repaired(installation: Installation, kubernetes: Kubernetes, name: str) -> list[dict[str, Any]]:
    """A GPU is lost under a running job; returns the record when all is done."""
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
    return sorted(record, key=lambda one: (one["metadata"]["recorded_at"], one["metadata"]["sequence"]))


def test_with_auto_scaling_and_eks_the_node_is_drained_replaced_verified_and_let_go(
    installation: Installation, kubernetes: Kubernetes, repaired: list[dict[str, Any]], name: str
) -> None:
    told = [(one["data"]["step"], one["data"]["outcome"]) for one in repaired if "step" in one["data"]]
    wanted = [("drain", "drained"), ("intent", "committed"), ("verify", "passed"), ("return_to_service", "returned")]
    assert [step for step in told if step in wanted] == wanted
    (case,) = installation.cases(name)
    state = installation.states(name)[NODE]
    assert (case.resolution, state.status) == (Resolution.REPLACED, NodeStatus.HEALTHY)
    assert state.incarnation is not None
    nodes = by_instance(kubernetes)
    assert set(nodes) == {
        str(each.incarnation.instance_id) for each in installation.states(name).values() if each.incarnation
    }
    successor = nodes[str(state.incarnation.instance_id)]
    assert not successor.spec.unschedulable
    assert not successor.spec.taints
    assert ISOLATED not in successor.metadata.labels
    # Its version says that it was changed since it joined: kept off work first, let go last.
    assert int(successor.metadata.resourceVersion) > 2


def test_the_isolation_was_confirmed_by_the_orchestrator(repaired: list[dict[str, Any]]) -> None:
    (isolated,) = (one["data"] for one in repaired if one["data"].get("to") == NodeStatus.QUARANTINED)
    assert isolated["reason"] == "isolation confirmed"
