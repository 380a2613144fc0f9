"""The Orchestrator port: the fake, EKS over a Kubernetes API, and the orchestrator of a cluster that has none."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from faultbridge.adapters.clients import Clients
from faultbridge.adapters.orchestrators.none import NoOrchestrator
from faultbridge.domain.clusters import ClusterConfig
from faultbridge.ports import Member, Orchestrator, ProviderFailure
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
    def test_there_is_something_to_cordon(self, scheduler: Scheduler) -> None:
        assert scheduler.orchestrator.applicable

    def test_no_new_work_comes_to_a_cordoned_node_until_it_is_let_go(self, scheduler: Scheduler) -> None:
        assert scheduler.takes_work()
        for _ in range(2):
            assert scheduler.orchestrator.cordon(scheduler.member).ok
            assert not scheduler.takes_work()
        for _ in range(2):
            assert scheduler.orchestrator.uncordon(scheduler.member).ok
            assert scheduler.takes_work()

    def test_a_node_is_drained_once_its_work_has_left(self, scheduler: Scheduler) -> None:
        scheduler.occupy(5)
        assert scheduler.orchestrator.cordon(scheduler.member).ok
        busy = scheduler.orchestrator.drain(scheduler.member, DEADLINE)
        assert busy.failure is ProviderFailure.TIMEOUT
        assert not busy.unanswered
        assert busy.failure.retriable
        assert busy.reason
        scheduler.clock.advance(timedelta(minutes=6))
        for _ in range(2):
            assert scheduler.orchestrator.drain(scheduler.member, DEADLINE).ok

    def test_a_node_that_it_does_not_have_is_not_found_but_has_nothing_to_drain(self, scheduler: Scheduler) -> None:
        asked = scheduler.orchestrator
        assert asked.cordon(scheduler.stranger).failure is ProviderFailure.NOT_FOUND
        assert not asked.cordon(scheduler.stranger).unanswered
        assert asked.uncordon(scheduler.stranger).failure is ProviderFailure.NOT_FOUND
        assert asked.drain(scheduler.stranger, DEADLINE).ok

    def test_one_that_does_not_answer_may_be_asked_again(self, scheduler: Scheduler) -> None:
        scheduler.fall_silent()
        asked = scheduler.orchestrator
        for answer in (
            asked.cordon(scheduler.member),
            asked.uncordon(scheduler.member),
            asked.drain(scheduler.member, DEADLINE),
        ):
            assert answer.failure is ProviderFailure.TIMEOUT
            assert answer.unanswered
            assert answer.reason


class TestWithoutAnOrchestrator:
    @pytest.fixture(params=["none", "fake"])
    def orchestrator(self, request: pytest.FixtureRequest) -> Orchestrator:
        return NoOrchestrator() if request.param == "none" else FakeOrchestrator(applicable=False)

    def test_every_verb_says_that_it_does_not_apply(self, orchestrator: Orchestrator) -> None:
        node = Member(ClusterConfig("train-a"), "node-1")
        answers = (orchestrator.cordon(node), orchestrator.drain(node, DEADLINE), orchestrator.uncordon(node))
        assert all(answer.ok and "not applicable" in answer.reason for answer in answers)
        assert not orchestrator.applicable
