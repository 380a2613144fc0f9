"""Launch templates: one successor is launched before the release, of the first type with capacity."""

from __future__ import annotations

from datetime import timedelta

import pytest

from faultbridge.model.cluster.config import Mode
from faultbridge.model.enums import CaseStatus, NodeStatus, ProviderFailure, Resolution, WaitingFor
from faultbridge.model.errors import Misconfigured, Transient
from faultbridge.model.times import from_text
from faultbridge.model.values import replace
from faultbridge.record.ports.compute import Verdict, Verification
from faultbridge.repair.case_orders import OperatorOrder
from tests.builders import NOON
from tests.scenarios.provider.builders import NEW, OLD, faulty, launched_and_then_retired, retire
from tests.scenarios.threads.relapses import RESET
from tests.scenarios.world import GROUP, REPLACEMENT_AFTER_INTENT, World
from tests.sim.fakes.seam import Call, raise_once

RESOLVED, QUEUED, ESCALATED = CaseStatus.RESOLVED, CaseStatus.QUEUED, CaseStatus.ESCALATED


def test_the_old_instance_is_released_only_when_its_successor_runs() -> None:
    world = faulty()
    world.process_entries()
    while world.case().status is not RESOLVED:
        running = {one.instance_id for one in world.fleet.running(GROUP)}
        assert OLD in running or NEW in running
        assert (OLD in running) is (world.released_instances() == [])
        world.advance_minutes()
        assert world.clock.now() < NOON + timedelta(hours=1)
    assert world.live_instances() == [NEW]
    assert world.record_history()[9:] == [
        "collect kept",
        "intent committed",
        *REPLACEMENT_AFTER_INTENT,
    ]
    (intent,) = [body["data"] for body in world.bodies() if body["data"].get("step") == "intent"]
    assert intent["facts"]["capacity_evidence"] == "launch_first"


def test_an_execution_with_a_launch_needs_far_fewer_than_thirty_transitions() -> None:
    world = faulty()
    world.until_case(RESOLVED)
    (execution,) = world.workflow.executions.values()
    assert execution.transitions <= 15


def test_without_capacity_for_the_first_type_the_second_type_is_launched_and_recorded() -> None:
    world = faulty("p5.48xlarge", "p5e.48xlarge")
    world.launcher.types_without_capacity = {"p5.48xlarge"}
    world.until_case(RESOLVED)
    assert world.node().placement.instance_type == "p5e.48xlarge"
    claimed = next(body["data"] for body in world.bodies() if body["data"].get("outcome") == "claimed")
    assert claimed["facts"]["instance_type"] == "p5e.48xlarge"


def test_a_type_with_another_number_of_gpus_is_never_launched() -> None:
    world = faulty("p5.4xlarge", "p5.48xlarge", "g5.48xlarge")
    world.launcher.types_without_capacity = {"p5.48xlarge"}
    world.until_case(RESOLVED)
    assert world.node().placement.instance_type == "g5.48xlarge"


def test_without_a_type_with_as_many_gpus_nothing_is_released_and_the_case_is_escalated() -> None:
    world = faulty("p5.4xlarge")
    world.until_case(ESCALATED)
    assert (world.released_instances(), world.live_instances()) == ([], [OLD])
    assert "as many GPUs" in world.case().reason
    assert "intent committed" not in world.record_history()


def test_without_capacity_for_any_type_the_node_is_kept_and_the_case_waits() -> None:
    world = faulty("p5.48xlarge", "p5e.48xlarge")
    world.launcher.types_without_capacity = {"p5.48xlarge", "p5e.48xlarge"}
    world.process_entries(minutes=8 * 60)
    assert (world.released_instances(), world.live_instances()) == ([], [OLD])
    assert (world.status(), world.case().status) == (NodeStatus.QUARANTINED, QUEUED)
    assert world.case().waiting_for is WaitingFor.CAPACITY
    assert world.control().holders == {}
    asked = len(world.launcher.launch_calls)
    assert asked == len({token for _, token in world.launcher.launch_calls}) <= 8 * 60 / 10
    world.launcher.types_without_capacity = set()
    world.until(world.case_is(RESOLVED))
    assert len(world.live_instances()) == 1


