"""Nodes of Karpenter: the NodeClaim is deleted once, and a successor is verified where work requires one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

import pytest

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.kubernetes.karpenter import KarpenterInventory, KarpenterProvider, instance_in
from faultbridge.adapters.kubernetes.orchestrator import EksOrchestrator
from faultbridge.local.gaps import ec2, patching
from faultbridge.local.kubernetes.cluster import Pod
from faultbridge.model.cluster.config import KARPENTER, CapacitySource, ClusterConfig, Mode, RepairOwner
from faultbridge.model.enums import CaseStatus, NodeStatus, Resolution, WaitingFor
from faultbridge.model.errors import Transient
from faultbridge.model.recorded import read_event
from faultbridge.record.ports.compute import CallResult, Capacity, LaunchedInstance
from faultbridge.repair.registry.inventory_sync import SyncInventory
from faultbridge.repair.registry.provider_check import ProviderCheck
from faultbridge.repair.registry.registration import NewNode, Registration
from faultbridge.repair.registry.replacement_detection import ReplacementDetection
from faultbridge.repair.registry.retirement import Retirement
from faultbridge.serve.pager.page import PageState
from faultbridge.serve.pager.rules import rules_for
from tests.contracts.aws import aws
from tests.karpenter import CONTROLLER, FakeKarpenter, deployment, karpenter_cluster, name_of
from tests.scenarios.provider.growth import RELEASE
from tests.scenarios.world import CLUSTER, GROUP, ScenarioPorts, World
from tests.sim.fakes import Call, Seam, raise_once

RESOLVED = CaseStatus.RESOLVED
CALLS = ("karpenter.replace", "karpenter.probe", "karpenter.capacity", "karpenter.candidates")


class SeamedProvider(KarpenterProvider):
    """The adapter, with a seam that loses answers of its calls."""

    seam = Seam()

    def replace(self, instance_id: str, token: str) -> CallResult:
        with self.seam.around(KARPENTER, "replace", (instance_id, token)):
            return super().replace(instance_id, token)

    def probe(self, instance_id: str) -> Any:
        with self.seam.around(KARPENTER, "probe", instance_id):
            return super().probe(instance_id)

    def capacity(self, source: CapacitySource, instance_id: str, group: str) -> Capacity:
        with self.seam.around(KARPENTER, "capacity", source):
            return super().capacity(source, instance_id, group)

    def candidates(self, group: str, launched_after: datetime) -> tuple[LaunchedInstance, ...]:
        with self.seam.around(KARPENTER, "candidates", group):
            return super().candidates(group, launched_after)


class OnKarpenter(World):
    """Nodes of one NodePool; a fake Kubernetes API and moto's EC2 are behind the real adapters."""

    def __init__(self, clients: Clients, **settings: Any) -> None:
        self.aws_clients, self.spec = clients, settings.pop("spec", {})
        super().__init__(**{"rules": (RELEASE,), **settings})

    @contextmanager
    def entered(self) -> Iterator[OnKarpenter]:
        with self.made:
            yield self

    def connect(self, ports: ScenarioPorts) -> None:
        self.made = karpenter_cluster(
            self.aws_clients,
            ports.clock,
            int(self.spec.pop("nodes", 1)),
            pool=GROUP,
            launched=lambda one: self.fleet.launch(GROUP, one),
            terminated=self.fleet.remove,
            **self.spec,
        )
        self.karpenter: FakeKarpenter = self.made.__enter__()
        name = self.karpenter.cluster.name
        self.karpenter_provider = SeamedProvider(self.aws_clients, name, ports.clock.now)
        self.karpenter_provider.seam = Seam()
        ports.providers[KARPENTER] = self.karpenter_provider  # type: ignore[assignment]
        ports.orchestrators = {"eks": EksOrchestrator(self.aws_clients, self.clock)}  # type: ignore[dict-item]

    def _register(self, nodes: int, mode: Mode, nodes_per_shard: int) -> None:
        del nodes, nodes_per_shard
        self.registration = Registration(self.table, self.append, self.clock)
        config = ClusterConfig(
            CLUSTER,
            provider=KARPENTER,
            orchestrator="eks",
            eks_cluster=self.karpenter.cluster.name,
            repair_owner=RepairOwner.FAULTBRIDGE,
            mode=mode,
        )
        self.registration.add_cluster(config)
        since = self.clock.now() - timedelta(days=1)
        for number, claim in enumerate(self.karpenter.claims.values(), 1):
            node = NewNode(f"node-{number}", instance_in(claim), GROUP, "p5.48xlarge", since=since)
            self.registration.add_node(CLUSTER, node)
        self.process_entries()

    def join_nodes(self) -> None:
        self.karpenter.reconcile()

    def run_job(self, **settings: Any) -> None:
        """Run a pod of a job on the first node; its controller starts it again after an eviction."""
        node = name_of(self.karpenter.cluster, self.instance())
        self.karpenter.cluster.start(Pod("ml", "job-0", node, {"app": "train"}, **settings))

    def job_runs_on(self) -> list[str]:
        return [one.node for one in self.karpenter.cluster.running() if one.up and one.owner == "Job"]

    def run_inventory(self) -> None:
        self.karpenter.deployments[CONTROLLER] = deployment("NodeRepair=false")
        inventories = {KARPENTER: KarpenterInventory(self.aws_clients)}
        check = ProviderCheck(inventories, self.rollup, self.clock, self.registration)
        detection = ReplacementDetection(self.table, self.append, self.rulebook)
        retire = Retirement(self.table, self.append, self.rulebook)
        sync = SyncInventory(self.table, self.registration, detection, inventories, check, retire)
        result = sync.sync(self.registration.cluster(CLUSTER))
        assert result.source_errors == []
        self.process_entries()

    def pages(self) -> list[str]:
        rules = [rule for body in self.bodies() for rule in rules_for(read_event(body))]
        return [rule.kind for rule in rules if rule.state is PageState.TRIGGERED and rule.kind != "opened"]


