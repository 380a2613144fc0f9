"""The instances of an Auto Scaling group, as EC2 describes them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.ec2.instances import domains_by_instance, impaired_instances
from faultbridge.adapters.ec2.inventory import Ec2Inventory
from faultbridge.model.cluster.config import ClusterConfig, ProviderRole
from faultbridge.model.errors import Rejected, Transient
from faultbridge.model.nodes import Instance, narrowest
from faultbridge.record.ports.inventory import OPT_OUT_TAG, GroupMember
from faultbridge.repair.registry.registration import NewNode
from tests.adapters.stubs import ENVIRONMENT, stubbed
from tests.contracts.aws import ON_MOTO, aws
from tests.contracts.provider import group_of

CLUSTER = ClusterConfig("train-a")
pytestmark = pytest.mark.skipif(not ON_MOTO, reason="only moto has the compute services")


@pytest.fixture
def clients(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clients]:
    # moto has no instance topology.
    monkeypatch.setattr("faultbridge.adapters.ec2.inventory.domains_by_instance", lambda *_: {})
    with aws() as made:
        yield made


def test_every_instance_in_service_is_listed_by_its_host_name(clients: Clients) -> None:
    group, instances = group_of(clients)
    found = Ec2Inventory(clients).serving_instances(CLUSTER, group)
    assert {instance.instance_id for instance in found} == set(instances)
    assert [instance.name for instance in found] == sorted(instance.name for instance in found)
    for instance in found:
        assert instance.name.startswith("ip-")
        assert "." not in instance.name
        assert instance.names[1].startswith(f"{instance.name}.")
        assert (instance.group, instance.instance_type, instance.domain) == (group, "p4d.24xlarge", "us-east-1a")
        assert instance.launched_at is not None
        assert NewNode.of_instance(instance).since == instance.launched_at


def test_an_instance_in_standby_is_not_listed(clients: Clients) -> None:
    group, (first, second) = group_of(clients)
    clients.autoscaling.enter_standby(
        AutoScalingGroupName=group, InstanceIds=[first], ShouldDecrementDesiredCapacity=True
    )
    assert [one.instance_id for one in Ec2Inventory(clients).serving_instances(CLUSTER, group)] == [second]


def test_a_large_group_is_read_in_several_calls(clients: Clients, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("faultbridge.adapters.ec2.inventory.INSTANCES_AT_ONCE", 1)
    group, instances = group_of(clients)
    assert len(Ec2Inventory(clients).serving_instances(CLUSTER, group)) == len(instances)


def test_a_missing_group_is_rejected(clients: Clients) -> None:
    with pytest.raises(Rejected, match="group not found"):
        Ec2Inventory(clients).serving_instances(CLUSTER, "nowhere")


def test_a_terminated_or_unknown_instance_is_gone(clients: Clients) -> None:
    _, (first, second) = group_of(clients)
    clients.ec2.terminate_instances(InstanceIds=[first])
    assert Ec2Inventory(clients).gone(CLUSTER, [first, second, "i-0123456789abcdef0"]) == {first, "i-0123456789abcdef0"}


def test_one_call_finds_the_instances_with_the_opt_out_tag(clients: Clients) -> None:
    _, (first, second) = group_of(clients)
    clients.ec2.create_tags(Resources=[first], Tags=[{"Key": OPT_OUT_TAG, "Value": "true"}])
    clients.ec2.create_tags(Resources=[second], Tags=[{"Key": OPT_OUT_TAG, "Value": "false"}])
    assert Ec2Inventory(clients).opted_out(CLUSTER) == {first}


def test_an_instance_in_standby_is_a_member_that_does_not_serve(clients: Clients) -> None:
    group, (first, second) = group_of(clients)
    clients.autoscaling.enter_standby(
        AutoScalingGroupName=group, InstanceIds=[first], ShouldDecrementDesiredCapacity=True
    )
    found = Ec2Inventory(clients).list_members(CLUSTER, [group, "nowhere"])
    assert {one.instance_id: one.serving for one in found[group].values()} == {first: False, second: True}
    assert list(found) == [group]


def test_the_instances_of_another_account_are_read_with_its_role(clients: Clients) -> None:
    other_account = ClusterConfig(
        "train-b", provider_role=ProviderRole("arn:aws:iam::222233334444:role/faultbridge", "shared")
    )
    there = clients.for_role(other_account.provider_role) if other_account.provider_role else clients
    group, instances = group_of(there)
    assert {one.instance_id for one in Ec2Inventory(clients).serving_instances(other_account, group)} == set(instances)
    assert Ec2Inventory(clients).list_members(CLUSTER, [group]) == {}
    assert Ec2Inventory(clients).gone(other_account, instances) == frozenset()
    there.ec2.create_tags(Resources=instances[:1], Tags=[{"Key": OPT_OUT_TAG, "Value": "true"}])
    assert Ec2Inventory(clients).opted_out(other_account) == set(instances[:1])


INSTANCE = "i-0123456789abcdef0"


DESCRIBED = {"InstanceId": INSTANCE, "InstanceType": "m5.large", "PrivateDnsName": "ip-10-0-0-7.internal"}


def topology(**changes: object) -> dict[str, object]:
    """A response of DescribeInstanceTopology, in the form of the service model."""
    one = {
        "InstanceId": INSTANCE,
        "InstanceType": "p5.48xlarge",
        "GroupName": "cluster-a",
        "NetworkNodes": ["nn-top", "nn-middle", "nn-bottom"],
        "AvailabilityZone": "us-west-2a",
        "ZoneId": "usw2-az2",
        "CapacityBlockId": "cb-1",
    }
    return {"Instances": [one | changes]}


def test_the_narrowest_failure_domain_is_the_switch_and_then_the_zone() -> None:
    with stubbed("ec2") as (clients, stub):
        stub.add_response("describe_instance_topology", topology(), {"InstanceIds": [INSTANCE]})
        (domains,) = domains_by_instance(clients, [DESCRIBED]).values()
    assert domains == {
        "network_node": "nn-bottom",
        "network_node_2": "nn-middle",
        "network_node_3": "nn-top",
        "zone": "us-west-2a",
        "capacity_block": "cb-1",
        "placement_group": "cluster-a",
    }
    assert narrowest(domains) == "nn-bottom"
    assert narrowest({**domains, "ultraserver": "us-7"}) == "us-7"
    assert narrowest({"placement_group": "cluster-a", "zone": "us-west-2a"}) == "us-west-2a"
    assert narrowest({}) is None


def described_without_topology(code: str, monkeypatch: pytest.MonkeyPatch) -> Instance:
    """Return what the inventory finds of an instance while its topology cannot be read, for this reason."""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    with stubbed("ec2") as (clients, stub):
        stub.add_response("describe_instances", {"Reservations": [{"Instances": [DESCRIBED]}]})
        stub.add_client_error("describe_instance_topology", code)
        members = {INSTANCE: GroupMember(INSTANCE, "us-west-2a")}
        (found,) = Ec2Inventory(clients).describe(CLUSTER, "group", members)
    return found


@pytest.mark.parametrize("code", ["UnsupportedOperation", "InvalidParameterValue"])
def test_without_topology_the_failure_domain_is_the_zone(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = described_without_topology(code, monkeypatch)
    assert (found.name, found.domain, found.has_all_domains) == ("ip-10-0-0-7", "us-west-2a", True)
    assert found.names == ("ip-10-0-0-7", "ip-10-0-0-7.internal")


def test_a_type_without_topology_costs_no_other_type_its_failure_domains() -> None:
    other = {"InstanceId": "i-00000000000000001", "InstanceType": "p5.48xlarge"}
    with stubbed("ec2") as (clients, stub):
        stub.add_client_error("describe_instance_topology", "InvalidParameterValue")
        stub.add_response("describe_instance_topology", topology(InstanceId=other["InstanceId"]))
        found = domains_by_instance(clients, [DESCRIBED, other])
    assert (found[INSTANCE], found[other["InstanceId"]]["network_node"]) == ({}, "nn-bottom")


@pytest.mark.parametrize("code", ["RequestLimitExceeded", "InvalidInstanceID.NotFound"])
def test_failure_domains_that_cannot_be_read_now_are_read_again(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = described_without_topology(code, monkeypatch)
    assert (found.domain, found.has_all_domains) == ("us-west-2a", False)
    assert not NewNode.of_instance(found).is_described


def test_a_throttled_service_is_transient() -> None:
    with stubbed("autoscaling") as (clients, stub):
        stub.add_client_error("describe_auto_scaling_groups", "Throttling")
        with pytest.raises(Transient):
            Ec2Inventory(clients).list_members(CLUSTER, ["group"])


def test_capacity_blocks_end_at_the_end_of_their_reservation_and_other_reservations_do_not() -> None:
    ends = datetime(2030, 1, 2, 11, 30, tzinfo=UTC)
    found = [
        {
            "CapacityReservationId": "cr-1",
            "CapacityBlockId": "cb-1",
            "ReservationType": "capacity-block",
            "EndDate": ends,
        },
        {"CapacityReservationId": "cr-2", "ReservationType": "capacity-block", "EndDate": ends, "State": "expired"},
        {"CapacityReservationId": "cr-3", "ReservationType": "default", "EndDate": ends},
        {"CapacityReservationId": "cr-4", "ReservationType": "default"},
    ]
    states = {"Filters": [{"Name": "state", "Values": ["active", "expired"]}]}
    with stubbed("ec2") as (clients, stub):
        stub.add_response("describe_capacity_reservations", {"CapacityReservations": found}, states)
        assert Ec2Inventory(clients).block_ends(ClusterConfig("train-a")) == dict.fromkeys(
            ("cr-1", "cb-1", "cr-2"), ends
        )


def test_impaired_instances_fail_their_system_or_their_instance_status_check() -> None:
    with stubbed("ec2") as (clients, stub):
        for check, instance in (("system-status", "i-1"), ("instance-status", "i-2")):
            asked = {"Filters": [{"Name": f"{check}.status", "Values": ["impaired"]}]}
            stub.add_response("describe_instance_status", {"InstanceStatuses": [{"InstanceId": instance}]}, asked)
        assert impaired_instances(clients) == {"i-1", "i-2"}
