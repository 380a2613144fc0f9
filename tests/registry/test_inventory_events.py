"""Inventory events: a provider event starts a sync of exactly the groups that it names."""

from __future__ import annotations

import json

import pytest

from faultbridge.entrypoints.inventory import inventory as inventory_function
from tests.registry.world import instance, replace_externally
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
        return inventory_function({"Records": records}, world.app)["clusters"]

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
