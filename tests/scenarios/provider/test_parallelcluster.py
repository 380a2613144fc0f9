"""Nodes of AWS ParallelCluster and AWS PCS: isolated, replaced once by the cluster's own daemon, and verified."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from faultbridge.adapters.ec2.request_log import RequestLog
from faultbridge.adapters.slurm.fleets import ParallelClusterProvider, PcsProvider, SlurmRestarter, TaggedInventory
from faultbridge.adapters.slurm.orchestrator import SlurmOrchestrator
from faultbridge.model.cluster.config import (
    PARALLEL_CLUSTER,
    PCS,
    SLURM,
    CapacitySource,
    ClusterConfig,
    Mode,
    RepairOwner,
)
from faultbridge.model.enums import CaseStatus, Isolation, NodeStatus, Resolution, WaitingFor
from faultbridge.model.errors import Transient
from faultbridge.model.fault_enums import Action
from faultbridge.model.policy import Rule
from faultbridge.model.values import replace
from faultbridge.record.ports.compute import CallResult, Capacity, LaunchedInstance
from faultbridge.repair.registry.registration import NewNode, Registration
from tests.parallelcluster import POOL, TAGS, ClusterManager, TaggedInstances, records
from tests.scenarios.provider.growth import RELEASE
from tests.scenarios.world import CLUSTER, ScenarioPorts, World
from tests.sim.fakes import Call, Seam, raise_once
from tests.slurm import REST, SlurmInMemory

CALLS = ("parallelcluster.replace", "parallelcluster.probe", "parallelcluster.capacity", "parallelcluster.candidates")
STATIC, DYNAMIC = "queue1-st-gpu-1", "queue1-dy-gpu-1"


class SeamedProvider(ParallelClusterProvider):
    """The adapter, with a seam that loses answers of its calls."""

    seam = Seam()

    def replace(self, instance_id: str, token: str) -> CallResult:
        with self.seam.around(PARALLEL_CLUSTER, "replace", instance_id):
            return super().replace(instance_id, token)

    def probe(self, instance_id: str) -> Any:
        with self.seam.around(PARALLEL_CLUSTER, "probe", instance_id):
            return super().probe(instance_id)

    def capacity(self, source: CapacitySource, instance_id: str, group: str) -> Capacity:
        with self.seam.around(PARALLEL_CLUSTER, "capacity", source):
            return super().capacity(source, instance_id, group)

    def candidates(self, group: str, launched_after: datetime) -> tuple[LaunchedInstance, ...]:
        with self.seam.around(PARALLEL_CLUSTER, "candidates", group):
            return super().candidates(group, launched_after)


class OnParallelCluster(World):
    """Nodes of one compute resource, with a Slurm, an EC2 and a daemon in memory behind the real adapters."""

    def __init__(self, *names: str, provider: str = PARALLEL_CLUSTER, group: str = POOL, **settings: Any) -> None:
        self.names, self.of_provider, self.group, self.slurm = names or (STATIC,), provider, group, SlurmInMemory()
        self.joined = False
        super().__init__(**{"rules": (RELEASE,), **settings})

    def connect(self, ports: ScenarioPorts) -> None:
        self.ec2 = TaggedInstances(ports.clock.now)
        self.manager = ClusterManager(self.slurm, self._launch)
        ports.orchestrators = {SLURM: SlurmOrchestrator(lambda _: self.slurm, ports.clock)}  # type: ignore[arg-type, return-value, dict-item]
        self.provider = SeamedProvider(self.ec2.clients, records(self.ec2, self.slurm))  # type: ignore[assignment]
        self.provider.seam = Seam()
        ports.providers |= {PARALLEL_CLUSTER: self.provider, PCS: PcsProvider(self.ec2.clients)}  # type: ignore[dict-item]
        log = RequestLog(ports.table, ports.clock)
        ports.restarters[SLURM] = SlurmRestarter(records(self.ec2, self.slurm), log, ports.restarters["ssm"])  # type: ignore[assignment]

    def _launch(self) -> tuple[str, str]:
        tags = TAGS if self.of_provider == PARALLEL_CLUSTER else {"aws:pcs:compute-node-group-id": self.group}
        since = self.clock.now() - timedelta(days=not self.joined)
        made = self.ec2.instances[self.ec2.run(tags, since)]
        self.fleet.launch(self.group, made["InstanceId"], since)
        return made["PrivateIpAddress"], made["PrivateDnsName"]

    def _register(self, nodes: int, mode: Mode, nodes_per_shard: int) -> None:
        del nodes, nodes_per_shard
        self.registration = Registration(self.table, self.append, self.clock)
        followed = self.of_provider == PCS
        own = {} if followed else {"restarter": SLURM}
        config = ClusterConfig(
            CLUSTER, provider=self.of_provider, orchestrator=SLURM, slurm_rest=REST, mode=mode, **own
        )
        owner = RepairOwner.PROVIDER if followed else RepairOwner.FAULTBRIDGE
        self.registration.add_cluster(replace(config, repair_owner=owner))
        for name in self.names:
            self.manager.start(name)
        found = TaggedInventory(self.ec2.clients).serving_instances(config, self.group)
        for number, one in enumerate(found, 1):
            node = replace(NewNode.of_instance(one), name=f"node-{number}")
            self.registration.add_node(CLUSTER, node)
        self.joined = True
        self.process_entries()

    def join_nodes(self) -> None:
        """Run the daemon of the cluster, each minute; PCS replaces nothing."""
        for one in self.ec2.terminated:
            self.fleet.remove(one)
        live = {one["PrivateIpAddress"] for one in self.ec2.instances.values() if one["State"]["Name"] == "running"}
        ids = {one["PrivateIpAddress"]: one["InstanceId"] for one in self.ec2.instances.values()}
        if self.of_provider == PARALLEL_CLUSTER:
            self.manager.loop(live, lambda address: self.ec2.terminate_instances([ids[address]]))

    def record_of(self, name: str = STATIC) -> tuple[str, str]:
        return self.slurm.nodes[name].state, self.slurm.nodes[name].reason


def check_replaced(world: OnParallelCluster, old: str) -> None:
    """Check that the instance was terminated once, and that the verified successor serves under the same Slurm name."""
    assert (world.status(), world.case().resolution) == (NodeStatus.HEALTHY, Resolution.REPLACED)
    assert world.ec2.terminated == [old]
    assert world.live_instances() == [world.instance()] != [old]
    assert world.slurm.nodes[STATIC].address == world.ec2.instances[world.instance()]["PrivateIpAddress"]
    assert world.record_of()[0] == "IDLE"
    assert not {"drain", "down"} & {change for change, _ in world.slurm.changes}
    assert world.control().holders == {}


def test_a_static_node_is_isolated_without_a_drain_and_its_daemon_starts_the_one_successor_that_is_verified() -> None:
    world = OnParallelCluster()
    old = world.instance()
    world.slurm.running[STATIC] = ["17"]
    world.fault_and_react(minutes=5)
    assert world.record_of() == ("IDLE+FAIL", f"faultbridge {old} case {world.case().id}")
    assert world.ec2.terminated == []  # its job still runs
    world.slurm.running.clear()
    world.until(lambda: world.ec2.terminated == [old])
    world.until(lambda: world.status() is NodeStatus.VALIDATING)
    world.advance_minutes(3)
    assert world.record_of() == ("IDLE+FAIL", f"faultbridge {world.instance()} case {world.case().id}")
    world.until(world.case_is(CaseStatus.RESOLVED))
    check_replaced(world, old)
    history = world.record_history()
    assert (
        history.index("drain drained") < history.index("intent committed") < history.index("release_instance released")
    )


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("call", CALLS)
def test_a_lost_call_or_answer_of_the_provider_terminates_no_second_instance(call: str, moment: str) -> None:
    world = OnParallelCluster()
    old = world.instance()
    setattr(world.provider.seam, moment, raise_once((call, Transient("the answer was lost"))))
    world.fault_until_resolved()
    check_replaced(world, old)


def test_every_answer_of_the_provider_that_is_lost_once_terminates_no_second_instance() -> None:
    world, lost = OnParallelCluster(), set[str]()
    old = world.instance()

    def lose_once(call: Call) -> None:
        if call.name not in lost:
            lost.add(call.name)
            raise Transient(call.name)

    world.provider.seam.after = lose_once
    world.fault_until_resolved()
    check_replaced(world, old)
    assert lost == set(CALLS)


def test_a_termination_that_arrives_late_and_twice_ends_no_successor() -> None:
    world = OnParallelCluster()
    old = world.instance()
    world.fault_until_resolved()
    world.provider.replace(old, "token")
    world.advance_minutes(5)
    assert world.live_instances() == [world.instance()]
    assert set(world.ec2.terminated) == {old}


def test_a_dynamic_node_owes_no_successor_and_keeps_nothing_isolated() -> None:
    world = OnParallelCluster(DYNAMIC)
    old = world.instance()
    world.fault_until_resolved()
    assert (world.status(), world.case().resolution) == (NodeStatus.PROVISIONING, Resolution.RELEASED_NO_DEMAND)
    assert (world.ec2.terminated, world.live_instances(), world.control().holders) == ([old], [], {})
    assert world.record_of(DYNAMIC) == ("IDLE+POWERED_DOWN", "Scheduler health check failed")


def test_a_node_in_a_maintenance_reservation_waits_until_the_reservation_ends() -> None:
    world = OnParallelCluster()
    old = world.instance()
    world.slurm.nodes[STATIC] = replace(world.slurm.nodes[STATIC], state="IDLE+MAINTENANCE+RESERVED")
    world.fault_and_react(minutes=60)
    assert (world.case().status, world.case().waiting_for) == (CaseStatus.QUEUED, WaitingFor.CAPACITY)
    assert f"Slurm reserves {STATIC} for maintenance" in world.case().reason
    assert world.ec2.terminated == []
    world.slurm.nodes[STATIC] = replace(world.slurm.nodes[STATIC], state="IDLE+FAIL")
    world.until(world.case_is(CaseStatus.RESOLVED))
    check_replaced(world, old)


def test_a_reboot_runs_once_through_slurm_and_the_instance_stays() -> None:
    world = OnParallelCluster(rules=(Rule("reboot", action=Action.REBOOT_NODE, release_without_capacity=True),))
    old = world.instance()
    world.fault_and_react()
    world.until(lambda: "REBOOT_ISSUED" in world.record_of()[0])
    world.advance_minutes(3)
    assert ("reboot", STATIC) in world.slurm.changes
    state, reason = world.record_of()
    world.slurm.nodes[STATIC] = replace(world.slurm.nodes[STATIC], state=state.removesuffix("+REBOOT_ISSUED"))
    assert reason == f"faultbridge {old} : reboot issued"
    world.until(world.case_is(CaseStatus.RESOLVED))
    assert (world.status(), world.instance(), world.record_of()[0]) == (NodeStatus.HEALTHY, old, "IDLE")
    assert [change for change, _ in world.slurm.changes].count("reboot") == 1
    assert world.ec2.terminated == []


def test_a_node_of_pcs_is_drained_followed_and_an_operator_is_paged_when_its_replacement_does_not_come() -> None:
    world = OnParallelCluster("gpu-1", provider=PCS, group="pcs_abc123")
    old = world.instance()
    world.fault_and_react(minutes=2)
    assert world.record_of("gpu-1") == ("IDLE+DRAIN", f"faultbridge {old} case {world.case().id}")
    assert world.node().isolation is Isolation.CONFIRMED
    world.until(world.case_is(CaseStatus.ESCALATED))
    assert "the provider makes no progress" in world.case().reason
    assert world.ec2.terminated == []
