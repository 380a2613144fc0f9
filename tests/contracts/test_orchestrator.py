"""The Orchestrator port: the same tests for the fake and EKS; also clusters without an orchestrator."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.kubernetes.orchestrator import NoOrchestrator
from faultbridge.domain.cluster.config import ClusterConfig
from faultbridge.ports import ClusterNode, Orchestrator, ProviderFailure
from faultbridge.simulation.fakes import START, FakeOrchestrator
from tests.contracts.schedulers import InMemory, Scheduler, on_eks

DEADLINE = START + timedelta(minutes=10)


@pytest.fixture(params=["fake", "eks"])
def scheduler(request: pytest.FixtureRequest, clients: Clients) -> Iterator[Scheduler]:
    if request.param == "fake":
        yield InMemory()
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

    def test_an_unknown_node_is_not_found_and_has_nothing_to_drain(self, scheduler: Scheduler) -> None:
        orchestrator = scheduler.orchestrator
        assert orchestrator.cordon(scheduler.stranger).failure is ProviderFailure.NOT_FOUND
        assert not orchestrator.cordon(scheduler.stranger).no_response
        assert orchestrator.uncordon(scheduler.stranger).failure is ProviderFailure.NOT_FOUND
        assert orchestrator.drain(scheduler.stranger, DEADLINE).ok

    def test_an_unreachable_orchestrator_is_a_retriable_timeout(self, scheduler: Scheduler) -> None:
        scheduler.become_unreachable()
        orchestrator = scheduler.orchestrator
        for answer in (
            orchestrator.cordon(scheduler.member),
            orchestrator.uncordon(scheduler.member),
            orchestrator.drain(scheduler.member, DEADLINE),
        ):
            assert answer.failure is ProviderFailure.TIMEOUT
            assert answer.no_response
            assert answer.reason


class TestWithoutAnOrchestrator:
    @pytest.fixture(params=["none", "fake"])
    def orchestrator(self, request: pytest.FixtureRequest) -> Orchestrator:
        return NoOrchestrator() if request.param == "none" else FakeOrchestrator(applicable=False)

    def test_every_call_returns_that_it_does_not_apply(self, orchestrator: Orchestrator) -> None:
        node = ClusterNode(ClusterConfig("train-a"), "node-1")
        results = (orchestrator.cordon(node), orchestrator.drain(node, DEADLINE), orchestrator.uncordon(node))
        assert all(answer.ok and "not applicable" in answer.reason for answer in results)
        assert not orchestrator.applicable
