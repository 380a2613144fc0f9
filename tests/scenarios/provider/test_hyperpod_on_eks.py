"""HyperPod with EKS: drained through a Kubernetes API, replaced by SageMaker, verified, and put back to work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta

import pytest

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.hyperpod.volumes import HyperPodVolumes
from faultbridge.adapters.kubernetes.nodes import ISOLATED
from faultbridge.adapters.kubernetes.orchestrator import EksVolumeAttachments
from faultbridge.local.hyperpod import CHECKING, RUNNING
from faultbridge.local.kubernetes.cluster import Pod
from faultbridge.model.cluster.config import HYPERPOD
from faultbridge.model.enums import CaseStatus, Isolation, NodeStatus, Resolution
from faultbridge.model.policy import Rule
from faultbridge.model.values import replace
from tests.contracts.aws import ON_MOTO, aws
from tests.contracts.builders import ZONE, launch, move_through_sagemaker, volume_on
from tests.hyperpod import api
from tests.scenarios.provider.builders import SYSTEM_UPDATING, OnEks, name
from tests.scenarios.provider.hyperpod import DEEP, requests
from tests.scenarios.world import ScenarioPorts, limits

UP = frozenset({RUNNING, CHECKING, SYSTEM_UPDATING})


@pytest.fixture(scope="module")
def clients() -> Iterator[Clients]:
    with aws() as made:
        yield made


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


def test_a_node_is_cordoned_drained_replaced_verified_and_uncordoned(stack: ExitStack, clients: Clients) -> None:
    world = OnEks(stack, clients, nodes=2)
    world.join_nodes()
    first, other = world.instance(), world.instance(2)
    world.kubernetes.start(Pod("ml", "job-0", name(first), grace_seconds=300))
    world.fault_and_react()
    assert (world.node().isolation, world.takes_work(first)) == (Isolation.CONFIRMED, False)
    assert world.takes_work(other)
    world.advance_minutes(2)
    assert requests(world, "replace") == []  # the pod has not ended yet
    world.until(lambda: requests(world, "replace") == [first])
    assert not [pod for pod in world.kubernetes.pods if pod.node == name(first) and pod.up]
    world.until(world.case_is(CaseStatus.RESOLVED))
    second = world.instance()
    assert second == world.backing() != first
    assert (world.status(), world.case().resolution) == (NodeStatus.HEALTHY, Resolution.REPLACED)
    assert world.takes_work(second)
    assert ISOLATED not in world.kubernetes.node(name(second))["metadata"]["labels"]
    assert world.takes_work(other)
    history = world.record_history()
    assert "drain drained" in history
    assert history.index("drain drained") < history.index("intent committed")


def test_the_successor_gets_no_work_until_its_check_has_passed(stack: ExitStack, clients: Clients) -> None:
    world = OnEks(stack, clients, nodes=1, rules=(DEEP,), limits=limits(verify_deadline=timedelta(hours=8)))
    world.join_nodes()
    first = world.instance()
    world.fault_and_react()
    world.until(lambda: world.instance() != first)
    world.until(lambda: "check" in [action for action, _ in world.cluster.requests])
    world.advance_minutes()
    assert not world.takes_work(world.backing())
    world.until(world.case_is(CaseStatus.RESOLVED), 900)
    assert world.takes_work(world.instance())


def test_a_refusal_for_one_node_of_two_leaves_the_other_repair_alone(stack: ExitStack, clients: Clients) -> None:
    world = OnEks(stack, clients, nodes=2, limits=limits(concurrent=2))
    world.join_nodes()
    first, busy = world.instance(), world.instance(2)
    slot = world.node(2).placement.slot
    assert slot is not None
    world.cluster.nodes[slot] = replace(world.cluster.nodes[slot], status=SYSTEM_UPDATING)
    for number in (1, 2):
        world.fault_and_react(number)
    world.until(world.case_is(CaseStatus.RESOLVED))
    assert world.case().resolution is Resolution.REPLACED
    assert requests(world, "replace") == [first]
    assert world.instance(2) == busy == world.backing(2)
    assert world.status(2) is not NodeStatus.HEALTHY


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
