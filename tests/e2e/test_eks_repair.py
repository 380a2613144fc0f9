"""A successful repair with the Auto Scaling provider and the EKS orchestrator."""

from __future__ import annotations

from http import HTTPStatus

import pytest

from faultbridge.adapters.kubernetes.nodes import ISOLATED
from faultbridge.model.enums import NodeStatus, Resolution
from tests.e2e.harness.installation import Installation
from tests.e2e.scenarios.eks_repair import NODE, EksRepair, nodes_by_instance

pytestmark = [pytest.mark.embedded, pytest.mark.nightly]


def test_a_node_is_drained_replaced_verified_and_returned_to_service(
    installation: Installation, eks_repair: EksRepair
) -> None:
    steps = [(one["data"]["step"], one["data"]["outcome"]) for one in eks_repair.entries if "step" in one["data"]]
    wanted = [("drain", "drained"), ("intent", "committed"), ("verify", "passed"), ("return_to_service", "returned")]
    assert [step for step in steps if step in wanted] == wanted
    (case,) = installation.cases(eks_repair.cluster)
    state = installation.states(eks_repair.cluster)[NODE]
    assert (case.resolution, state.status) == (Resolution.REPLACED, NodeStatus.HEALTHY)
    assert state.incarnation is not None
    nodes = nodes_by_instance(eks_repair.kubernetes)
    assert set(nodes) == {
        str(each.incarnation.instance_id)
        for each in installation.states(eks_repair.cluster).values()
        if each.incarnation
    }
    successor = nodes[str(state.incarnation.instance_id)]
    assert not successor.spec.unschedulable
    assert not successor.spec.taints
    assert ISOLATED not in successor.metadata.labels
    # Its resource version shows changes after its registration: a cordon first and an uncordon last.
    assert int(successor.metadata.resourceVersion) > 2


def test_the_isolation_was_confirmed_by_the_orchestrator(eks_repair: EksRepair) -> None:
    (isolated,) = (one["data"] for one in eks_repair.entries if one["data"].get("to") == NodeStatus.QUARANTINED)
    assert isolated["reason"] == "isolation confirmed"


def test_the_node_groups_of_the_cluster_are_read(installation: Installation, eks_repair: EksRepair) -> None:
    calls = [one for one in installation.required_proxy.calls if one.name == "eks:ListNodegroups"]
    assert {one.status for one in calls if one.arguments == {"name": eks_repair.cluster}} == {HTTPStatus.OK}
