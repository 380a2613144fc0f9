"""How many calls an inventory of 12,500 nodes makes: what AWS is asked a minute, counted where the calls leave us."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import Any

import pytest

from faultbridge.adapters.clients import Clients
from faultbridge.adapters.inventory_ec2 import Ec2Inventory
from faultbridge.adapters.inventory_hyperpod import HyperPodInventory
from faultbridge.domain.clusters import ClusterConfig
from tests.adapters.stubs import ENVIRONMENT

NODES, GROUPS = 12_500, 25
LOOKS_A_MINUTE = 1 / 5
LAUNCHED = datetime(2026, 2, 3, tzinfo=UTC)
PAGE = 100


def instance(number: int) -> str:
    return f"i-{number:017x}"


class Fleet:
    """Answers (fake) of EC2, Auto Scaling and SageMaker for a fleet that stands still, in pages as AWS makes them."""

    def __call__(self, operation: str, asked: dict[str, Any]) -> dict[str, Any]:
        answer: dict[str, Any] = getattr(self, operation)(asked)
        return answer

    def DescribeAutoScalingGroups(self, asked: dict[str, Any]) -> dict[str, Any]:  # noqa: N802 - AWS's name
        size = NODES // GROUPS
        groups = []
        for name in asked["AutoScalingGroupNames"]:
            first = int(name.removeprefix("group-")) * size
            members = [
                {"InstanceId": instance(one), "AvailabilityZone": "us-west-2a", "LifecycleState": "InService"}
                for one in range(first, first + size)
            ]
            groups.append({"AutoScalingGroupName": name, "Instances": members})
        return {"AutoScalingGroups": groups}

    def DescribeInstances(self, asked: dict[str, Any]) -> dict[str, Any]:  # noqa: N802 - AWS's name
        (filtered,) = asked["Filters"]
        if filtered["Name"] != "instance-id":
            return {"Reservations": []}
        found = [
            {"InstanceId": one, "State": {"Name": "running"}, "LaunchTime": LAUNCHED} for one in filtered["Values"]
        ]
        return {"Reservations": [{"Instances": found}]}

    def DescribeInstanceTopology(self, asked: dict[str, Any]) -> dict[str, Any]:  # noqa: N802 - AWS's name
        assert len(asked["InstanceIds"]) <= PAGE
        return {"Instances": []}

    def ListClusterNodes(self, asked: dict[str, Any]) -> dict[str, Any]:  # noqa: N802 - AWS's name
        first = int(asked.get("NextToken") or 0)
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
        events.register("provide-client-params", lambda params, context, **_: context.update(asked=dict(params)))
        # The observer was registered first; this one answers, so that nothing goes to the network.
        events.register(
            "before-call", lambda model, params, **_: (Answered(), fleet(model.name, params["context"]["asked"]))
        )
    return clients, calls


class Answered:
    """What botocore takes for an HTTP response of a call that was answered."""

    status_code = 200


def test_a_look_at_a_fleet_that_stands_still_is_two_calls(counted: tuple[Clients, Counter[str]]) -> None:
    clients, calls = counted
    inventory, config = Ec2Inventory(clients), ClusterConfig("train-a")
    found = inventory.look(config, [f"group-{number}" for number in range(GROUPS)])
    assert sum(map(len, found.values())) == NODES
    inventory.opted_out(config)
    assert dict(calls) == {"DescribeAutoScalingGroups": 1, "DescribeInstances": 1}
    assert sum(calls.values()) * LOOKS_A_MINUTE < 1


def test_the_first_look_describes_each_machine_once_a_hundred_a_call(counted: tuple[Clients, Counter[str]]) -> None:
    clients, calls = counted
    inventory, config = Ec2Inventory(clients), ClusterConfig("train-a")
    found = inventory.look(config, [f"group-{number}" for number in range(GROUPS)])
    described = [machine for group, members in found.items() for machine in inventory.describe(config, group, members)]
    assert len(described) == NODES
    assert dict(calls) == {
        "DescribeAutoScalingGroups": 1,
        "DescribeInstances": NODES // PAGE,
        "DescribeInstanceTopology": NODES // PAGE,
    }


def test_hyperpod_is_asked_a_hundred_nodes_a_call(counted: tuple[Clients, Counter[str]]) -> None:
    clients, calls = counted
    config = ClusterConfig("train-a", provider="hyperpod", hyperpod_cluster="hp")
    assert len(HyperPodInventory(clients).look(config, ["gpu"])["gpu"]) == NODES
    assert dict(calls) == {"ListClusterNodes": NODES // PAGE}
    assert sum(calls.values()) * LOOKS_A_MINUTE == 25
