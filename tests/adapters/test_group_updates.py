"""Updates of groups that their owner started: instance refreshes and updates of EKS node groups."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from faultbridge.adapters.ec2.inventory import (
    Ec2Inventory,
    auto_scaling_groups,
    node_groups,
    repair_setting,
    replacing_groups,
    running_refreshes,
    running_updates,
)
from faultbridge.adapters.hyperpod.inventory import status_of_cluster
from faultbridge.model.cluster.config import ClusterConfig, GroupUpdate
from faultbridge.model.errors import Misconfigured, Transient
from tests.adapters.builders import CONFIG, EKS, node_group
from tests.adapters.stubs import stubbed

STARTED = datetime(2026, 2, 3, 10, tzinfo=UTC)
REFRESH = {"InstanceRefreshId": "08b91cf7", "AutoScalingGroupName": "g", "StartTime": STARTED}
REQUEST = {"AutoScalingGroupName": "g", "MaxRecords": 1}


@pytest.mark.parametrize("status", ["Pending", "InProgress", "Cancelling", "RollbackInProgress"])
def test_a_refresh_that_replaces_instances_is_an_update_since_its_start(status: str) -> None:
    with stubbed("autoscaling") as (clients, stub):
        stub.add_response(
            "describe_instance_refreshes", {"InstanceRefreshes": [{**REFRESH, "Status": status}]}, REQUEST
        )
        found = running_refreshes(clients, ["g"])
    assert found == {"g": GroupUpdate("instance refresh 08b91cf7 replaces its instances", STARTED)}


@pytest.mark.parametrize(
    "status", ["Successful", "Failed", "Cancelled", "RollbackFailed", "RollbackSuccessful", "Baking"]
)
def test_a_refresh_that_is_over_or_bakes_is_no_update(status: str) -> None:
    with stubbed("autoscaling") as (clients, stub):
        stub.add_response(
            "describe_instance_refreshes", {"InstanceRefreshes": [{**REFRESH, "Status": status}]}, REQUEST
        )
        assert running_refreshes(clients, ["g"]) == {}


def test_a_refresh_that_has_not_started_has_no_start_time() -> None:
    pending = {"InstanceRefreshId": "1", "AutoScalingGroupName": "g", "Status": "Pending"}
    with stubbed("autoscaling") as (clients, stub):
        stub.add_response("describe_instance_refreshes", {"InstanceRefreshes": [pending]}, REQUEST)
        assert running_refreshes(clients, ["g"])["g"].since is None


def test_a_group_without_refreshes_and_no_group_at_all_have_no_update() -> None:
    with stubbed("autoscaling") as (clients, stub):
        stub.add_response("describe_instance_refreshes", {"InstanceRefreshes": []}, REQUEST)
        assert running_refreshes(clients, ["g"]) == {}
        assert running_refreshes(clients, []) == {}


@pytest.mark.parametrize(("code", "error"), [("AccessDenied", Misconfigured), ("Throttling", Transient)])
def test_a_refresh_that_cannot_be_read_is_unknown_and_not_over(code: str, error: type[Exception]) -> None:
    with stubbed("autoscaling") as (clients, stub):
        stub.add_client_error("describe_instance_refreshes", code, http_status_code=400)
        with pytest.raises(error, match="instance refreshes of g"):
            running_refreshes(clients, ["g"])


def test_a_node_group_that_eks_updates_is_an_update_of_its_auto_scaling_groups() -> None:
    found = running_updates([node_group("cpu"), node_group("gpu", status="UPDATING")])
    assert found == {"eks-gpu": GroupUpdate("EKS updates node group gpu")}


@pytest.mark.parametrize(
    ("settings", "rival"),
    [
        ({"HealthCheckType": "EC2"}, None),
        ({"HealthCheckType": "EC2,EBS,ELB"}, "the health check (EBS, ELB) of Auto Scaling group g"),
        ({"HealthCheckType": "ELB", "SuspendedProcesses": [{"ProcessName": "ReplaceUnhealthy"}]}, None),
        ({"HealthCheckType": "ELB", "SuspendedProcesses": [{"ProcessName": "HealthCheck"}]}, None),
        ({"HealthCheckType": "ELB", "SuspendedProcesses": [{"ProcessName": "AZRebalance"}]}, "the health check (ELB)"),
        ({"MaxInstanceLifetime": 604_800}, "the maximum instance lifetime of Auto Scaling group g"),
        ({"MaxInstanceLifetime": 0}, None),
        (
            {
                "AvailabilityZoneImpairmentPolicy": {
                    "ZonalShiftEnabled": True,
                    "ImpairedZoneHealthCheckBehavior": "ReplaceUnhealthy",
                }
            },
            "the zonal shift of Auto Scaling group g",
        ),
        (
            {
                "AvailabilityZoneImpairmentPolicy": {
                    "ZonalShiftEnabled": True,
                    "ImpairedZoneHealthCheckBehavior": "IgnoreUnhealthy",
                }
            },
            None,
        ),
    ],
)
def test_a_group_that_replaces_serving_instances_itself_is_a_rival(settings: dict[str, Any], rival: str | None) -> None:
    found = replacing_groups([{"AutoScalingGroupName": "g", **settings}])
    assert (found is None) is (rival is None)
    assert found is None or (found.repairs and found.name.startswith(str(rival)) and " g " in f"{found.change} ")


def _groups(cluster: str, *groups: dict[str, Any]) -> dict[str, str | None]:
    described = [{"InstanceGroupName": f"g{at}", "TargetCount": 0, **one} for at, one in enumerate(groups)]
    status = status_of_cluster("hp", {"ClusterStatus": cluster, "InstanceGroups": described}, [])
    return {name: one.update.text if one.update else None for name, one in status.groups.items()}


def test_a_software_update_of_a_hyperpod_cluster_is_an_update_of_all_its_groups() -> None:
    text = "HyperPod updates the software (SystemUpdating)"
    assert _groups("SystemUpdating", {"Status": "InService"}, {}) == {"g0": text, "g1": text}


@pytest.mark.parametrize(
    ("group", "updated"),
    [
        ({"Status": "SystemUpdating"}, True),
        ({"Status": "InService", "SoftwareUpdateStatus": "InProgress"}, True),
        ({"Status": "InService", "SoftwareUpdateStatus": "RollbackInProgress"}, True),
        ({"Status": "InService", "SoftwareUpdateStatus": "Pending"}, False),
        ({"Status": "InService", "SoftwareUpdateStatus": "Succeeded"}, False),
        ({"Status": "Updating"}, False),
        ({"Status": "InService"}, False),
    ],
)
def test_only_a_software_update_of_a_hyperpod_group_is_an_update_and_no_change_of_its_size(
    group: dict[str, Any], updated: bool
) -> None:
    found = _groups("InService", group, {"Status": "InService"})
    assert (found["g0"] is not None, found["g1"]) == (updated, None)


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


def test_overrides_that_exclude_reasons_are_named_and_the_group_is_still_a_rival() -> None:
    overrides = [
        {"nodeMonitoringCondition": "AcceleratedHardwareReady", "nodeUnhealthyReason": reason, "repairAction": action}
        for reason, action in (("NvidiaXID79Error", "NoAction"), ("NvidiaNVLinkError", "Reboot"))
    ]
    setting = repair_setting(
        EKS, [node_group("gpu", nodeRepairConfig={"enabled": True, "nodeRepairConfigOverrides": overrides})]
    )
    assert setting is not None
    assert (setting.repairs, setting.name) == (
        True,
        "node auto repair of EKS (node group gpu, not for NvidiaXID79Error)",
    )


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


@pytest.mark.parametrize(
    ("status", "occupied"),
    [
        ("Running", False),
        ("ShuttingDown", False),
        ("NotFound", False),
        ("Pending", True),
        ("SystemUpdating", True),
        ("DeepHealthCheckInProgress", True),
        ("Failure", True),
        ("AttachInProgress", True),
        ("DetachInProgress", True),
        ("AStatusOfNextYear", True),
    ],
)
def test_a_hyperpod_node_in_any_status_but_running_or_leaving_is_occupied(status: str, *, occupied: bool) -> None:
    node = {"InstanceGroupName": "g", "InstanceId": "i-1", "InstanceStatus": {"Status": status}}
    cluster = {"ClusterStatus": "InService", "InstanceGroups": [{"InstanceGroupName": "g", "TargetCount": 1}]}
    found = status_of_cluster("hp", cluster, [node]).groups["g"].occupied
    assert found == (frozenset({"i-1"}) if occupied else frozenset())
