"""Spares of a Slurm cluster: drained under the names of their hosts, verified, and resumed as a node."""

from __future__ import annotations

from datetime import timedelta

from faultbridge.adapters.slurm.orchestrator import SlurmOrchestrator
from faultbridge.model.cluster.config import SLURM, ClusterConfig, Mode, RepairOwner
from faultbridge.model.cluster.state import SpareStatus
from faultbridge.model.enums import NodeStatus
from faultbridge.repair.registry.registration import NewNode, Registration
from faultbridge.repair.spares.pool import SparePool
from faultbridge.repair.spares.reconcile import LAUNCH_TIMEOUT
from tests.builders import NOON
from tests.scenarios.world import CLUSTER, GROUP, ScenarioPorts, World
from tests.sim.fakes.fleet import host_name
from tests.slurm import REST, SlurmInMemory


class OnSlurm(World):
    """A node of a launch template, and one spare; each running instance joins Slurm under its host name."""

    def __init__(self) -> None:
        self.slurm, self.joins = SlurmInMemory(), True
        super().__init__()
        self.launch_from_template("p5.48xlarge")
        Registration(self.table, self.append, self.clock).set_cluster(CLUSTER, {"spares": 1, "spare_group": GROUP})

    def connect(self, ports: ScenarioPorts) -> None:
        ports.orchestrators = {SLURM: SlurmOrchestrator(lambda _: self.slurm, self.clock)}

    def _register(self, nodes: int, mode: Mode, nodes_per_shard: int) -> None:
        del nodes, nodes_per_shard
        registration, since = Registration(self.table, self.append, self.clock), NOON - timedelta(days=1)
        registration.add_cluster(
            ClusterConfig(CLUSTER, repair_owner=RepairOwner.FAULTBRIDGE, mode=mode, orchestrator=SLURM, slurm_rest=REST)
        )
        instance = self.fleet.launch(GROUP, f"i-{1:017x}", since)
        hosts = (host_name(instance), f"{host_name(instance)}.internal")
        registration.add_node(CLUSTER, NewNode("node-1", instance, GROUP, "p5.48xlarge", host_names=hosts, since=since))
        self.process_entries()

    def join_nodes(self) -> None:
        for one in self.fleet.running(GROUP):
            if self.joins or one.instance_id == f"i-{1:017x}":
                self.slurm.join(host_name(one.instance_id))

    def spare(self) -> str | None:
        """The instance of the spare if it is verified."""
        spares = SparePool(self.table, self.clock).spares(CLUSTER)
        return next((one.instance_id for one in spares if one.status is SpareStatus.READY), None)


def test_a_spare_is_drained_and_verified_once_and_serves_as_a_node() -> None:
    world = OnSlurm()
    world.until(lambda: world.spare() is not None, 60)
    spare = str(world.spare())
    assert not world.slurm.takes_work(host_name(spare))
    world.advance_minutes(240)
    assert world.spare() == spare
    assert len(world.fleet.instances) == 2
    world.fault_until_resolved()
    assert (world.status(), world.instance()) == (NodeStatus.HEALTHY, spare)
    assert world.slurm.takes_work(host_name(spare))
    assert not world.slurm.takes_work(host_name(f"i-{1:017x}"))


def test_a_spare_that_joins_slurm_late_waits_and_one_that_never_joins_is_given_up() -> None:
    world = OnSlurm()
    world.joins = False
    world.advance_minutes(20)
    assert len(world.live_instances()) == 2
    assert world.spare() is None
    world.joins = True
    world.until(lambda: world.spare() is not None, 60)
    assert len(world.fleet.instances) == 2
    never = OnSlurm()
    never.joins = False
    never.until(lambda: len(never.live_instances()) == 2, 5)
    limit = LAUNCH_TIMEOUT + timedelta(minutes=10)
    never.until(lambda: never.live_instances() == [f"i-{1:017x}"], int(limit / timedelta(minutes=1)))
    assert never.slurm.changes == []
