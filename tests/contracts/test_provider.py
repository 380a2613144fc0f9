"""The Provider port: one set of tests for the fake, EC2, HyperPod, Karpenter and ParallelCluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.ec2.auto_scaling import AutoScalingProvider
from faultbridge.adapters.ec2.launch import FleetLauncher, LaunchTemplateProvider
from faultbridge.adapters.hyperpod.provider import HyperPodProvider
from faultbridge.adapters.kubernetes.karpenter import KarpenterProvider, instance_in
from faultbridge.adapters.slurm.fleets import ParallelClusterProvider, SlurmRecords
from faultbridge.decode.slurm import SlurmNode
from faultbridge.local.gaps import ec2, patching, systems_manager
from faultbridge.model.cluster.config import CapacitySource, ClusterConfig
from faultbridge.model.errors import Misconfigured
from faultbridge.record.ports.compute import Capacity, CapacityEvidence, LaunchRequest, Provider
from faultbridge.record.ports.presence import CheckResult, InstanceChecks, Presence
from tests.contracts.aws import ON_MOTO, fresh
from tests.contracts.provider import IMAGE, LONG_AGO, SIZE, group_of
from tests.hyperpod import AT_ONCE, GROUP, api, hyperpod
from tests.karpenter import POOL, advance, karpenter_cluster
from tests.parallelcluster import CLUSTER_TAG, TAGS, ClusterManager
from tests.sim.fakes import FakeFleet, FakeProvider, ManualClock
from tests.slurm import SlurmInMemory


@dataclass
class World:
    """A group of two instances, and the provider."""

    provider: Provider
    group: str
    instances: list[str]
    group_launches_successor: bool = True
    settle: Callable[[], object] = lambda: None


@pytest.fixture(params=["fake", "slow-fake", "autoscaling", "template", "hyperpod", "karpenter", "parallelcluster"])
def world(request: pytest.FixtureRequest, clients: Clients) -> Iterator[World]:
    if request.param in {"fake", "slow-fake"}:
        time = ManualClock(datetime.now(UTC))
        fleet = FakeFleet(time, launch_delay=timedelta(0))
        provider = FakeProvider(fleet)
        provider.release_delay = timedelta(minutes=5 if request.param == "slow-fake" else 0)
        provider.known_capacity = Capacity(CapacityEvidence.ABSENT)
        provider.capacities[CapacitySource.ON_DEMAND] = Capacity()
        instances = [fleet.launch("gpu") for _ in range(SIZE)]

        def finish() -> None:
            time.advance(provider.release_delay)
            provider.probe(instances[0])

        yield World(provider, "gpu", instances, settle=finish)
        return
    if request.param == "hyperpod":
        with hyperpod(ManualClock(datetime.now(UTC)), SIZE, AT_ONCE) as (sagemaker, cluster):
            yield World(HyperPodProvider(api(sagemaker)), GROUP, [one.instance_id for one in cluster.current()])
        return
    if not ON_MOTO:
        pytest.skip("only moto has the compute services")
    if request.param == "karpenter":
        clock = ManualClock(datetime.now(UTC))
        with karpenter_cluster(clients, clock, SIZE, replicas=SIZE, disruption={}) as karpenter:
            provider = KarpenterProvider(clients, karpenter.cluster.name, clock.now)

            instances = [instance_in(one) or "" for one in karpenter.claims.values()]
            yield World(provider, POOL, instances, settle=lambda: advance(clock, karpenter))
        return
    if request.param == "parallelcluster":
        yield parallel_cluster_of(clients)
        return
    if request.param == "template":
        yield World(LaunchTemplateProvider(clients), *template_of(clients), group_launches_successor=False)
        return
    yield World(AutoScalingProvider(clients), *group_of(clients))


def template_of(clients: Clients) -> tuple[str, list[str]]:
    name = fresh("template")
    clients.ec2.create_launch_template(
        LaunchTemplateName=name, LaunchTemplateData={"ImageId": IMAGE, "InstanceType": "p4d.24xlarge"}
    )
    launcher = FleetLauncher(clients, "a-stack")
    for number in range(SIZE):
        launcher.launch(LaunchRequest(ClusterConfig("train-a"), name, name, f"{name}-{number}"))
    found = clients.ec2.describe_instances(Filters=[{"Name": "tag:faultbridge:group", "Values": [name]}])
    return name, [one["InstanceId"] for each in found["Reservations"] for one in each["Instances"]]


def parallel_cluster_of(clients: Clients) -> World:
    """A compute resource of static nodes; its daemon starts another instance for one without an instance."""
    group, slurm = f"{fresh('cluster')}/queue1/gpu", SlurmInMemory()
    tags = [{"Key": key, "Value": value} for key, value in {**TAGS, CLUSTER_TAG: group.partition("/")[0]}.items()]
    names: list[str] = []

    def launch() -> tuple[str, str]:
        one = clients.ec2.run_instances(
            ImageId=IMAGE,
            InstanceType="p4d.24xlarge",
            MinCount=1,
            MaxCount=1,
            TagSpecifications=[{"ResourceType": "instance", "Tags": tags}],  # type: ignore[list-item]
        )["Instances"][0]
        names.append(one["InstanceId"])
        return one["PrivateIpAddress"], one["PrivateDnsName"]

    manager = ClusterManager(slurm, launch)
    for number in range(SIZE):
        manager.start(f"queue1-st-gpu-{number + 1}")

    # A further static node without an instance: a group that owes no successor has no empty list of candidates.
    slurm.nodes["queue1-st-gpu-9"] = SlurmNode("queue1-st-gpu-9", "IDLE+POWERED_DOWN", address="queue1-st-gpu-9")

    def loop() -> None:
        alive = [{"Name": "instance-state-name", "Values": ["running"]}, {"Name": "instance-id", "Values": names}]
        found = clients.ec2.describe_instances(Filters=alive)["Reservations"]  # type: ignore[arg-type]
        manager.loop({one["PrivateIpAddress"] for each in found for one in each["Instances"]})

    records = SlurmRecords(clients, lambda: slurm)  # type: ignore[arg-type, return-value]
    return World(ParallelClusterProvider(clients, records), group, list(names), settle=loop)


def reservation(name: str, free: int, **others: str) -> dict[str, Any]:
    """An open reservation for the instances of this module."""
    named = {"CapacityReservationId": name, "AvailableInstanceCount": free, "TotalInstanceCount": 8}
    placed = {"InstanceType": "p4d.24xlarge", "AvailabilityZone": "us-east-1a", "InstancePlatform": "Linux/UNIX"}
    state = {"State": "active", "InstanceMatchCriteria": "open", "Tenancy": "default"}
    return {**named, **placed, **state, **others}


SOON = timedelta(hours=1)


@pytest.fixture(autouse=True)
def _moto_lists_managed_instances_and_reservations(monkeypatch: pytest.MonkeyPatch) -> None:
    listing = patching.resolve(ec2.CAPACITY_RESERVATIONS.private_names[0])
    monkeypatch.setattr(listing, "describe_capacity_reservations", None, raising=False)
    ec2.CAPACITY_RESERVATIONS.apply()
    monkeypatch.setattr(ec2, "RESERVATIONS", [])
    for gap in systems_manager.GAPS:
        if gap.name == "managed_instances":
            monkeypatch.setattr(
                patching.resolve(gap.private_names[0]), "describe_instance_information", None, raising=False
            )
            gap.apply()


def _skip_without_successors(world: World) -> None:
    if not world.group_launches_successor:
        pytest.skip("the group launches no successor")


class TestProvider:
    def test_a_running_instance_is_alive(self, world: World) -> None:
        assert world.provider.probe(world.instances[0]) is Presence.ALIVE

    def test_an_unknown_instance_is_gone(self, world: World) -> None:
        assert world.provider.probe("i-0123456789abcdef0").is_gone

    def test_no_check_of_a_healthy_instance_fails(self, world: World) -> None:
        found = world.provider.checks(world.instances[0])
        assert CheckResult.FAILED not in {found.system, found.instance, found.agent}

    def test_every_check_of_an_unknown_instance_is_unknown(self, world: World) -> None:
        assert world.provider.checks("i-0123456789abcdef0") == InstanceChecks()

    def test_each_source_of_capacity_has_an_answer_and_on_demand_is_never_promised(self, world: World) -> None:
        found = {one: world.provider.capacity(one, world.instances[0], world.group) for one in CapacitySource}
        assert all(one.evidence is not CapacityEvidence.SPARE for one in found.values())
        expected = CapacityEvidence.NONE if world.group_launches_successor else CapacityEvidence.LAUNCH_FIRST
        assert found[CapacitySource.ON_DEMAND].evidence is expected
        # No instance here runs in a reservation, a block or a plan.
        others = {one for source, one in found.items() if source is not CapacitySource.ON_DEMAND}
        assert {one.evidence for one in others} == {CapacityEvidence.ABSENT}

    def test_an_open_reservation_of_the_type_and_zone_counts_with_its_free_instances(self, world: World) -> None:
        source = CapacitySource.OPEN_RESERVATION
        if isinstance(world.provider, HyperPodProvider):
            pytest.skip("HyperPod's instances use no reservation of the account")
        if isinstance(world.provider, FakeProvider):
            world.provider.capacities[source] = Capacity(CapacityEvidence.RESERVATION, count=2)
        ec2.RESERVATIONS += [
            reservation("cr-open", free=2),
            reservation("cr-elsewhere", free=4, AvailabilityZone="us-east-1c"),
            reservation("cr-other-type", free=4, InstanceType="p5.48xlarge"),
            reservation("cr-targeted", free=4, InstanceMatchCriteria="targeted"),
            reservation("cr-ended", free=4, State="expired"),
        ]
        found = world.provider.capacity(source, world.instances[0], world.group)
        assert (found.evidence, found.free, found.count) == (CapacityEvidence.RESERVATION, True, 2)

    def test_a_group_that_launches_no_successor_has_no_candidates(self, world: World) -> None:
        assert bool(world.provider.candidates(world.group, LONG_AGO)) is world.group_launches_successor

    def test_the_running_instances_of_a_group_are_candidates_oldest_first(self, world: World) -> None:
        _skip_without_successors(world)
        found = world.provider.candidates(world.group, LONG_AGO)
        assert sorted(each.instance_id for each in found) == sorted(world.instances)
        assert [each.launched_at for each in found] == sorted(each.launched_at for each in found)
        assert all(each.instance_type and each.private_dns and each.running for each in found)

    def test_an_instance_launched_in_the_same_second_is_a_candidate(self, world: World) -> None:
        _skip_without_successors(world)
        (first, *_) = world.provider.candidates(world.group, LONG_AGO)
        assert first in world.provider.candidates(world.group, first.launched_at + timedelta(milliseconds=900))

    def test_instances_launched_earlier_are_no_candidates(self, world: World) -> None:
        assert world.provider.candidates(world.group, datetime.now(UTC) + SOON) == ()

    def test_a_replaced_instance_is_gone(self, world: World) -> None:
        answer = world.provider.replace(world.instances[0], "token")
        assert answer.ok or answer.since
        world.settle()
        assert [world.provider.probe(each) for each in world.instances[:2]] == [Presence.GONE, Presence.ALIVE]

    def test_the_group_of_a_replaced_instance_launches_a_successor(self, world: World) -> None:
        _skip_without_successors(world)
        world.provider.replace(world.instances[0], "token")
        world.settle()
        found = {each.instance_id for each in world.provider.candidates(world.group, LONG_AGO)}
        assert world.instances[0] not in found
        assert world.instances[1] in found
        assert len(found) == SIZE

    def test_a_missing_auto_scaling_group_is_misconfigured(self, world: World) -> None:
        _skip_without_successors(world)
        with pytest.raises(Misconfigured, match="nowhere"):
            world.provider.candidates("nowhere", LONG_AGO)