@pytest.fixture(scope="module")
def clients() -> Iterator[Clients]:
    with aws() as made:
        yield made


@pytest.fixture(autouse=True)
def _moto_lists_topologies(monkeypatch: pytest.MonkeyPatch) -> None:
    response = patching.resolve(ec2.RESPONSE)
    monkeypatch.setattr(response, "describe_instance_topology", None, raising=False)
    ec2.INSTANCE_TOPOLOGY.apply()


@contextmanager
def on_karpenter(clients: Clients, **settings: Any) -> Iterator[OnKarpenter]:
    world = OnKarpenter(clients, **settings)
    try:
        yield world
    finally:
        world.made.__exit__(None, None, None)


def check_replaced(world: OnKarpenter, old: str) -> None:
    """Check that the instance was replaced once, by another instance of the NodePool that runs the job.

    If Karpenter launched an instance for the evicted pods before the deletion, none was owed for the deletion, and the
    inventory attaches this one.
    """
    if world.case().resolution is Resolution.RELEASED_NO_DEMAND:
        world.run_inventory()
        world.until(lambda: world.status() is NodeStatus.HEALTHY)
        assert world.case().resolution is Resolution.EXTERNAL
    else:
        assert (world.status(), world.case().resolution) == (NodeStatus.HEALTHY, Resolution.REPLACED)
    assert len(world.karpenter.deletions) == 1
    assert world.instance() != old
    (claim,) = world.karpenter.claims.values()
    assert (instance_in(claim), world.live_instances()) == (world.instance(), [world.instance()])
    assert world.control().holders == {}
    world.advance_minutes(3)
    assert world.job_runs_on() == [name_of(world.karpenter.cluster, world.instance())]


def test_a_faulty_node_is_drained_its_claim_deleted_once_and_the_job_continues_on_the_verified_successor(
    clients: Clients,
) -> None:
    with on_karpenter(clients) as world:
        world.run_job()
        old = world.instance()
        world.fault_until_resolved()
        check_replaced(world, old)
        history = world.record_history()
        assert history.index("drain drained") < history.index("intent committed")


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("call", CALLS)
def test_a_lost_call_or_answer_of_the_provider_deletes_no_second_claim(
    clients: Clients, call: str, moment: str
) -> None:
    with on_karpenter(clients) as world:
        world.run_job()
        old = world.instance()
        setattr(world.karpenter_provider.seam, moment, raise_once((call, Transient("the answer was lost"))))
        world.fault_until_resolved()
        check_replaced(world, old)


def test_every_answer_of_the_provider_that_is_lost_once_deletes_no_second_claim(clients: Clients) -> None:
    with on_karpenter(clients, spec={"replicas": 1}) as world:
        world.run_job()
        old, lost = world.instance(), set[str]()

        def lose_once(call: Call) -> None:
            if call.name not in lost:
                lost.add(call.name)
                raise Transient(call.name)

        world.karpenter_provider.seam.after = lose_once
        world.fault_until_resolved()
        check_replaced(world, old)
        assert lost == set(CALLS)


