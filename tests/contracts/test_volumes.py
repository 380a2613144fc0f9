"""The Volumes port: the same tests for the fake, EC2, and HyperPod on EKS; and the volume attachments of EKS."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from unittest import mock

import pytest
from botocore.stub import Stubber

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.ec2.volumes import Ec2Volumes
from faultbridge.adapters.hyperpod.volumes import HyperPodVolumes
from faultbridge.adapters.kubernetes.orchestrator import EksVolumeAttachments
from faultbridge.model.enums import ProviderFailure
from faultbridge.model.nodes import VOLUME_TAG
from faultbridge.model.values import replace
from faultbridge.record.ports.orchestrator import ClusterNode, VolumeAttachments, Volumes
from tests.adapters.stubs import client_error, stubbed
from tests.contracts.aws import ON_MOTO
from tests.contracts.builders import DEVICE, OTHER_ZONE, ZONE, launch, move_through_sagemaker, volume_on
from tests.contracts.provider import IMAGE
from tests.contracts.schedulers import InMemory, on_eks
from tests.hyperpod import AT_ONCE, api, hyperpod
from tests.sim.fakes import FakeFleet, FakeVolumeAttachments, FakeVolumes, ManualClock


@dataclass
class World:
    """Two instances in one zone, a third one in another zone, and what moves volumes between them."""

    volumes: Volumes
    instances: list[str]
    add: Callable[[str, str | None], str]
    remove_tag: Callable[[str], object]
    wait: Callable[[], object]
    keeps_devices: bool = True


@pytest.fixture(params=["fake", "ec2", "hyperpod"])
def world(request: pytest.FixtureRequest, clients: Clients) -> Iterator[World]:
    if request.param == "fake":
        yield in_memory()
        return
    if not ON_MOTO:
        pytest.skip("only moto has the compute services")
    instances = [launch(clients, zone) for zone in (ZONE, ZONE, OTHER_ZONE)]

    def untag(volume: str) -> None:
        clients.ec2.delete_tags(Resources=[volume], Tags=[{"Key": VOLUME_TAG}])

    if request.param == "ec2":
        yield World(Ec2Volumes(clients), instances, lambda *given: volume_on(clients, *given), untag, lambda: None)
        return
    with hyperpod(ManualClock(datetime.now(UTC)), 3, AT_ONCE) as (sagemaker, cluster):
        for (slot, node), instance in zip(list(cluster.nodes.items()), instances, strict=True):
            cluster.nodes[slot] = replace(node, instance_id=instance)
        move_through_sagemaker(sagemaker, clients)
        mover = HyperPodVolumes(clients, api(sagemaker))
        mover._clients = sagemaker  # the calls to SageMaker reach the fake, those to EC2 reach moto
        yield World(
            mover, instances, lambda *given: volume_on(clients, *given), untag, lambda: None, keeps_devices=False
        )


def in_memory() -> World:
    clock = ManualClock(datetime.now(UTC))
    fleet = FakeFleet(clock)
    mover, instances = FakeVolumes(fleet), [fleet.launch("gpu") for _ in range(3)]
    mover.zones[instances[2]] = OTHER_ZONE
    return World(
        mover,
        instances,
        lambda instance, name: mover.add(instance, name or "", ZONE, DEVICE),
        lambda volume: setattr(mover.volumes[volume], "tagged", False),
        lambda: clock.advance(timedelta(minutes=1)),
    )


class TestVolumes:
    def test_only_volumes_with_a_given_tag_are_listed(self, world: World) -> None:
        first, second, _ = world.instances
        data = world.add(first, "data")
        world.add(first, "scratch")
        world.add(first, None)
        world.add(second, "data")
        (found,) = world.volumes.attached(first, ["data", "checkpoints"])
        assert (found.volume_id, found.zone) == (data, ZONE)
        attachment = found.on(first)
        assert attachment is not None
        assert attachment.state == "attached"
        assert attachment.device == (DEVICE if world.keeps_devices else None)
        assert world.volumes.attached(first, []) == ()

    def test_a_volume_moves_from_one_instance_to_another(self, world: World) -> None:
        first, second, _ = world.instances
        volume = world.add(first, "data")
        assert world.volumes.detach(volume, first).ok
        world.wait()
        (free,) = world.volumes.read([volume])
        assert free.attachments == ()
        assert world.volumes.attached(first, ["data"]) == ()
        assert world.volumes.attach(volume, second, DEVICE).ok
        world.wait()
        (moved,) = world.volumes.read([volume])
        attachment = moved.on(second)
        assert attachment is not None
        assert attachment.state == "attached"
        assert moved.on(first) is None

    def test_a_repeated_detach_is_harmless(self, world: World) -> None:
        first, _, _ = world.instances
        volume = world.add(first, "data")
        assert world.volumes.detach(volume, first).ok
        world.wait()
        assert world.volumes.detach(volume, first).ok

    def test_zones_of_instances_are_known(self, world: World) -> None:
        assert [world.volumes.zone_of(one) for one in world.instances] == [*zones_of(world)]
        assert world.volumes.zone_of("i-0123456789abcdef0") is None

    def test_a_volume_that_lost_its_tag_is_read_but_not_listed(self, world: World) -> None:
        first, _, _ = world.instances
        volume = world.add(first, "data")
        world.remove_tag(volume)
        (found,) = world.volumes.read([volume])
        assert not found.tagged
        assert found.on(first) is not None
        assert world.volumes.attached(first, ["data"]) == ()

    def test_a_volume_that_does_not_exist_is_not_read(self, world: World) -> None:
        volume = world.add(world.instances[0], "data")
        assert [(one.volume_id, one.tagged) for one in world.volumes.read([volume, "vol-0123456789abcdef0"])] == [
            (volume, True)
        ]

    def test_nothing_is_read_for_no_volume(self, world: World) -> None:
        assert world.volumes.read([]) == ()


def zones_of(world: World) -> tuple[str, str, str]:
    """The fake HyperPod has one zone."""
    return (ZONE, ZONE, OTHER_ZONE) if world.keeps_devices else (ZONE, ZONE, ZONE)


class TestEc2:
    @pytest.fixture(autouse=True)
    def _moto(self) -> None:
        if not ON_MOTO:
            pytest.skip("only moto has the compute services")

    def test_a_refused_detach_of_a_volume_without_the_tag_is_no_success(
        self, clients: Clients, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        instance = launch(clients, ZONE)
        volume = volume_on(clients, instance, None)
        refused = client_error("UnauthorizedOperation", operation="DetachVolume")
        monkeypatch.setattr(clients.ec2_no_retry, "detach_volume", mock.Mock(side_effect=refused))
        answer = Ec2Volumes(clients).detach(volume, instance)
        assert answer.failure is ProviderFailure.PERMISSION_DENIED

    def test_a_detach_is_never_forced(self) -> None:
        volume = {"VolumeId": "vol-1", "AvailabilityZone": ZONE, "Attachments": [{"InstanceId": "i-1"}]}
        with stubbed("ec2_no_retry") as (clients, stub), Stubber(clients.ec2) as ec2:
            ec2.add_response("describe_volumes", {"Volumes": [volume]})
            stub.add_response("detach_volume", {}, {"VolumeId": "vol-1", "InstanceId": "i-1"})
            assert Ec2Volumes(clients).detach("vol-1", "i-1").ok

    def test_the_zones_of_an_auto_scaling_group_are_known(self, clients: Clients) -> None:
        clients.ec2.create_launch_template(
            LaunchTemplateName="zones", LaunchTemplateData={"ImageId": IMAGE, "InstanceType": "p4d.24xlarge"}
        )
        clients.autoscaling.create_auto_scaling_group(
            AutoScalingGroupName="two-zones",
            LaunchTemplate={"LaunchTemplateName": "zones"},
            MinSize=0,
            MaxSize=1,
            AvailabilityZones=[ZONE, OTHER_ZONE],
        )
        assert Ec2Volumes(clients, of_groups=True).successor_zones("two-zones") == {ZONE, OTHER_ZONE}
        assert Ec2Volumes(clients).successor_zones("two-zones") == frozenset()


class TestVolumeAttachments:
    @pytest.fixture(params=["fake", "eks"])
    def attachments(
        self, request: pytest.FixtureRequest, clients: Clients
    ) -> Iterator[tuple[VolumeAttachments, ClusterNode, ClusterNode, Callable[[], object]]]:
        if request.param == "fake":
            fake, scheduler = FakeVolumeAttachments(), InMemory()
            fake.held[str(scheduler.member.instance_id)] = ("pvc-1",)
            yield fake, scheduler.member, scheduler.stranger, fake.held.clear
            return
        with on_eks(clients) as made:
            held = made.cluster.attached_volumes
            held |= {"pvc-1": made.NODE, "pvc-2": "another-node"}
            yield EksVolumeAttachments(clients), made.member, made.stranger, held.clear

    def test_volumes_remain_until_the_driver_has_detached_them(
        self, attachments: tuple[VolumeAttachments, ClusterNode, ClusterNode, Callable[[], object]]
    ) -> None:
        port, member, stranger, detach_all = attachments
        assert port.remaining(member) == ("pvc-1",)
        assert port.remaining(stranger) == ()
        detach_all()
        assert port.remaining(member) == ()
