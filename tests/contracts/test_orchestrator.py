"""The Orchestrator port: the same tests for the fake, EKS and real Slurms; also clusters without an orchestrator."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.kubernetes.orchestrator import NoOrchestrator
from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.enums import ProviderFailure
from faultbridge.model.errors import Transient
from faultbridge.model.values import replace
from faultbridge.record.ports.orchestrator import ClusterNode, Orchestrator
from faultbridge.record.ports.presence import CheckResult
from tests.contracts.real_slurm import RealSlurm, real_slurm, real_slurmrestd
from tests.contracts.schedulers import InMemory, OnSlurm, Scheduler, on_eks
from tests.sim.fakes import START, FakeOrchestrator

DEADLINE = START + timedelta(minutes=10)
REAL_SLURMS = [pytest.param(name, marks=pytest.mark.servers) for name in ("slurm", "slurmrestd")]
OF_PARALLEL_CLUSTER = [
    pytest.param(f"{name} parallelcluster", marks=pytest.mark.servers) for name in ("slurm", "slurmrestd")
]


@pytest.fixture(scope="module")
def slurm() -> Iterator[RealSlurm]:
    with real_slurm() as started:
        yield started


@pytest.fixture(scope="module")
def slurmrestd() -> Iterator[RealSlurm]:
    with real_slurmrestd() as started:
        yield started


@pytest.fixture(params=["fake", "eks", *REAL_SLURMS, *OF_PARALLEL_CLUSTER])
def scheduler(request: pytest.FixtureRequest, clients: Clients) -> Iterator[Scheduler]:
    if request.param == "fake":
        yield InMemory()
        return
    if request.param.startswith("slurm"):
        name, _, provider = request.param.partition(" ")
        slurm = request.getfixturevalue(name)
        slurm.clean()
        yield OnSlurm(slurm, provider or "ec2-auto-scaling")
        return
    with on_eks(clients) as made:
        yield made


class TestOrchestrator:
    def test_the_orchestrator_is_applicable(self, scheduler: Scheduler) -> None:
        assert scheduler.orchestrator.applicable

    def test_a_cordoned_node_gets_no_work_until_it_is_uncordoned(self, scheduler: Scheduler) -> None:
        assert scheduler.takes_work()
        for _ in range(2):
            assert scheduler.orchestrator.cordon(scheduler.member).ok
            assert not scheduler.takes_work()
        for _ in range(2):
            assert scheduler.orchestrator.uncordon(scheduler.member).ok
            assert scheduler.takes_work()

    def test_a_discouraged_node_still_takes_work_until_it_is_cordoned(self, scheduler: Scheduler) -> None:
        for _ in range(2):
            assert scheduler.orchestrator.discourage(scheduler.member).ok
            assert scheduler.takes_work()
        assert scheduler.orchestrator.cordon(scheduler.member).ok
        assert not scheduler.takes_work()
        assert scheduler.orchestrator.discourage(scheduler.member).ok
        assert not scheduler.takes_work()
        assert scheduler.orchestrator.uncordon(scheduler.member).ok
        assert scheduler.takes_work()

    def test_a_drain_succeeds_once_no_work_is_left(self, scheduler: Scheduler) -> None:
        scheduler.occupy(5)
        assert scheduler.orchestrator.cordon(scheduler.member).ok
        busy = scheduler.orchestrator.drain(scheduler.member, DEADLINE)
        assert busy.failure is ProviderFailure.TIMEOUT
        assert not busy.no_response
        assert busy.failure.retriable
        assert busy.reason
        scheduler.clock.advance(timedelta(minutes=6))
        for _ in range(2):
            assert scheduler.orchestrator.drain(scheduler.member, DEADLINE).ok

    def test_a_node_is_idle_once_no_work_is_left(self, scheduler: Scheduler) -> None:
        scheduler.occupy(5)
        for _ in range(2):
            busy = scheduler.orchestrator.idle(scheduler.member)
            assert (busy.failure, busy.inconclusive) == (ProviderFailure.TIMEOUT, False)
            assert busy.reason
            assert scheduler.takes_work()
        scheduler.orchestrator.cordon(scheduler.member)
        scheduler.orchestrator.drain(scheduler.member, DEADLINE)
        scheduler.clock.advance(timedelta(minutes=6))
        assert scheduler.orchestrator.idle(scheduler.member).ok
        assert scheduler.orchestrator.idle(scheduler.stranger).ok

    def test_an_unknown_node_is_not_found_and_has_nothing_to_drain(self, scheduler: Scheduler) -> None:
        orchestrator = scheduler.orchestrator
        assert orchestrator.cordon(scheduler.stranger).failure is ProviderFailure.NOT_FOUND
        assert not orchestrator.cordon(scheduler.stranger).no_response
        assert orchestrator.uncordon(scheduler.stranger).failure is ProviderFailure.NOT_FOUND
        assert orchestrator.drain(scheduler.stranger, DEADLINE).ok

    def test_a_successor_under_another_host_name_is_itself_cordoned_drained_and_resumed(
        self, scheduler: Scheduler
    ) -> None:
        orchestrator, successor = scheduler.orchestrator, scheduler.successor
        scheduler.occupy(5, successor)
        assert orchestrator.cordon(successor).ok
        assert not scheduler.takes_work(successor)
        assert orchestrator.drain(successor, DEADLINE).failure is ProviderFailure.TIMEOUT
        scheduler.clock.advance(timedelta(minutes=6))
        assert orchestrator.drain(successor, DEADLINE).ok
        assert orchestrator.uncordon(successor).ok
        assert scheduler.takes_work(successor)

    def test_a_record_of_the_previous_instance_is_not_changed(self, scheduler: Scheduler) -> None:
        orchestrator = scheduler.orchestrator
        assert orchestrator.cordon(scheduler.successor).ok
        assert scheduler.takes_work(scheduler.member)
        assert orchestrator.uncordon(scheduler.successor).ok
        assert orchestrator.cordon(scheduler.member).ok
        assert orchestrator.cordon(scheduler.successor).ok
        assert orchestrator.uncordon(scheduler.successor).ok
        assert not scheduler.takes_work(scheduler.member)

    def test_a_node_is_ready_also_while_it_is_cordoned_and_an_unknown_one_is_not_known(
        self, scheduler: Scheduler
    ) -> None:
        orchestrator = scheduler.orchestrator
        assert orchestrator.readiness(scheduler.member) is CheckResult.PASSED
        assert orchestrator.cordon(scheduler.member).ok
        assert orchestrator.readiness(scheduler.member) is CheckResult.PASSED
        assert orchestrator.readiness(scheduler.stranger) is CheckResult.UNKNOWN

    def test_without_an_answer_it_is_not_known_whether_a_node_is_ready(self, scheduler: Scheduler) -> None:
        scheduler.become_unreachable()
        with pytest.raises(Transient):
            scheduler.orchestrator.readiness(scheduler.member)

    def test_an_unreachable_orchestrator_is_a_retriable_timeout(self, scheduler: Scheduler) -> None:
        scheduler.become_unreachable()
        orchestrator = scheduler.orchestrator
        for answer in (
            orchestrator.cordon(scheduler.member),
            orchestrator.uncordon(scheduler.member),
            orchestrator.drain(scheduler.member, DEADLINE),
            orchestrator.idle(scheduler.member),
        ):
            assert answer.failure is ProviderFailure.TIMEOUT
            assert answer.no_response
            assert answer.reason


@pytest.mark.parametrize("status", ["False", "Unknown"])
def test_a_kubernetes_node_whose_kubelet_is_not_ready_or_stopped_reporting_is_not_ready(
    clients: Clients, status: str
) -> None:
    with on_eks(clients) as scheduler:
        scheduler.cluster.set_condition(scheduler.NODE, {"type": "Ready", "status": status})
        assert scheduler.orchestrator.readiness(scheduler.member) is CheckResult.FAILED


class TestWithoutAnOrchestrator:
    @pytest.fixture(params=["none", "fake"])
    def orchestrator(self, request: pytest.FixtureRequest) -> Orchestrator:
        return NoOrchestrator() if request.param == "none" else FakeOrchestrator(applicable=False)

    def test_every_call_returns_that_it_does_not_apply(self, orchestrator: Orchestrator) -> None:
        node = ClusterNode(ClusterConfig("train-a"), "node-1")
        results = (
            orchestrator.cordon(node),
            orchestrator.drain(node, DEADLINE),
            orchestrator.idle(node),
            orchestrator.discourage(node),
            orchestrator.uncordon(node),
        )
        assert all(answer.ok and "not applicable" in answer.reason for answer in results)
        assert not orchestrator.applicable
        assert orchestrator.readiness(node) is CheckResult.UNKNOWN


class TestOnARealSlurm:
    @pytest.fixture(params=REAL_SLURMS)
    def world(self, request: pytest.FixtureRequest) -> OnSlurm:
        slurm = request.getfixturevalue(request.param)
        slurm.clean()
        return OnSlurm(slurm)

    def reason(self, world: OnSlurm, node: str = "n1") -> str:
        shown = world.slurm(("scontrol", "show", "node", node)).stdout
        return shown.partition("Reason=")[2].partition(" [")[0]

    def test_a_requeued_job_moves_to_another_node_and_the_drained_node_returns(self, world: OnSlurm) -> None:
        job = world.slurm.submit(600)
        world.slurm.until(lambda: world.slurm.job(job) == "RUNNING n1")
        member = replace(world.member, cluster=replace(world.config, slurm_requeue=True))
        assert world.orchestrator.cordon(member).ok
        assert world.orchestrator.drain(member, DEADLINE).failure is ProviderFailure.TIMEOUT
        world.slurm.until(lambda: world.slurm.job(job).startswith("PENDING"))
        # Slurm delays the start of a requeued job by about two minutes.
        world.slurm(("scontrol", "update", f"JobId={job}", "StartTime=now"))
        world.slurm.until(lambda: world.slurm.job(job) == "RUNNING n2")
        assert world.orchestrator.drain(member, DEADLINE).ok
        assert world.orchestrator.uncordon(member).ok
        other = world.slurm.submit(600)
        world.slurm.until(lambda: world.slurm.job(other) == "RUNNING n1")

    def test_without_leave_to_requeue_a_job_runs_to_its_end(self, world: OnSlurm) -> None:
        job = world.slurm.submit(600, "n1")
        world.slurm.until(lambda: world.slurm.job(job) == "RUNNING n1")
        world.orchestrator.cordon(world.member)
        assert world.orchestrator.drain(world.member, DEADLINE).failure is ProviderFailure.TIMEOUT
        assert world.slurm.job(job) == "RUNNING n1"

    def test_a_drain_by_an_operator_keeps_its_reason_and_stays(self, world: OnSlurm) -> None:
        world.slurm(("scontrol", "update", "NodeName=n1", "State=DRAIN", "Reason=bad fan, ticket 7"))
        assert world.orchestrator.cordon(world.member).reason == "already drained: bad fan, ticket 7"
        assert world.orchestrator.uncordon(world.member).reason == "stays drained: bad fan, ticket 7"
        assert not world.takes_work()

    def test_the_reason_names_the_instance_and_only_that_instance_is_resumed(self, world: OnSlurm) -> None:
        assert world.orchestrator.cordon(world.member).ok
        assert self.reason(world) == "faultbridge i-00000000000000007"
        # The successor has the address of its predecessor, and so its name.
        successor = replace(world.member, instance_id="i-00000000000000008")
        assert world.orchestrator.cordon(successor).ok
        assert self.reason(world) == "faultbridge i-00000000000000008"
        late = world.orchestrator.uncordon(world.member)
        assert late.reason == "stays drained: faultbridge i-00000000000000008"
        assert not world.takes_work()
        assert world.orchestrator.uncordon(successor).ok
        assert world.takes_work()

    def test_the_reason_names_the_case_and_another_case_of_the_instance_can_resume_the_node(
        self, world: OnSlurm
    ) -> None:
        assert world.orchestrator.cordon(replace(world.member, case="CASE-1")).ok
        assert self.reason(world) == "faultbridge i-00000000000000007 case CASE-1"
        assert world.orchestrator.uncordon(replace(world.member, case="CASE-2")).reason == "resumed"
        assert world.takes_work()

    def test_a_failed_look_up_drains_nothing(self, world: OnSlurm) -> None:
        world.become_unreachable()
        assert world.orchestrator.cordon(world.member).no_response
        world.slurm.unreachable = False
        assert world.takes_work()

    def test_a_successor_that_has_not_joined_is_not_found_and_changes_no_other_instance(self, world: OnSlurm) -> None:
        late = replace(world.successor, host_names=("n3", "n3.internal"))
        assert world.orchestrator.cordon(late).failure is ProviderFailure.NOT_FOUND
        assert world.orchestrator.uncordon(late).failure is ProviderFailure.NOT_FOUND
        assert world.takes_work(world.member)
        assert world.takes_work(world.successor)

    def test_a_successor_keeps_the_names_that_the_operator_gave(self, world: OnSlurm) -> None:
        gone = ("ip-10-0-0-9", "ip-10-0-0-9.ec2.internal")
        by_name = ClusterNode(world.config, "n1", "i-00000000000000008", host_names=gone)
        by_alias = replace(by_name, node="ip-10-0-0-5", aliases=("n1",), keeps_name=False)
        for node in (by_name, by_alias):
            assert world.orchestrator.cordon(node).ok
            assert not world.takes_work()
            assert world.orchestrator.uncordon(node).ok
            assert world.takes_work()

    @pytest.mark.parametrize("name", ["ALL", "all", "n[1-2]", "n1,n2", "n1 State=DOWN", "-a", "$(reboot)"])
    def test_a_name_that_slurm_would_expand_never_reaches_a_command(self, world: OnSlurm, name: str) -> None:
        node = ClusterNode(world.config, name, "i-00000000000000007")
        assert world.orchestrator.cordon(node).failure is ProviderFailure.NOT_FOUND
        assert world.takes_work()