@pytest.mark.parametrize("failure", [ProviderFailure.AMBIGUOUS, ProviderFailure.TIMEOUT])
@pytest.mark.parametrize("effect", [True, False])
def test_an_uncertain_launch_is_retried_with_the_same_token_and_launches_once(
    failure: ProviderFailure, effect: bool
) -> None:
    world = faulty()
    world.launcher.fail_next(failure, effect=effect)
    world.until_case(RESOLVED)
    assert world.live_instances() == [NEW]
    assert len({token for _, token in world.launcher.launch_calls}) == 1


def test_a_throttled_repetition_of_an_uncertain_launch_launches_once_and_costs_no_attempt() -> None:
    world = faulty()
    world.launcher.fail_next(ProviderFailure.AMBIGUOUS, effect=True)
    world.launcher.fail_next(ProviderFailure.THROTTLED)
    world.launcher.hidden_until = world.clock.now() + timedelta(minutes=10)
    world.until_case(RESOLVED)
    assert list(world.fleet.instances) == [OLD, NEW]
    assert len({token for _, token in world.launcher.launch_calls}) == 1
    assert world.case().attempts == 1


@pytest.mark.parametrize("failure", [ProviderFailure.AMBIGUOUS, ProviderFailure.TIMEOUT])
def test_an_uncertain_launch_for_a_lost_instance_launches_once(failure: ProviderFailure) -> None:
    world = faulty()
    world.fleet.terminate(OLD)
    world.launcher.fail_next(failure, effect=True)
    world.launcher.fail_next(ProviderFailure.THROTTLED)
    world.launcher.hidden_until = world.clock.now() + timedelta(minutes=10)
    world.until_case(RESOLVED)
    assert list(world.fleet.instances) == [OLD, NEW]


def test_a_launch_whose_execution_is_lost_is_repeated_with_the_same_token() -> None:
    world = faulty()
    world.launcher.fail_next(ProviderFailure.AMBIGUOUS, effect=True)
    world.launcher.hidden_until = world.clock.now() + timedelta(minutes=20)
    world.process_entries()
    world.workflow.abort(f"{world.case().id}-1")
    world.until(world.case_is(RESOLVED))
    assert list(world.fleet.instances) == [OLD, NEW]
    assert len({token for _, token in world.launcher.launch_calls}) == 1
    assert world.case().attempts == 2


@pytest.mark.parametrize("hidden", [2, 5, 20])
def test_a_launch_for_a_lost_instance_whose_answer_and_execution_are_lost_too_is_repeated_with_the_same_token(
    hidden: int,
) -> None:
    world = faulty()
    world.fleet.terminate(OLD)
    world.launcher.fail_next(ProviderFailure.AMBIGUOUS, effect=True)
    world.launcher.hidden_until = world.clock.now() + timedelta(minutes=hidden)
    world.process_entries()
    world.workflow.abort(f"{world.case().id}-1")
    world.until(world.case_is(RESOLVED))
    assert list(world.fleet.instances) == [OLD, NEW]
    assert len({token for _, token in world.launcher.launch_calls}) == 1


def test_a_step_that_fails_while_the_result_of_its_launch_is_unknown_is_not_retried_with_another_token() -> None:
    world = faulty()
    world.fleet.terminate(OLD)
    world.launcher.fail_next(ProviderFailure.AMBIGUOUS, effect=True)
    world.launcher.hidden_until = world.clock.now() + timedelta(minutes=90)
    world.process_entries()
    assert len(world.launcher.launch_calls) == 1
    world.seam.before = raise_once(("launcher.launched", Misconfigured("no permission to list")))
    world.until(world.case_is(ESCALATED))
    world.advance_minutes(60)
    assert list(world.fleet.instances) == [OLD, NEW]
    assert world.case().reason == "await_successor failed: Misconfigured: no permission to list"


