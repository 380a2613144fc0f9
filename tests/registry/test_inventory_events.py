"""Inventory events: a provider event starts a sync of exactly the groups that it names."""

from __future__ import annotations

import json

import pytest
from msgspec import to_builtins

from faultbridge.model.cluster.config import ClusterConfig, ProviderRole
from faultbridge.model.storage import keys
from faultbridge.model.storage.writes import Delete
from faultbridge.repair.registry.registration import NewNode
from faultbridge.serve.entrypoints.inventory import inventory as inventory_function
from faultbridge.serve.entrypoints.inventory import wire_inventory
from faultbridge.serve.wiring.services import wire_registration
from tests.builders import KEY
from tests.registry.world import instance, replace_externally
from tests.sim.fakes import FakeFleet, FakeInventory
from tests.world import GROUP


def auto_scaling_event(group: str, instance_id: str, activity: str = "Launch") -> dict:
    detail = {"AutoScalingGroupName": group, "EC2InstanceId": instance_id}
    return {"detail-type": f"EC2 Instance {activity} Successful", "source": "aws.autoscaling", "detail": detail}


@pytest.fixture
def process(world, sync, inventory, node_listing):
    """Pass a batch of events to the entry point and return the changed clusters."""
    world.ports.inventories, world.ports.node_listing = {"ec2-auto-scaling": inventory}, node_listing

    def run(*events):
        records = [{"body": json.dumps(event)} for event in events]
        return list(to_builtins(inventory_function({"Records": records}, world.app)))

    return run


def test_a_launched_instance_becomes_a_node_with_its_event(world, process):
    new = world.ports.fleet.launch(GROUP)
    (found,) = process(auto_scaling_event(GROUP, new))
    assert found["added"] == [f"ip-{new[-4:]}"]


def test_a_terminated_instance_starts_a_sync_of_its_group(world, process):
    old, new = replace_externally(world)
    change = {"instance-id": old, "state": "terminated"}
    (found,) = process({"detail-type": "EC2 Instance State-change Notification", "source": "aws.ec2", "detail": change})
    assert (found["replaced_externally"], instance(world)) == (["a"], new)


def test_many_events_of_one_group_cause_one_sync(process, inventory):
    before = inventory.calls
    process(*(auto_scaling_event(GROUP, f"i-{number:017x}", "Terminate") for number in range(500)))
    assert inventory.calls - before == 2


def test_a_hyperpod_event_names_its_group_in_the_event_details(world, process):
    new = world.ports.fleet.launch(GROUP)
    detail = {"EventDetails": {"InstanceGroupName": GROUP, "ClusterName": "hp", "ResourceType": "InstanceGroup"}}
    (found,) = process({"detail-type": "SageMaker HyperPod Cluster Event", "source": "aws.sagemaker", "detail": detail})
    assert found["added"] == [f"ip-{new[-4:]}"]


def test_events_about_unregistered_groups_and_invalid_events_cause_no_calls(process, inventory):
    before = inventory.calls
    assert process(auto_scaling_event("their-group", "i-0fffffffffffffff9"), {"detail": None}, ["nonsense"]) == []
    assert inventory.calls == before


OTHER = "other"
ROLE = ProviderRole("arn:aws:iam::222233334444:role/faultbridge")


@pytest.fixture
def other(world, process):
    """A second cluster with a group of the same name in another account; returns the fleet of that account."""
    fleet, registration = FakeFleet(world.ports.clock), wire_registration(world.app)
    world.ports.inventories["hyperpod"] = FakeInventory(fleet)
    parts = {"provider": "hyperpod", "verifier": "hyperpod", "restarter": "hyperpod", "hyperpod_cluster": "hp-b"}
    registration.add_cluster(ClusterConfig(OTHER, provider_role=ROLE, **parts))
    registration.add_node(OTHER, NewNode("b-1", fleet.launch(GROUP, "i-0bbbbbbbbbbbbbbb1"), GROUP))
    wire_inventory(world.app).sync(registration.cluster(OTHER))
    return fleet


def launch_event(hyperpod_cluster=None, account=None):
    named = {"InstanceGroupName": GROUP, **({"ClusterName": hyperpod_cluster} if hyperpod_cluster else {})}
    return {"source": "aws.sagemaker", "detail": {"EventDetails": named}, **({"account": account} if account else {})}


@pytest.mark.parametrize(
    ("event", "listed"),
    [
        (launch_event(), [OTHER, KEY.cluster]),
        (launch_event("hp-b"), [OTHER, KEY.cluster]),
        (launch_event("hp-c"), [KEY.cluster]),
        (launch_event(account="222233334444"), [OTHER, KEY.cluster]),
        (launch_event(account="555566667777"), [KEY.cluster]),
    ],
)
def test_an_event_lists_the_group_in_every_cluster_that_it_may_be_about(world, process, other, event, listed):
    world.ports.fleet.launch(GROUP)
    other.launch(GROUP, "i-0bbbbbbbbbbbbbbb2")
    assert [one["cluster"] for one in process(event)] == listed


def test_a_group_of_one_name_is_listed_from_the_provider_of_each_cluster(world, process, other):
    ours, theirs = world.ports.fleet.launch(GROUP), other.launch(GROUP, "i-0bbbbbbbbbbbbbbb2")
    found = process(launch_event("hp-b"))
    added = {one["cluster"]: one["added"] for one in found}
    assert added == {OTHER: [f"ip-{theirs[-4:]}"], KEY.cluster: [f"ip-{ours[-4:]}"]}


@pytest.mark.parametrize(("account", "listed"), [(None, [OTHER, KEY.cluster]), ("555566667777", [KEY.cluster])])
def test_an_event_of_a_capacity_block_syncs_every_cluster_that_may_run_in_it(world, process, other, account, listed):
    world.ports.fleet.launch(GROUP)
    other.launch(GROUP, "i-0bbbbbbbbbbbbbbb2")
    detail = {"capacity-reservation-id": "cr-0123456789abcdef0", "end-date": "2026-02-03T04:45:00Z"}
    event = {"detail-type": "Capacity Block Expiration Warning", "source": "aws.ec2", "detail": detail}
    assert [one["cluster"] for one in process(event | ({"account": account} if account else {}))] == listed


def test_an_event_about_an_instance_of_an_unregistered_cluster_stops_no_other_event(world, process, other, caplog):
    world.ports.table.write(Delete(keys.cluster_config(OTHER)))
    new = world.ports.fleet.launch(GROUP)
    gone = {"detail": {"instance-id": "i-0bbbbbbbbbbbbbbb1"}}
    with caplog.at_level("WARNING", logger="faultbridge"):
        (found,) = process(gone, auto_scaling_event(GROUP, new))
    assert found["added"] == [f"ip-{new[-4:]}"]
    (line,) = [line for line in caplog.records if line.message == "inventory_event_ignored"]
    assert (line.cluster, line.reason) == (OTHER, "unknown_cluster: unknown cluster: other")
