"""The instances of a HyperPod cluster; no emulator has them, so botocore checks stubbed responses."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from faultbridge.adapters.hyperpod.inventory import HyperPodInventory
from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.errors import Misconfigured, Transient
from faultbridge.record.ports.inventory import GroupMember
from tests.adapters.stubs import ENVIRONMENT, stubbed
from tests.hyperpod import hyperpod
from tests.sim.fakes import ManualClock

CLUSTER = ClusterConfig("train-a", provider="hyperpod", hyperpod_cluster="hp-train")
LAUNCHED = datetime(2026, 2, 3, 11, 0, tzinfo=UTC)
ARN = "arn:aws:sagemaker:us-west-2:123456789012:cluster/abcdefghijkl"
LIST = {"ClusterName": "hp-train", "IncludeNodeLogicalIds": True, "MaxResults": 100}


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


def instance(number: int) -> str:
    return f"i-{number:017x}"


def node(number: int, status: str = "Running", group: str = "gpu-workers", slot: str | None = None) -> dict[str, Any]:
    """One summary of ListClusterNodes; a node that is still starting has only a logical id."""
    return {
        "InstanceGroupName": group,
        "InstanceId": instance(number),
        "NodeLogicalId": slot or f"aaaaaaaa-0000-0000-0000-{number:012d}",
        "InstanceType": "ml.p5.48xlarge",
        "LaunchTime": LAUNCHED,
        "InstanceStatus": {"Status": status, "Message": ""},
    }


def test_all_pages_of_a_cluster_are_listed_by_group() -> None:
    with stubbed("sagemaker") as (clients, stub):
        first = [node(1), node(2, "ShuttingDown"), node(9, group="login")]
        stub.add_response("list_cluster_nodes", {"ClusterNodeSummaries": first, "NextToken": "more"}, LIST)
        second = [node(3, "DeepHealthCheckInProgress")]
        stub.add_response("list_cluster_nodes", {"ClusterNodeSummaries": second}, {**LIST, "NextToken": "more"})
        found = HyperPodInventory(clients).list_members(CLUSTER, {"gpu-workers", "nowhere"})
    assert list(found) == ["gpu-workers"]
    assert {one.instance_id: one.serving for one in found["gpu-workers"].values()} == {
        instance(1): True,
        instance(2): False,
        instance(3): False,
    }
    assert found["gpu-workers"][instance(1)].slot == "aaaaaaaa-0000-0000-0000-000000000001"


@pytest.mark.parametrize("status", ["Pending", "SystemUpdating", "DeepHealthCheckInProgress", "Failure"])
def test_an_import_takes_no_node_that_is_not_running(status: str) -> None:
    with stubbed("sagemaker") as (clients, stub):
        stub.add_response("list_cluster_nodes", {"ClusterNodeSummaries": [node(1), node(2, status)]}, LIST)
        request = {"ClusterName": "hp-train", "NodeId": instance(1)}
        stub.add_response("describe_cluster_node", {"NodeDetails": node(1)}, request)
        found = HyperPodInventory(clients).serving_instances(CLUSTER, "gpu-workers")
    assert [one.instance_id for one in found] == [instance(1)]


def test_an_instance_is_named_by_its_logical_id_and_has_all_its_names_as_aliases() -> None:
    slot = "aaaaaaaa-0000-0000-0000-000000000001"
    details = {
        **node(1),
        "PrivateDnsHostname": "ip-10-1-2-3.us-west-2.compute.internal",
        "Placement": {"AvailabilityZone": "us-west-2a", "AvailabilityZoneId": "usw2-az2"},
        "UltraServerInfo": {"Id": "us-7", "Type": "u-p6e-gb200"},
    }
    with stubbed("sagemaker") as (clients, stub):
        request = {"ClusterName": "hp-train", "NodeId": instance(1)}
        stub.add_response("describe_cluster_node", {"NodeDetails": details}, request)
        members = {instance(1): GroupMember(instance(1), slot=slot)}
        (found,) = HyperPodInventory(clients).describe(CLUSTER, "gpu-workers", members)
    assert found.name == "gpu-workers-aaaaaaaa"
    assert found.slot == slot
    assert set(found.names) - {found.name} == {
        f"hyperpod-{instance(1)}",
        "ip-10-1-2-3",
        "ip-10-1-2-3.us-west-2.compute.internal",
        slot,
    }
    assert (found.domain, found.domains["zone"], found.launched_at) == ("us-7", "us-west-2a", LAUNCHED)


def test_an_instance_that_shuts_down_or_is_neither_listed_nor_described_is_gone() -> None:
    with stubbed("sagemaker") as (clients, stub):
        listed = [node(1), node(2, "ShuttingDown"), node(3, "Failure")]
        stub.add_response("list_cluster_nodes", {"ClusterNodeSummaries": listed}, LIST)
        stub.add_client_error("describe_cluster_node", "ValidationException")
        stub.add_response("describe_cluster_node", {"NodeDetails": node(5)})
        stub.add_response("describe_cluster_node", {"NodeDetails": node(6, "ShuttingDown")})
        gone = HyperPodInventory(clients).gone(CLUSTER, [instance(one) for one in (1, 2, 3, 4, 5, 6)])
    assert gone == {instance(2), instance(4), instance(6)}


def test_a_missing_instance_that_cannot_be_read_is_not_gone() -> None:
    with stubbed("sagemaker") as (clients, stub):
        stub.add_response("list_cluster_nodes", {"ClusterNodeSummaries": []}, LIST)
        stub.add_client_error("describe_cluster_node", "ThrottlingException")
        with pytest.raises(Transient):
            HyperPodInventory(clients).gone(CLUSTER, [instance(1)])


def test_after_a_status_that_cannot_be_read_the_nodes_are_listed_again() -> None:
    described: dict[str, Any] = {"ClusterStatus": "InService", "ClusterArn": ARN, "InstanceGroups": []}
    with stubbed("sagemaker") as (clients, stub):
        inventory = HyperPodInventory(clients)
        stub.add_response("describe_cluster", described)
        stub.add_response("list_cluster_nodes", {"ClusterNodeSummaries": [node(1)]}, LIST)
        inventory.provider_status(CLUSTER, [])
        stub.add_client_error("describe_cluster", "ThrottlingException")
        with pytest.raises(Transient):
            inventory.provider_status(CLUSTER, [])
        stub.add_response("list_cluster_nodes", {"ClusterNodeSummaries": [node(2)]}, LIST)
        assert list(inventory.list_members(CLUSTER, ["gpu-workers"])["gpu-workers"]) == [instance(2)]


def test_a_missing_hyperpod_registration_names_the_option_to_set() -> None:
    with stubbed("sagemaker") as (clients, _), pytest.raises(Misconfigured, match="--hyperpod-cluster"):
        HyperPodInventory(clients).list_members(ClusterConfig("train-a", provider="hyperpod"), ["gpu-workers"])


def test_an_import_during_a_sync_lists_the_nodes_again() -> None:
    with hyperpod(ManualClock(), size=1) as (clients, fake):
        inventory = HyperPodInventory(clients)
        inventory.provider_status(CLUSTER, [])
        new = fake.launch("gpu-workers").instance_id
        assert new in {one.instance_id for one in inventory.serving_instances(CLUSTER, "gpu-workers")}
