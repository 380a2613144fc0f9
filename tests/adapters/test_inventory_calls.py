"""Calls of inventories, and the status checks of instances."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.stub import Stubber

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.ec2.instances import checks_of
from faultbridge.adapters.ec2.inventory import Ec2Inventory
from faultbridge.adapters.hyperpod.inventory import HyperPodInventory
from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.record.ports.presence import CheckResult, InstanceChecks
from tests.adapters.stubs import ENVIRONMENT, stubbed

NODES, GROUPS = 12_500, 25
SYNCS_PER_MINUTE = 1 / 5
LAUNCHED = datetime(2026, 2, 3, tzinfo=UTC)
PAGE = 100


def instance(number: int) -> str:
    return f"i-{number:017x}"


class Fleet:
    """Responses (fake) of EC2, Auto Scaling and SageMaker for an unchanged fleet, in pages as on AWS."""

    def __call__(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        answer: dict[str, Any] = getattr(self, operation)(request)
        return answer

    def DescribeAutoScalingGroups(self, request: dict[str, Any]) -> dict[str, Any]:  # noqa: N802 - AWS's name
        size = NODES // GROUPS
        groups = []
        for name in request["AutoScalingGroupNames"]:
            first = int(name.removeprefix("group-")) * size
            members = [
                {"InstanceId": instance(one), "AvailabilityZone": "us-west-2a", "LifecycleState": "InService"}
                for one in range(first, first + size)
            ]
            groups.append({"AutoScalingGroupName": name, "DesiredCapacity": size, "Instances": members})
        return {"AutoScalingGroups": groups}

    def DescribeInstanceRefreshes(self, request: dict[str, Any]) -> dict[str, Any]:  # noqa: N802 - AWS's name
        assert request["AutoScalingGroupName"].startswith("group-")
        return {"InstanceRefreshes": []}

    def DescribeInstances(self, request: dict[str, Any]) -> dict[str, Any]:  # noqa: N802 - AWS's name
        (filtered,) = request["Filters"]
        if filtered["Name"] != "instance-id":
            return {"Reservations": []}
        found = [
            {"InstanceId": one, "State": {"Name": "running"}, "LaunchTime": LAUNCHED} for one in filtered["Values"]
        ]
        return {"Reservations": [{"Instances": found}]}

    def DescribeInstanceTopology(self, request: dict[str, Any]) -> dict[str, Any]:  # noqa: N802 - AWS's name
        assert len(request["InstanceIds"]) <= PAGE
        return {"Instances": []}

    def DescribeCluster(self, request: dict[str, Any]) -> dict[str, Any]:  # noqa: N802 - AWS's name
        assert request["ClusterName"] == "hp"
        return {"ClusterStatus": "InService", "InstanceGroups": []}

    def ListClusterNodes(self, request: dict[str, Any]) -> dict[str, Any]:  # noqa: N802 - AWS's name
        first = int(request.get("NextToken") or 0)
        nodes = [
            {"InstanceGroupName": "gpu", "InstanceId": instance(one), "InstanceStatus": {"Status": "Running"}}
            for one in range(first, first + PAGE)
        ]
        following = {"NextToken": str(first + PAGE)} if first + PAGE < NODES else {}
        return {"ClusterNodeSummaries": nodes, **following}


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> tuple[Clients, Counter[str]]:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    calls: Counter[str] = Counter()
    fleet = Fleet()
    clients = Clients(observe=lambda _, operation: calls.update([operation]))
    for client in (clients.ec2, clients.autoscaling, clients.sagemaker):
        events: Any = client.meta.events
        events.register("provide-client-params", lambda params, context, **_: context.update(request=dict(params)))
        # The observer was registered first. This handler returns a response, so that no call reaches the network.
        events.register(
            "before-call",
            lambda model, params, **_: (SuccessResponse(), fleet(model.name, params["context"]["request"])),
        )
    return clients, calls


class SuccessResponse:
    """A successful HTTP response, as botocore expects it (fake)."""

    status_code = 200


def test_counter_sample_the_groups_of_an_unchanged_fleet_takes_two_calls(counted: tuple[Clients, Counter[str]]) -> None:
    clients, calls = counted
    inventory, config = Ec2Inventory(clients), ClusterConfig("train-a")
    found = inventory.list_members(config, [f"group-{number}" for number in range(GROUPS)])
    assert sum(map(len, found.values())) == NODES
    inventory.opted_out(config)
    assert dict(calls) == {"DescribeAutoScalingGroups": 1, "DescribeInstances": 1}
    assert sum(calls.values()) * SYNCS_PER_MINUTE < 1


def test_the_updates_of_an_unchanged_fleet_take_one_call_for_each_group(counted: tuple[Clients, Counter[str]]) -> None:
    clients, calls = counted
    status = Ec2Inventory(clients).provider_status(
        ClusterConfig("train-a"), [f"group-{number}" for number in range(GROUPS)]
    )
    assert all(one.complete and one.update is None for one in status.groups.values())
    assert dict(calls) == {"DescribeAutoScalingGroups": 1, "DescribeInstanceRefreshes": GROUPS}
    listing = sum(calls.values()) + len(["DescribeAutoScalingGroups", "DescribeInstances"])
    assert listing * SYNCS_PER_MINUTE == pytest.approx(5.6)


def test_the_first_sync_describes_each_instance_once_with_100_per_call(counted: tuple[Clients, Counter[str]]) -> None:
    clients, calls = counted
    inventory, config = Ec2Inventory(clients), ClusterConfig("train-a")
    found = inventory.list_members(config, [f"group-{number}" for number in range(GROUPS)])
    described = [one for group, members in found.items() for one in inventory.describe(config, group, members)]
    assert len(described) == NODES
    assert dict(calls) == {
        "DescribeAutoScalingGroups": 1,
        "DescribeInstances": NODES // PAGE,
        "DescribeInstanceTopology": NODES // PAGE,
    }


def test_hyperpod_nodes_are_listed_100_per_call(counted: tuple[Clients, Counter[str]]) -> None:
    clients, calls = counted
    config = ClusterConfig("train-a", provider="hyperpod", hyperpod_cluster="hp")
    assert len(HyperPodInventory(clients).list_members(config, ["gpu"])["gpu"]) == NODES
    assert dict(calls) == {"ListClusterNodes": NODES // PAGE}


def test_a_sync_of_a_hyperpod_cluster_lists_its_nodes_once(counted: tuple[Clients, Counter[str]]) -> None:
    clients, calls = counted
    config = ClusterConfig("train-a", provider="hyperpod", hyperpod_cluster="hp")
    inventory = HyperPodInventory(clients)
    for sync in (1, 2):
        inventory.provider_status(config, ["gpu"])
        assert len(inventory.list_members(config, ["gpu"])["gpu"]) == NODES
        assert inventory.gone(config, [instance(1)]) == frozenset()
        assert dict(calls) == {"DescribeCluster": sync, "ListClusterNodes": sync * NODES // PAGE}
    assert sum(calls.values()) / 2 * SYNCS_PER_MINUTE == pytest.approx(25.2)


ID = "i-0123456789abcdef0"
PASSED, FAILED, UNKNOWN = CheckResult.PASSED, CheckResult.FAILED, CheckResult.UNKNOWN


def status(system: str, instance: str) -> dict[str, Any]:
    return {
        "InstanceStatuses": [
            {"InstanceId": ID, "SystemStatus": {"Status": system}, "InstanceStatus": {"Status": instance}}
        ]
    }


def checks(ec2: dict[str, Any] | None, ssm: dict[str, Any] | None) -> InstanceChecks:
    """Return the checks that these answers give; None is a refused call."""
    with stubbed("ec2") as (clients, stub), Stubber(clients.ssm) as other:
        _answer(stub, "describe_instance_status", {"InstanceIds": [ID]}, ec2)
        _answer(other, "describe_instance_information", {"Filters": [{"Key": "InstanceIds", "Values": [ID]}]}, ssm)
        return checks_of(clients, ID)


def _answer(stub: Stubber, call: str, expected: dict[str, Any], answer: dict[str, Any] | None) -> None:
    if answer is None:
        stub.add_client_error(call, "AccessDeniedException", http_status_code=400, expected_params=expected)
    else:
        stub.add_response(call, answer, expected)


NOTHING: dict[str, Any] = {"InstanceStatuses": []}
UNMANAGED: dict[str, Any] = {"InstanceInformationList": []}


def ping(value: str) -> dict[str, Any]:
    return {"InstanceInformationList": [{"InstanceId": ID, "PingStatus": value}]}


@pytest.mark.parametrize(
    ("ec2", "ssm", "found"),
    [
        (status("ok", "ok"), ping("Online"), InstanceChecks(PASSED, PASSED, PASSED)),
        (status("impaired", "ok"), ping("ConnectionLost"), InstanceChecks(FAILED, PASSED, FAILED)),
        (status("ok", "impaired"), ping("Online"), InstanceChecks(PASSED, FAILED, PASSED)),
        (status("insufficient-data", "initializing"), ping("Inactive"), InstanceChecks()),
        (NOTHING, UNMANAGED, InstanceChecks()),
        (None, ping("Online"), InstanceChecks(agent=PASSED)),
        (status("ok", "impaired"), None, InstanceChecks(PASSED, FAILED, UNKNOWN)),
    ],
    ids=["healthy", "host", "system", "no result yet", "not listed", "no answer of EC2", "no answer of SSM"],
)
def test_the_checks_are_those_of_ec2_and_of_the_ssm_agent(
    ec2: dict[str, Any] | None, ssm: dict[str, Any] | None, found: InstanceChecks
) -> None:
    assert checks(ec2, ssm) == found
