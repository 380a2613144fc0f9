"""EC2 with EKS, by launch template or Auto Scaling group: drained through a Kubernetes API, verified, put to work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.kubernetes.nodes import ISOLATED
from faultbridge.adapters.kubernetes.orchestrator import EksOrchestrator
from faultbridge.local.kubernetes.cluster import Pod, RunningInstance, takes_work
from faultbridge.model.enums import CaseStatus, Isolation, NodeStatus, Resolution
from faultbridge.repair.registry.registration import Registration
from tests.contracts.aws import aws
from tests.contracts.schedulers import eks_cluster
from tests.kubernetes import FullCluster
from tests.scenarios.world import CLUSTER, GROUP, ScenarioPorts, World
from tests.sim.fakes import ManualClock
from tests.sim.fakes.fleet import host_name

FIRST, SECOND = (f"i-{number:017x}" for number in (1, 2))
EKS, AUTO_SCALING, TEMPLATE = "eks", "ec2-auto-scaling", "ec2-launch-template"


class OnEks(World):
    """One node of a provider; each running instance joins a Kubernetes cluster under its host name."""

    def __init__(self, clients: Clients, kubernetes: FullCluster, provider: str) -> None:
        self.eks_clients, self.kubernetes = clients, kubernetes
        super().__init__()
        if provider == TEMPLATE:
            self.launch_from_template("p5.48xlarge")
        parts = {"orchestrator": EKS, "eks_cluster": kubernetes.name}
        Registration(self.table, self.append, self.clock).set_cluster(CLUSTER, parts)
        self.join_nodes()

    def connect(self, ports: ScenarioPorts) -> None:
        ports.orchestrators = {EKS: EksOrchestrator(self.eks_clients, self.clock)}
        ports.volume_attachments = {EKS: self.volume_attachments}

    def join_nodes(self) -> None:
        self.kubernetes.now = self.clock.now
        running = [one.instance_id for one in self.fleet.running(GROUP)]
        self.kubernetes.sync([RunningInstance(one, host_name(one)) for one in running])

    def takes_work(self, instance: str) -> bool:
        return takes_work(self.kubernetes.node(host_name(instance)))


@pytest.fixture(scope="module")
def clients() -> Iterator[Clients]:
    with aws() as made:
        yield made


@contextmanager
def on_eks(clients: Clients, provider: str) -> Iterator[OnEks]:
    with eks_cluster(clients, ManualClock()) as kubernetes:
        yield OnEks(clients, kubernetes, provider)


@pytest.mark.parametrize(("provider", "at_release"), [(TEMPLATE, [FIRST, SECOND]), (AUTO_SCALING, [FIRST])])
def test_a_node_is_drained_and_replaced_and_its_successor_is_verified_before_it_takes_work(
    clients: Clients, provider: str, at_release: list[str]
) -> None:
    with on_eks(clients, provider) as world:
        alive: list[list[str]] = []
        world.seam.before = lambda call: (
            alive.append(world.live_instances()) if call.name == "provider.replace" else None
        )
        replace_first(world)
        assert alive == [at_release]  # only a launch template launches the successor first


def replace_first(world: OnEks) -> None:
    """Let the node fail, and check what Kubernetes sees until its successor serves."""
    world.kubernetes.start(Pod("ml", "job-0", host_name(FIRST), grace_seconds=300))
    world.fault_and_react()
    assert (world.node().isolation, world.takes_work(FIRST)) == (Isolation.CONFIRMED, False)
    world.advance_minutes(2)
    assert world.live_instances() == [FIRST]  # the pod has not ended yet
    world.until(lambda: world.status() is NodeStatus.VALIDATING)
    assert [pod for pod in world.kubernetes.pods if pod.up] == []
    world.until(lambda: "verify begun" in world.record_history())
    assert not world.takes_work(SECOND)
    world.until(world.case_is(CaseStatus.RESOLVED))
    assert (world.status(), world.case().resolution) == (NodeStatus.HEALTHY, Resolution.REPLACED)
    assert world.live_instances() == [SECOND]
    assert world.takes_work(SECOND)
    assert ISOLATED not in world.kubernetes.node(host_name(SECOND))["metadata"]["labels"]
    history = world.record_history()
    assert history.index("drain drained") < history.index("intent committed")