def test_a_missing_launch_template_is_not_taken_for_an_old_instance_that_is_gone() -> None:
    world = faulty()
    world.launcher.fail_next(ProviderFailure.NOT_FOUND)
    world.until_case(ESCALATED)
    (step,) = [body["data"] for body in world.bodies() if body["data"].get("step") == "release_instance"]
    assert (step["outcome"], step["failure"]) == ("refused", "PROVIDER_ERROR")
    assert world.live_instances() == [OLD]


def test_a_launch_that_ec2_does_not_list_yet_is_not_repeated() -> None:
    world = faulty()
    world.launcher.fail_next(ProviderFailure.AMBIGUOUS, effect=True)
    world.launcher.hidden_until = world.clock.now() + timedelta(minutes=12)
    world.process_entries(minutes=12)
    assert len(world.launcher.launch_calls) > 1
    assert len(world.live_instances()) == 2, "the old one and its successor"
    world.until(world.case_is(RESOLVED))
    assert world.live_instances() == [NEW]


def test_an_instance_that_ec2_lists_too_late_is_found_by_the_next_attempt() -> None:
    world = faulty()
    world.launcher.hidden_until = world.clock.now() + timedelta(hours=2)
    world.until_case(ESCALATED)
    assert (world.released_instances(), world.live_instances()) == ([], [OLD, NEW])
    world.clock.advance(timedelta(hours=2))
    world.node_orders.replace(
        world.key(), OperatorOrder("arn:aws:iam::111122223333:user/operator", "there is some again")
    )
    world.until_case(RESOLVED)
    assert world.live_instances() == [NEW]


def test_an_instance_launched_for_a_node_that_an_operator_fixed_is_terminated_with_the_case() -> None:
    world = faulty()
    world.provider.fail_next(ProviderFailure.PERMISSION_DENIED)
    world.until_case(ESCALATED)
    assert world.live_instances() == [OLD, NEW]
    world.launch_from_template("p5.4xlarge")
    world.node_orders.return_node(world.key(), OperatorOrder("an operator", "mended by hand"))
    world.until_case(RESOLVED)
    assert (world.live_instances(), world.launcher.terminated) == ([OLD], [NEW])


def test_an_instance_launched_for_a_node_that_was_retired_is_terminated_within_an_hour() -> None:
    world = launched_and_then_retired()
    assert world.live_instances() == [NEW]
    world.advance_minutes(60)
    assert (world.live_instances(), world.launcher.terminated) == ([], [NEW])


def test_an_instance_whose_case_waits_for_an_operator_is_kept() -> None:
    world = faulty()
    world.provider.fail_next(ProviderFailure.PERMISSION_DENIED)
    world.until_case(ESCALATED)
    world.advance_minutes(120)
    assert world.live_instances() == [OLD, NEW]


def test_an_instance_that_backed_a_node_is_kept_after_the_node_is_retired() -> None:
    world = faulty()
    world.until_case(RESOLVED)
    retire(world, "moved to another team")
    world.advance_minutes(120)
    assert world.live_instances() == [NEW]


def test_an_instance_of_an_unknown_case_is_kept() -> None:
    world = faulty()
    launched = world.fleet.launch(GROUP, at=world.clock.now())
    world.fleet.instances[launched] = replace(world.fleet.instances[launched], case="a-case-of-another-table")
    world.advance_minutes(120)
    assert launched in world.live_instances()


def test_a_cluster_that_is_only_observed_keeps_its_unused_launches() -> None:
    world = launched_and_then_retired()
    world.set_mode(Mode.OBSERVE)
    world.advance_minutes(120)
    assert world.live_instances() == [NEW]


