"""The other fakes: launch delays, capacity, dead letters, durations and scripted failures."""

from __future__ import annotations

from datetime import timedelta

import pytest

from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.enums import ProviderFailure
from faultbridge.record.ports.compute import LaunchRequest, Verdict, Verification
from faultbridge.record.ports.messaging import ExecutionStatus, RecordQueueDepth
from faultbridge.record.ports.orchestrator import ClusterNode
from faultbridge.record.ports.presence import Presence
from tests.sim.fakes import (
    START,
    FakeFleet,
    FakeLauncher,
    FakeOrchestrator,
    FakeProvider,
    FakeQueue,
    FakeVerifier,
    FakeWorkflow,
    ManualClock,
)

LAUNCH_DELAY = timedelta(minutes=3)
MEMBER = ClusterNode(ClusterConfig("train-a"), "n")


def test_the_launcher_hides_only_instances_that_were_launched_shortly_before() -> None:
    clock, request = ManualClock(), LaunchRequest(ClusterConfig("train-a"), "gpu", "c-1", "t", None)
    launcher = FakeLauncher(FakeFleet(clock, launch_delay=LAUNCH_DELAY))
    launcher.launch(request)
    launcher.hidden_until = clock.now() + timedelta(days=1)
    clock.advance(timedelta(hours=1))
    assert launcher.launched(request) == ()
    clock.advance(timedelta(hours=2))
    assert len(launcher.launched(request)) == 1


class TestFleet:
    def test_a_successor_is_a_candidate_only_after_its_launch(self) -> None:
        clock = ManualClock()
        fleet = FakeFleet(clock, launch_delay=LAUNCH_DELAY)
        old, provider = fleet.launch("gpu"), FakeProvider(fleet)
        clock.advance(10)
        intent = clock.now()
        assert provider.replace(old, "t").ok
        assert provider.candidates("gpu", intent) == ()
        clock.advance(LAUNCH_DELAY)
        (successor,) = provider.candidates("gpu", intent)
        assert successor.instance_id != old
        assert successor.launched_at == intent + LAUNCH_DELAY

    def test_without_capacity_the_successor_launches_once_there_is_capacity(self) -> None:
        clock = ManualClock()
        fleet = FakeFleet(clock, launch_delay=LAUNCH_DELAY, capacity_left=0)
        provider = FakeProvider(fleet)
        provider.replace(fleet.launch("gpu"), "t")
        clock.advance(timedelta(hours=8))
        assert provider.candidates("gpu", START) == ()
        fleet.set_capacity(1)
        clock.advance(LAUNCH_DELAY)
        assert len(provider.candidates("gpu", START)) == 1

    def test_a_repeated_release_launches_one_successor(self) -> None:
        fleet = FakeFleet(launch_delay=timedelta(0))
        provider, old = FakeProvider(fleet), fleet.launch("gpu")
        assert provider.replace(old, "t").ok
        assert provider.replace(old, "t").ok
        assert len(list(fleet.running("gpu"))) == 1

    def test_an_ambiguous_failure_may_have_had_its_effect(self) -> None:
        fleet = FakeFleet()
        provider, old = FakeProvider(fleet), fleet.launch("gpu")
        provider.fail_next(ProviderFailure.AMBIGUOUS)
        provider.fail_next(ProviderFailure.AMBIGUOUS, effect=True)
        assert provider.replace(old, "t").failure is ProviderFailure.AMBIGUOUS
        assert provider.probe(old) is Presence.ALIVE
        assert provider.replace(old, "t").failure is ProviderFailure.AMBIGUOUS
        assert provider.probe(old) is Presence.GONE

    def test_a_provider_with_unknown_probes_returns_unknown(self) -> None:
        fleet = FakeFleet()
        provider = FakeProvider(fleet)
        provider.probe_unknown = True
        assert provider.probe(fleet.launch("gpu")) is Presence.UNKNOWN


class TestQueue:
    def test_a_message_is_redelivered_after_its_visibility_timeout_and_counted(self) -> None:
        clock = ManualClock()
        queue = FakeQueue(clock, visibility=timedelta(minutes=6))
        queue.send([("g", "body")])
        assert [message.receive_count for message in queue.receive()] == [1]
        assert queue.receive() == ()
        clock.advance(timedelta(minutes=6))
        (again,) = queue.receive()
        assert (again.receive_count, again.sent_at) == (2, START)

    def test_a_message_received_too_often_becomes_a_dead_letter(self) -> None:
        clock = ManualClock()
        queue = FakeQueue(clock, visibility=timedelta(seconds=1), max_receives=2)
        queue.send([("g", "body")])
        for _ in range(3):
            queue.receive()
            clock.advance(1)
        assert queue.depth() == RecordQueueDepth(waiting=0, in_flight=0, dead=1)


def test_a_verification_takes_its_duration_and_returns_the_result_of_its_instance() -> None:
    clock = ManualClock()
    verifier = FakeVerifier(clock, duration=timedelta(minutes=45))
    verifier.results["i-2"] = Verification(Verdict.FAILED, ("memory on GPU 0",))
    first, second = verifier.start("i-1", "t"), verifier.start("i-2", "t")
    assert verifier.status("i-1", first).verdict is Verdict.PENDING
    clock.advance(timedelta(minutes=45))
    assert verifier.status("i-1", first).verdict is Verdict.PASSED
    assert verifier.status("i-2", second).verdict is Verdict.FAILED


@pytest.mark.parametrize(("occupied", "prove_idle"), [(True, False), (True, True), (None, True)])
def test_a_verification_does_not_start_beside_work_or_where_an_idle_instance_has_to_be_proven(
    occupied: bool | None, prove_idle: bool
) -> None:
    verifier = FakeVerifier(ManualClock(), duration=timedelta(minutes=45))
    verifier.occupied = lambda _: occupied
    operation = verifier.start("i-1", "t", prove_idle=prove_idle)
    verifier.occupied = lambda _: False
    assert verifier.status("i-1", operation).verdict is Verdict.OCCUPIED
    assert verifier.start("i-1", "t") == operation
    assert verifier.status("i-1", verifier.start("i-1", "t-2")).verdict is Verdict.PENDING


def test_a_node_is_drained_once_its_jobs_have_ended() -> None:
    clock = ManualClock()
    orchestrator = FakeOrchestrator(clock)
    orchestrator.busy_until["n"] = START + timedelta(minutes=5)
    assert orchestrator.drain(MEMBER, START + timedelta(hours=1)).failure is ProviderFailure.TIMEOUT
    clock.advance(timedelta(minutes=5))
    assert orchestrator.drain(MEMBER, START + timedelta(hours=1)).ok


def test_a_scripted_failure_cordons_nothing() -> None:
    orchestrator = FakeOrchestrator()
    orchestrator.fail_next(ProviderFailure.TIMEOUT)
    assert not orchestrator.cordon(MEMBER).ok
    assert orchestrator.cordoned == set()
    assert orchestrator.cordon(MEMBER).ok
    assert orchestrator.cordoned == {"n"}


def test_a_token_is_resumed_once_and_an_execution_keeps_its_final_status() -> None:
    workflow = FakeWorkflow()
    workflow.wait("t")
    assert workflow.resume("t", {"a": 1})
    assert not workflow.resume("t", {"a": 1})
    workflow.start("c-1-1", {})
    workflow.finish("c-1-1", ExecutionStatus.FAILED)
    workflow.start("c-1-1", {})
    assert workflow.status("c-1-1") is ExecutionStatus.FAILED
