"""A real Slurm on loopback: from the fault to a verified successor that takes jobs, with fakes of EC2's providers."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from faultbridge.adapters.slurm.access import Scontrol
from faultbridge.adapters.slurm.orchestrator import SlurmOrchestrator
from faultbridge.adapters.slurm.rest import SlurmJob
from faultbridge.model.cluster.config import SLURM, ClusterConfig, Mode, RepairOwner
from faultbridge.model.enums import CaseStatus, NodeStatus, Resolution
from faultbridge.model.nodes import NodeKey
from faultbridge.model.values import replace
from faultbridge.repair.registry.registration import NewNode, Registration
from tests.builders import NOON
from tests.contracts.real_slurm import NEWER, RealSlurm, real_slurm, real_slurmrestd
from tests.contracts.schedulers import operations
from tests.scenarios.world import CLUSTER, GROUP, ScenarioPorts, World
from tests.sim.fakes import fleet

pytestmark = pytest.mark.servers

HEAD = "i-0123456789abcdef0"


@pytest.fixture(scope="module", params=[real_slurm, real_slurmrestd], ids=["commands", "slurmrestd"])
def started(request: pytest.FixtureRequest) -> Iterator[RealSlurm]:
    with request.param() as slurm:
        yield slurm


@pytest.fixture
def slurm(started: RealSlurm) -> RealSlurm:
    started.clean()
    return started


class SlurmWorld(World):
    """A world whose first node is `n1` of a real Slurm; jobs may be requeued.

    An operator gave it that name, unless it is named after the host of its first instance.
    """

    def __init__(self, slurm: RealSlurm, *, named_after_host: bool = False) -> None:
        self.slurm, self.named_after_host = slurm, named_after_host
        super().__init__()

    def connect(self, ports: ScenarioPorts) -> None:
        self.scheduler = SlurmOrchestrator(lambda _: operations(self.slurm), self.clock)
        ports.orchestrators = {SLURM: self.scheduler}

    def _register(self, nodes: int, mode: Mode, shards: int) -> None:
        del nodes, shards
        registration = Registration(self.table, self.append, self.clock)
        scheduled = {"orchestrator": SLURM, "slurm_head_node": HEAD, "slurm_requeue": True}
        registration.add_cluster(ClusterConfig(CLUSTER, repair_owner=RepairOwner.FAULTBRIDGE, mode=mode, **scheduled))  # type: ignore[arg-type]
        day_before = NOON - timedelta(days=1)
        instance = self.fleet.launch(GROUP, f"i-{1:017x}", day_before)
        node = NewNode("node-1", instance, GROUP, "p5.48xlarge", aliases=("n1",), since=day_before)
        if self.named_after_host:
            node = replace(node, name="n1", aliases=(), host_names=("n1", "n1.ec2.internal"))
        registration.add_node(CLUSTER, node)
        self.process_entries()

    def shown(self, node: str = "n1") -> tuple[str, str]:
        """The state and the reason of a node in Slurm."""
        text = self.slurm(("scontrol", "show", "node", node)).stdout
        return text.partition("State=")[2].split()[0], text.partition("Reason=")[2].partition(" [")[0]


@pytest.mark.parametrize("template", [False, True], ids=["auto scaling group", "launch template"])
def test_a_job_moves_the_node_is_replaced_verified_and_resumed(slurm: RealSlurm, template: bool) -> None:
    world = SlurmWorld(slurm)
    if template:
        world.launch_from_template("p5.48xlarge")
    job = slurm.submit(600)
    slurm.until(lambda: slurm.job(job) == "RUNNING n1")
    world.fault_and_react()
    state, reason = world.shown()
    assert "DRAIN" in state
    assert reason == f"faultbridge i-{1:017x} case {world.case().id}"
    slurm.until(lambda: slurm.job(job).startswith("PENDING"))
    slurm(("scontrol", "update", f"JobId={job}", "StartTime=now"))  # Slurm delays requeued jobs by minutes
    slurm.until(lambda: slurm.job(job) == "RUNNING n2")
    world.until(lambda: world.status() is NodeStatus.VALIDATING)
    instance = world.instance()
    world.advance_minutes(2)
    assert (
        world.shown()[1] == f"faultbridge {instance} case {world.case().id}"
    )  # the successor runs no job before its check
    world.until(world.case_is(CaseStatus.RESOLVED))
    assert (world.status(), world.case().resolution) == (NodeStatus.HEALTHY, Resolution.REPLACED)
    other = slurm.submit(600, "n1")
    slurm.until(lambda: slurm.job(other) == "RUNNING n1")


def test_a_successor_on_another_host_is_drained_before_its_check_and_before_its_own_release(
    slurm: RealSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet, "host_name", lambda instance: f"n{2 - int(instance[-1], 16) % 2}")
    world = SlurmWorld(slurm, named_after_host=True)
    monkeypatch.setattr(world, "key", lambda node=1: NodeKey(CLUSTER, f"n{node}"))
    world.fault_and_react()
    world.until(lambda: world.status() is NodeStatus.VALIDATING)
    world.advance_minutes(2)
    first, case = world.shown("n1"), world.case().id
    assert first[1] == f"faultbridge i-{1:017x} case {case}"
    assert "DRAIN" in world.shown("n2")[0]
    assert world.shown("n2")[1] == f"faultbridge i-{2:017x} case {case}"
    world.until(world.case_is(CaseStatus.RESOLVED))
    assert "DRAIN" not in world.shown("n2")[0]
    assert world.shown("n1") == first
    job = slurm.submit(600, "n2")
    slurm.until(lambda: slurm.job(job) == "RUNNING n2")
    world.clock.advance(timedelta(days=40))
    world.advance_minutes(3)
    world.fault_and_react()
    assert world.shown("n2")[1] == f"faultbridge i-{2:017x} case {world.case().id}"
    slurm.until(lambda: slurm.job(job).startswith("PENDING"))
    world.until(lambda: world.released_instances() == [f"i-{1:017x}", f"i-{2:017x}"])
    assert "drain drained" in world.record_history()


def test_while_slurm_does_not_answer_nothing_is_drained_or_released(slurm: RealSlurm) -> None:
    world = SlurmWorld(slurm)
    slurm.unreachable = True
    world.fault_and_react(minutes=3)
    assert world.status() is NodeStatus.DEGRADED
    assert world.released_instances() == []
    slurm.unreachable = False
    assert "DRAIN" not in world.shown()[0]
    world.until(world.case_is(CaseStatus.RESOLVED))
    assert world.status() is NodeStatus.HEALTHY


@pytest.mark.parametrize("root", [None, NEWER], ids=["22.05", "24.11"])
def test_the_state_of_parallelclusters_nodes_keeps_jobs_off_lets_them_end_and_survives_a_reboot(
    root: Path | None,
) -> None:
    """What ParallelCluster is used with: FAIL, the reboot by Slurm, and the start of a new instance."""
    with real_slurm(root, settings="RebootProgram=/bin/true\n") as slurm:
        scontrol = Scontrol(slurm)

        def state() -> set[str]:
            found = scontrol.node("n1")
            assert found is not None
            return set(found.state.split("+"))

        job = slurm.submit(600, "n1")
        slurm.until(lambda: slurm.job(job) == "RUNNING n1")
        scontrol.drain("n1", "faultbridge i-1 case c-1", "FAIL")
        assert "DRAIN" not in state()
        assert slurm.job(job) == "RUNNING n1"
        assert scontrol.requeue(SlurmJob(job, "RUNNING"))
        slurm.until(lambda: state() == {"IDLE", "FAIL"})
        assert slurm.job(job).startswith("PENDING")
        scontrol.reboot("n1", "faultbridge i-1")
        slurm.until(lambda: "REBOOT_ISSUED" in state())
        with slurm.rebooted("n1"):
            slurm.until(lambda: state() == {"IDLE", "FAIL"})
            found = scontrol.node("n1")
            assert found is not None
            assert found.reason.startswith("faultbridge i-1 :")
            assert scontrol.addresses() == {"127.0.0.1": "n2"}  # both nodes have one address here
            # clustermgtd sets a node down, and the new instance resumes it.
            slurm(("scontrol", "update", "NodeName=n1", "State=DOWN", "Reason=Static node maintenance"))
            assert state() >= {"DOWN", "FAIL"}
            slurm(("scontrol", "update", "NodeName=n1", "State=RESUME", "Reason=Node start up"))
            slurm.until(lambda: state() & {"IDLE", "ALLOCATED", "MIXED"} != set())
            assert "FAIL" not in state()
