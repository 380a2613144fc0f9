"""The Inventory port: the same tests for the fake, EC2 Auto Scaling groups and HyperPod instance groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.ec2.inventory import Ec2Inventory
from faultbridge.adapters.hyperpod.inventory import HyperPodInventory
from faultbridge.local.gaps import auto_scaling, ec2, patching
from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.cluster.state import GroupStatus
from faultbridge.model.errors import Rejected
from faultbridge.model.values import replace
from faultbridge.record.ports.inventory import OPT_OUT_TAG, Inventory
from tests.contracts.aws import ON_MOTO, REGION
from tests.contracts.provider import group_of
from tests.hyperpod import AT_ONCE, GROUP, NAME, hyperpod
from tests.sim.fakes import FakeFleet, FakeInventory, ManualClock

UNKNOWN, NOWHERE = "i-0123456789abcdef0", "nowhere"


@dataclass
class World:
    """A group of two serving instances, and what changes them at the provider."""

    inventory: Inventory
    group: str
    instances: list[str]
    suspend: Callable[[str], object]
    terminate: Callable[[str], object]
    resize: Callable[[int], object]
    opt_out: Callable[[str], object] | None = None
    config: ClusterConfig = field(default_factory=lambda: ClusterConfig("train-a"))

    def refreshed(self) -> Inventory:
        """The inventory after a sync began: the lists of an earlier one are no longer used."""
        self.inventory.provider_status(self.config, [self.group])
        return self.inventory

    def serving(self) -> list[str]:
        return [one.instance_id for one in self.inventory.serving_instances(self.config, self.group)]


@pytest.fixture(params=["fake", "ec2", "hyperpod"])
def world(request: pytest.FixtureRequest, clients: Clients) -> Iterator[World]:
    if request.param == "fake":
        yield in_memory()
    elif request.param == "hyperpod":
        yield from on_hyperpod()
    elif ON_MOTO:
        request.getfixturevalue("_moto_lists_refreshes_and_topology")
        yield on_ec2(clients)
    else:
        pytest.skip("only moto has the compute services")


def in_memory() -> World:
    fleet = FakeFleet(ManualClock(datetime.now(UTC)), launch_delay=timedelta(0))
    instances = [fleet.launch("gpu") for _ in range(2)]
    fake = FakeInventory(fleet)
    return World(
        fake,
        "gpu",
        instances,
        suspend=fake.standby.add,
        terminate=fleet.terminate,
        resize=lambda size: fake.desired.update(gpu=size),
        opt_out=fake.opted_out_instances.add,
    )


def on_ec2(clients: Clients) -> World:
    group, instances = group_of(clients)

    def stand_by(instance: str) -> None:
        clients.autoscaling.enter_standby(
            AutoScalingGroupName=group, InstanceIds=[instance], ShouldDecrementDesiredCapacity=True
        )

    def resize(size: int) -> None:
        from moto.autoscaling.models import autoscaling_backends  # a hundred megabytes
        from moto.core import DEFAULT_ACCOUNT_ID

        # Through the service, moto would start the instances at once.
        backend = autoscaling_backends[DEFAULT_ACCOUNT_ID][REGION]
        backend.autoscaling_groups[group].desired_capacity = size

    return World(
        Ec2Inventory(clients),
        group,
        instances,
        suspend=stand_by,
        terminate=lambda instance: clients.ec2.terminate_instances(InstanceIds=[instance]),
        resize=resize,
        opt_out=lambda instance: clients.ec2.create_tags(
            Resources=[instance], Tags=[{"Key": OPT_OUT_TAG, "Value": "true"}]
        ),
    )


def on_hyperpod() -> Iterator[World]:
    with hyperpod(ManualClock(datetime.now(UTC)), 2, AT_ONCE) as (sagemaker, cluster):

        def update(instance: str) -> None:
            node = next(one for one in cluster.nodes.values() if one.instance_id == instance)
            cluster.nodes[node.slot] = replace(node, status="SystemUpdating")

        yield World(
            HyperPodInventory(sagemaker),
            GROUP,
            [one.instance_id for one in cluster.current()],
            suspend=update,
            terminate=lambda instance: list(cluster.replace([instance])),
            resize=lambda size: cluster.desired.update({GROUP: size}),
            config=ClusterConfig("train-a", provider="hyperpod", hyperpod_cluster=NAME),
        )


@pytest.fixture
def _moto_lists_refreshes_and_topology(monkeypatch: pytest.MonkeyPatch) -> None:
    (refreshes,) = (one for one in auto_scaling.GAPS if one.name == "instance_refreshes")
    calls = [f"{verb}_instance_refresh" for verb in ("start", "cancel")] + ["describe_instance_refreshes"]
    for gap, methods in ((refreshes, calls), (ec2.INSTANCE_TOPOLOGY, ["describe_instance_topology"])):
        for method in methods:
            monkeypatch.setattr(patching.resolve(gap.private_names[0]), method, None, raising=False)
        gap.apply()


class TestInventory:
    def test_the_members_of_a_group_are_listed_and_a_group_that_does_not_exist_is_left_out(self, world: World) -> None:
        found = world.inventory.list_members(world.config, {world.group, NOWHERE})
        assert list(found) == [world.group]
        assert sorted(found[world.group]) == sorted(world.instances)
        assert all(name == one.instance_id and one.serving for name, one in found[world.group].items())

    def test_an_instance_that_does_not_serve_stays_a_member(self, world: World) -> None:
        first, second = world.instances
        world.suspend(first)
        members = world.refreshed().list_members(world.config, [world.group])[world.group]
        assert {name: one.serving for name, one in members.items()} == {first: False, second: True}
        assert world.serving() == [second]
        status = world.inventory.provider_status(world.config, [world.group]).groups[world.group]
        by_provider = isinstance(
            world.inventory, HyperPodInventory
        )  # in standby, an operator keeps it out of its group
        assert status.occupied == (frozenset({first}) if by_provider else frozenset())

    def test_the_serving_instances_of_an_unknown_group_are_refused(self, world: World) -> None:
        with pytest.raises(Rejected, match=NOWHERE) as refused:
            world.inventory.serving_instances(world.config, NOWHERE)
        assert refused.value.reason == "unknown_group"

    def test_members_are_described_by_name_with_their_group_type_zone_and_launch(self, world: World) -> None:
        members = world.inventory.list_members(world.config, [world.group])[world.group]
        found = world.inventory.describe(world.config, world.group, members)
        assert sorted(one.instance_id for one in found) == sorted(world.instances)
        assert [one.name for one in found] == sorted(one.name for one in found)
        for one in found:
            assert one.names
            assert all(one.names)
            assert one.group == world.group
            assert one.instance_type
            assert one.launched_at is not None
            assert not one.opted_out

    def test_only_the_given_members_are_described(self, world: World) -> None:
        first, _ = world.instances
        members = world.inventory.list_members(world.config, [world.group])[world.group]
        found = world.inventory.describe(world.config, world.group, {first: members[first]})
        assert [one.instance_id for one in found] == [first]
        assert world.inventory.describe(world.config, world.group, {}) == ()

    def test_names_of_two_instances_differ(self, world: World) -> None:
        first, second = world.inventory.serving_instances(world.config, world.group)
        assert not {*first.names} & {*second.names}

    def test_terminated_and_unknown_instances_are_gone(self, world: World) -> None:
        first, second = world.instances
        assert world.inventory.gone(world.config, world.instances) == frozenset()
        world.terminate(first)
        assert world.refreshed().gone(world.config, [first, second, UNKNOWN]) == {first, UNKNOWN}
        assert world.inventory.gone(world.config, []) == frozenset()

    def test_only_an_instance_with_the_tag_is_opted_out(self, world: World) -> None:
        first, _ = world.instances
        assert not set(world.inventory.opted_out(world.config)) & {*world.instances}
        if world.opt_out is None:
            pytest.skip("HyperPod's instances have no tags")
        world.opt_out(first)
        assert set(world.inventory.opted_out(world.config)) & {*world.instances} == {first}

    def test_no_automation_repairs_nodes_here_and_a_setting_names_what_changes_it(self, world: World) -> None:
        setting = world.inventory.repairs_nodes(world.config)
        assert setting is None or (setting.repairs is False and setting.change)
        assert world.inventory.provider_status(world.config, [world.group]).repair == setting

    def test_the_status_has_each_group_that_exists_with_its_desired_size(self, world: World) -> None:
        groups = world.inventory.provider_status(world.config, [world.group, NOWHERE]).groups
        assert groups == {world.group: GroupStatus(2, complete=True)}

    def test_a_group_without_all_its_instances_is_not_complete(self, world: World) -> None:
        world.resize(3)
        groups = world.inventory.provider_status(world.config, [world.group]).groups
        assert groups == {world.group: GroupStatus(3, complete=False)}