@pytest.mark.parametrize("call", ["launcher.launch", "launcher.launched"])
def test_a_lost_answer_launches_no_second_instance(call: str) -> None:
    world = faulty()
    world.seam.after = raise_once((call, Transient("the answer was lost")))
    world.until_case(RESOLVED)
    assert world.live_instances() == [NEW]


def test_a_successor_that_terminates_early_is_replaced_and_the_old_instance_is_kept_meanwhile() -> None:
    world = faulty()
    world.process_entries()
    world.until(lambda: NEW in world.fleet.instances)
    world.fleet.terminate(NEW)
    world.advance_minutes(2)
    assert world.released_instances() == []
    world.until(world.case_is(RESOLVED))
    (serving,) = world.live_instances()
    assert serving not in {OLD, NEW}


def test_a_bad_launched_successor_is_replaced() -> None:
    world = faulty()
    world.verifier.results[NEW] = Verification(Verdict.FAILED, ("pcie: fail",), b"{}")
    world.until_case(RESOLVED)
    assert world.released_instances() == [OLD, NEW]
    assert len(world.live_instances()) == 1
    assert world.case().resolution is Resolution.REPLACED


def test_an_externally_terminated_instance_gets_a_launched_successor() -> None:
    world = faulty()
    world.orchestrator.busy_until["node-1"] = world.clock.now() + timedelta(minutes=20)
    world.process_entries()
    world.fleet.terminate(OLD)
    world.until(world.case_is(RESOLVED))
    assert (world.released_instances(), len(world.live_instances())) == ([], 1)
    assert world.case().resolution in {Resolution.EXTERNAL, Resolution.REPLACED}


def test_a_successor_that_terminates_after_the_release_is_replaced_once_there_is_capacity() -> None:
    world = faulty()

    def ends(call: Call) -> None:
        if call.name == "provider.replace":
            world.seam.after = lambda _: None
            world.fleet.terminate(NEW)
            world.launcher.types_without_capacity = {world.fleet.instance_type}

    world.seam.after = ends
    world.process_entries()
    world.until(lambda: world.released_instances() == [OLD])
    world.advance_minutes(5)
    assert world.live_instances() == []
    world.launcher.types_without_capacity = set()
    world.until(world.case_is(RESOLVED))
    assert len(world.live_instances()) == 1


def test_a_pending_successor_is_launched_once() -> None:
    world = World(launch_delay=timedelta(minutes=10))
    world.launch_from_template()
    world.fault_until_resolved()
    assert (len(world.launcher.launch_calls), world.live_instances()) == (1, [NEW])


def test_two_nodes_get_one_instance_each() -> None:
    world = World(nodes=2)
    world.launch_from_template()
    for node in (1, 2):
        world.fault(node)
    world.process_entries()
    for node in (1, 2):
        world.until(world.case_is(RESOLVED, node))
    current = [world.instance(node) for node in (1, 2)]
    assert sorted(current) == world.live_instances()
    launched_for = {one.instance_id: one.case for one in world.fleet.instances.values()}
    assert [launched_for[one] for one in current] == [world.case(node).id for node in (1, 2)]


def test_a_successor_that_is_launched_after_a_failed_reset_backs_the_node_only_from_the_release_on() -> None:
    world = World(rules=(RESET,))
    world.launch_from_template()
    world.verifier.results[OLD] = Verification(Verdict.FAILED)
    world.fault_and_react(code="xid.48")
    world.until(lambda: world.live_instances() == [OLD, NEW], minutes=120)
    world.fault(code="xid.48")
    world.until(world.case_is(RESOLVED), minutes=60)
    released = next(body for body in world.bodies() if body["data"].get("outcome") == "released")
    incarnation = world.node().incarnation
    assert incarnation is not None
    assert incarnation.since >= from_text(released["metadata"]["recorded_at"])
    assert world.live_instances() == [NEW]
