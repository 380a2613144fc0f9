"""Volumes of HyperPod nodes on EKS: the storage driver detaches its own, then SageMaker's two calls move the others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from faultbridge.adapters.hyperpod.volumes import HyperPodVolumes
from faultbridge.adapters.kubernetes.orchestrator import EksVolumeAttachments
from faultbridge.model.cluster.config import HYPERPOD
from faultbridge.model.enums import CaseStatus, NodeStatus
from faultbridge.model.policy import Rule
from faultbridge.model.values import replace
from tests.contracts.aws import ON_MOTO, aws
from tests.contracts.builders import ZONE, launch, move_through_sagemaker, volume_on
from tests.hyperpod import api
from tests.scenarios.provider.builders import OnEks, name
from tests.scenarios.provider.hyperpod import requests
from tests.scenarios.world import ScenarioPorts

RELEASE = Rule("release", release_without_capacity=True)


class WithVolumes(OnEks):
    """HyperPod nodes on EKS whose instances and volumes moto has; the policy moves the volumes named `data`."""

    def connect(self, ports: ScenarioPorts) -> None:
        super().connect(ports)
        move_through_sagemaker(self.clients, self.eks_clients)
        mover = HyperPodVolumes(self.eks_clients, api(self.clients))
        mover._clients = self.clients  # the calls to SageMaker reach the fake, those to EC2 reach moto
        ports.volumes = {HYPERPOD: mover}
        ports.volume_attachments = {"eks": EksVolumeAttachments(self.eks_clients)}

    def place_of(self, volume: str) -> list[str]:
        """The instances that a volume is attached to."""
        (found,) = self.eks_clients.ec2.describe_volumes(VolumeIds=[volume])["Volumes"]
        return [one["InstanceId"] for one in found["Attachments"]]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[WithVolumes]:
    if not ON_MOTO:
        pytest.skip("only moto has the compute services")
    with aws() as clients, ExitStack() as stack:
        monkeypatch.setattr("faultbridge.local.hyperpod._instance_id", lambda: launch(clients, ZONE))
        made = WithVolumes(stack, clients, nodes=2, rules=(RELEASE,))
        made.policy = replace(made.policy, volumes=("data",))
        made.join_nodes()
        yield made


def test_a_volume_moves_to_the_successor_after_the_storage_driver_has_detached_its_own(world: WithVolumes) -> None:
    first = str(world.instance())
    volume = volume_on(world.eks_clients, first, "data")
    world.kubernetes.attached_volumes["pv-checkpoints"] = name(first)
    world.fault_and_react(minutes=3)
    assert (world.place_of(volume), requests(world, "replace")) == ([first], [])
    world.kubernetes.attached_volumes.clear()
    world.until(world.case_is(CaseStatus.RESOLVED))
    second = str(world.instance())
    assert second == world.backing() != first
    assert (world.status(), world.place_of(volume)) == (NodeStatus.HEALTHY, [second])
    assert world.takes_work(second)
    history = world.record_history()
    order = ["drain drained", "detach_volumes detached", "intent committed", "verify passed", "attach_volumes attached"]
    assert [one for one in history if one in order] == order
    assert requests(world, "replace") == [first]


def test_an_instance_is_not_replaced_while_the_storage_driver_keeps_a_volume(world: WithVolumes) -> None:
    first = str(world.instance())
    volume = volume_on(world.eks_clients, first, "data")
    world.kubernetes.attached_volumes["pv-checkpoints"] = name(first)
    world.fault_and_react()
    world.until(world.case_is(CaseStatus.ESCALATED), 24 * 60)
    assert "VOLUMES" in world.case().reason
    assert "pv-checkpoints" in world.case().reason
    assert (world.place_of(volume), requests(world, "replace")) == ([first], [])