def test_a_deletion_that_arrives_late_and_twice_deletes_no_claim_of_the_successor(clients: Clients) -> None:
    with on_karpenter(clients) as world:
        world.run_job()
        old = world.instance()
        (claim,) = [dict(one) for one in world.karpenter.claims.values()]
        world.fault_until_resolved()
        answer = world.karpenter_provider.replace(old, "token")
        assert answer.failure == "NOT_FOUND"
        # The same request, delivered again by the network: the name is gone, and its UID belongs to no other claim.
        (successor,) = world.karpenter.claims
        with pytest.raises(Exception, match="UID in precondition"):
            world.karpenter.delete_claim(successor, {"preconditions": {"uid": claim["metadata"]["uid"]}})
        check_replaced(world, old)


def test_a_node_that_no_work_requires_is_released_its_case_closes_and_its_node_is_retired(clients: Clients) -> None:
    with on_karpenter(clients) as world:
        world.fault_until_resolved()
        assert (world.status(), world.case().resolution) == (NodeStatus.PROVISIONING, Resolution.RELEASED_NO_DEMAND)
        assert (world.live_instances(), world.karpenter.claims, world.control().holders) == ([], {}, {})
        for _ in range(8):
            world.run_inventory()
            world.advance_minutes(5)
        assert (world.status(), world.pages()) == (NodeStatus.RETIRED, [])
        assert world.registration.cluster(CLUSTER).expected == 0


def test_a_successor_that_karpenter_has_no_capacity_for_is_awaited_as_long_as_pods_wait(clients: Clients) -> None:
    with on_karpenter(clients) as world:
        world.run_job()
        world.karpenter.capacity = False
        world.fault_and_react(minutes=30)
        assert (world.case().status, world.status()) == (CaseStatus.IN_PROGRESS, NodeStatus.PROVISIONING)
        world.karpenter.capacity = True
        world.until(world.case_is(RESOLVED))
        assert world.case().resolution is Resolution.REPLACED


def test_the_successor_is_a_node_that_was_created_after_the_deletion(clients: Clients) -> None:
    with on_karpenter(clients, spec={"nodes": 2, "replicas": 2}) as world:
        old, other = world.instance(1), world.instance(2)
        world.fault_until_resolved()
        assert world.instance(1) not in {old, other}
        assert world.instance(2) == other
        assert len(world.karpenter.claims) == 2


def test_a_node_waits_until_the_budget_of_its_node_pool_permits_a_disruption(clients: Clients) -> None:
    closed = {"disruption": {"budgets": [{"nodes": "0", "schedule": "@daily", "duration": "14h"}]}}
    with on_karpenter(clients, spec={**closed, "replicas": 1}) as world:
        opens = world.clock.now().replace(hour=14, minute=0)
        world.fault_and_react(minutes=60)
        assert (world.case().status, world.case().waiting_for) == (CaseStatus.QUEUED, WaitingFor.CAPACITY)
        assert "permits 0 of 1 nodes now" in world.case().reason
        assert world.karpenter.deletions == []
        world.until(world.case_is(RESOLVED))
        assert world.clock.now() >= opens
        assert len(world.karpenter.deletions) == 1


def test_a_drain_by_karpenter_that_a_pod_delays_for_ten_minutes_pages_once(clients: Clients) -> None:
    with on_karpenter(clients, spec={"replicas": 1}) as world:
        old = world.instance()
        node = name_of(world.karpenter.cluster, old)

        def late_pod(call: Call) -> None:
            if call.name == "karpenter.replace" and not world.karpenter.cluster.running():
                world.karpenter.cluster.start(Pod("ml", "late", node, owner=None))

        world.karpenter_provider.seam.before = late_pod
        world.fault_and_react()
        world.until(lambda: world.status() is NodeStatus.REPLACING)
        world.advance_minutes(8)
        assert world.pages() == []
        world.until(lambda: world.pages() == ["waiting"], minutes=10)
        assert "ml/late" in world.bodies()[-1]["data"]["text"]
        world.karpenter_provider.seam.before = lambda _: None
        world.karpenter.cluster.pods.clear()
        world.until(world.case_is(RESOLVED))
        assert (world.pages(), world.case().resolution) == (["waiting"], Resolution.REPLACED)
