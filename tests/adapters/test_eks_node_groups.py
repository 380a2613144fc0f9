"""Node auto repair of EKS managed node groups; botocore checks stubbed requests and answers."""

from __future__ import annotations

from typing import Any

import pytest

from faultbridge.adapters.ec2.inventory import Ec2Inventory, auto_scaling_groups, node_groups, repair_setting
from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.errors import Misconfigured
from tests.adapters.builders import CONFIG, EKS, node_group
from tests.adapters.stubs import stubbed


def serve(stub: Any, *groups: dict[str, Any]) -> None:
    """One page of names for each node group, then the description of each."""
    for at, one in enumerate(groups):
        token = {"nextToken": str(at)} if at else {}
        following = {"nextToken": str(at + 1)} if at + 1 < len(groups) else {}
        answer = {"nodegroups": [one["nodegroupName"]], **following}
        stub.add_response("list_nodegroups", answer, {"clusterName": EKS, **token})
    for one in groups:
        request = {"clusterName": EKS, "nodegroupName": one["nodegroupName"]}
        stub.add_response("describe_nodegroup", {"nodegroup": one}, request)


def test_every_node_group_is_read_from_all_pages_with_its_auto_scaling_groups() -> None:
    with stubbed("eks") as (clients, stub):
        serve(stub, node_group("a"), node_group("b"))
        found = node_groups(clients, EKS)
    assert [list(auto_scaling_groups(one)) for one in found] == [["eks-a"], ["eks-b"]]


def test_a_node_group_that_repairs_its_nodes_is_named_with_the_command_that_turns_it_off() -> None:
    with stubbed("eks") as (clients, stub):
        serve(stub, node_group("cpu"), node_group("gpu", repair=True, types=("p5.48xlarge",)))
        setting = Ec2Inventory(clients).repairs_nodes(CONFIG)
    assert setting is not None
    assert (setting.repairs, setting.name) == (True, "node auto repair of EKS (node group gpu)")
    command = "aws eks update-nodegroup-config --cluster-name train --nodegroup-name gpu"
    assert f"{command} --node-repair-config enabled=false" in setting.change


@pytest.mark.parametrize(
    "group",
    [
        node_group("gpu"),
        node_group("gpu", repair=False),
        node_group("gpu", nodeRepairConfig={}),
        node_group("system", repair=True, types=("m6i.large", "c6i.large")),
    ],
)
def test_a_node_group_without_auto_repair_or_without_accelerators_is_no_rival(group: dict[str, Any]) -> None:
    assert repair_setting(EKS, [group]) is None


def test_a_node_group_whose_launch_template_names_the_type_may_have_gpus() -> None:
    assert repair_setting(EKS, [node_group("gpu", repair=True)]) is not None


def test_a_cluster_without_eks_asks_nothing() -> None:
    with stubbed("eks") as (clients, _):
        assert Ec2Inventory(clients).repairs_nodes(ClusterConfig("train-a")) is None


def test_node_groups_that_cannot_be_read_leave_the_question_open() -> None:
    with stubbed("eks") as (clients, stub):
        stub.add_client_error("list_nodegroups", "AccessDeniedException", http_status_code=403)
        with pytest.raises(Misconfigured, match="node groups of EKS cluster train"):
            Ec2Inventory(clients).repairs_nodes(CONFIG)
