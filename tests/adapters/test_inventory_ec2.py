"""Who serves in an Auto Scaling group, as EC2 tells it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from faultbridge.adapters.clients import Clients
from faultbridge.adapters.inventory_ec2 import Ec2Inventory
from faultbridge.errors import Rejected
from faultbridge.services.registration import NewNode
from tests.contracts.aws import ON_MOTO, aws
from tests.contracts.test_provider import group_of

pytestmark = pytest.mark.skipif(not ON_MOTO, reason="only moto has the compute services")


@pytest.fixture
def clients() -> Iterator[Clients]:
    with aws() as made:
        yield made


def test_every_instance_in_service_is_a_machine_named_by_its_host_name(clients: Clients) -> None:
    group, instances = group_of(clients)
    machines = Ec2Inventory(clients).machines(group)
    assert {machine.instance_id for machine in machines} == set(instances)
    assert [machine.name for machine in machines] == sorted(machine.name for machine in machines)
    for machine in machines:
        assert machine.name.startswith("ip-")
        assert "." not in machine.name
        assert machine.aliases[0].startswith(f"{machine.name}.")
        assert (machine.group, machine.instance_type, machine.domain) == (group, "p4d.24xlarge", "us-east-1a")
        assert machine.launched_at is not None
        assert NewNode.of_machine(machine).since == machine.launched_at


def test_an_instance_that_leaves_its_group_is_no_machine_of_it(clients: Clients) -> None:
    group, (first, second) = group_of(clients)
    clients.autoscaling.enter_standby(
        AutoScalingGroupName=group, InstanceIds=[first], ShouldDecrementDesiredCapacity=True
    )
    assert [machine.instance_id for machine in Ec2Inventory(clients).machines(group)] == [second]


def test_a_large_group_is_read_in_parts(clients: Clients, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("faultbridge.adapters.inventory_ec2.INSTANCES_AT_ONCE", 1)
    group, instances = group_of(clients)
    assert len(Ec2Inventory(clients).machines(group)) == len(instances)


def test_a_group_that_is_not_there_is_said_so(clients: Clients) -> None:
    with pytest.raises(Rejected, match="no Auto Scaling group"):
        Ec2Inventory(clients).machines("nowhere")
