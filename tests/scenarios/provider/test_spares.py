"""The spare pool: instances launched and verified before a repair needs them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from faultbridge.model.cluster.config import CapacitySource
from faultbridge.model.cluster.state import VERIFIED_FOR, Spare, SpareStatus
from faultbridge.model.enums import CaseStatus, NodeStatus, ProviderFailure, Resolution
from faultbridge.model.errors import Misconfigured, Transient, Unverifiable
from faultbridge.model.values import replace
from faultbridge.record.ports.compute import CallResult, Verdict, Verification
from faultbridge.repair.case_orders import OperatorOrder
from faultbridge.repair.spares.pool import SparePool
from faultbridge.repair.spares.reconcile import LAUNCH_TIMEOUT, REFUSED_DELAY
from faultbridge.repair.successor.launch import end_unused_launches
from tests.scenarios.provider.builders import READY, RESOLVED, configure, pool, ready, world_with, world_with_ready
from tests.scenarios.world import CLUSTER, GROUP, World
from tests.sim.fakes import raise_once
from tests.sim.fakes.seam import Call

OLD, NEW = "i-00000000000000001", "i-00000000000000002"
BAD = Verification(Verdict.FAILED, ("pcie: fail",), b"{}")


def steps(world: World, node: int = 1) -> dict[str, dict[str, Any]]:
    return {body["data"]["outcome"]: body["data"] for body in world.bodies(node) if "step" in body["data"]}


def test_exactly_the_configured_number_of_spares_is_launched_and_verified() -> None:
    world = world_with_ready(2)
    world.advance_minutes(60)
    assert len(ready(world)) == 2
    assert sorted(world.live_instances()) == sorted([OLD, *ready(world)])
    assert {instance for instance, _ in world.verifier.started.values()} >= set(ready(world))


def test_a_verified_spare_becomes_the_successor_and_the_pool_is_refilled() -> None:
    world = world_with_ready(1)
    (spare,) = ready(world)
    world.fault_until_resolved()
    assert world.instance() == spare
    facts = steps(world)
    assert facts["committed"]["facts"]["capacity_evidence"] == "spare"
    assert facts["committed"]["facts"]["spare"] == spare
    assert facts["claimed"]["facts"]["spare"] is True
    assert world.fleet.instances[spare].case == world.case().id
    world.until(lambda: len(ready(world)) == 1, minutes=60)
    assert sorted(world.live_instances()) == sorted([spare, *ready(world)])


def test_a_node_gets_a_spare_although_there_is_no_other_capacity() -> None:
    world = world_with_ready(1)
    world.fleet.capacity_left = 0
    world.fault_and_react()
    assert world.until(world.case_is(RESOLVED)) <= 30
    world.fleet.set_capacity(None)
    world.until(lambda: len(ready(world)) == 1, minutes=60)


def test_two_cases_with_one_spare_get_two_instances() -> None:
    world = world_with_ready(1, nodes=2)
    (spare,) = ready(world)
    for node in (1, 2):
        world.fault(node)
    world.process_entries()
    for node in (1, 2):
        world.until(world.case_is(RESOLVED, node))
    current = [world.instance(node) for node in (1, 2)]
    assert len(set(current)) == 2
    assert spare in current
    evidence = [steps(world, node)["committed"]["facts"]["capacity_evidence"] for node in (1, 2)]
    assert sorted(evidence) == ["launch_first", "spare"]


def test_one_of_two_concurrent_cases_gets_the_spare() -> None:
    world = world_with_ready(1)
    places = SparePool(world.table, world.clock)
    (place,) = places.spares(CLUSTER)
    assert places.change(place, status=SpareStatus.TAKEN, case="c-1") is not None
    assert places.change(place, status=SpareStatus.TAKEN, case="c-2") is None
    assert places.take(CLUSTER, GROUP, "c-2", None, lambda _: True) is None
    assert places.taken_by(CLUSTER, "c-1", ()) == place.instance_id
    assert places.taken_by(CLUSTER, "c-1", (place.instance_id,)) is None


def test_a_spare_is_not_taken_for_a_node_of_another_group() -> None:
    world = world_with_ready(1)
    spares = SparePool(world.table, world.clock)
    assert spares.take(CLUSTER, "others", "c-1", None, lambda _: True) is None
    assert spares.take(CLUSTER, GROUP, "c-1", None, lambda _: True) == NEW


def test_a_spare_that_is_given_back_leaves_the_spare_of_another_case_taken() -> None:
    world = world_with_ready(2)
    places = SparePool(world.table, world.clock)
    first, second = (places.take(CLUSTER, GROUP, case, None, lambda _: True) for case in ("c-1", "c-2"))
    places.give_back(CLUSTER, str(first), world.launcher)
    assert (ready(world), places.taken_by(CLUSTER, "c-2", ())) == ([first], second)


def test_a_bad_spare_is_never_ready_and_is_replaced() -> None:
    world = world_with(1)
    world.verifier.results["i-00000000000000002"] = BAD
    world.until(lambda: len(ready(world)) == 1, minutes=120)
    assert ready(world) == ["i-00000000000000003"]
    assert sorted(world.live_instances()) == [OLD, "i-00000000000000003"]
    assert world.launcher.terminated == ["i-00000000000000002"]


def test_a_spare_without_a_result_in_time_is_terminated() -> None:
    world = world_with(1)
    world.verifier.results[NEW] = Verification(Verdict.UNKNOWN)
    world.until(lambda: world.launcher.terminated == [NEW], minutes=200)
    assert [one.reason for one in pool(world)] == ["the instance could not be verified"]


def test_the_verifications_of_a_spare_are_counted_from_the_start_for_its_next_instance() -> None:
    world = world_with(1)
    world.verifier.results[NEW] = BAD
    world.until(lambda: len(ready(world)) == 1, minutes=120)
    assert [one.verifications for one in pool(world)] == [1]


@pytest.mark.parametrize(
    ("accepted", "gone", "status"),
    [(True, False, SpareStatus.EMPTY), (False, True, SpareStatus.EMPTY), (False, False, SpareStatus.ENDING)],
)
def test_a_position_is_empty_once_its_termination_is_accepted_or_its_instance_is_gone(
    accepted: bool, gone: bool, status: SpareStatus
) -> None:
    world = world_with(1)
    world.verifier.results[NEW] = BAD
    world.until(lambda: [one.status for one in pool(world)] == [SpareStatus.ENDING], minutes=60)
    answer = CallResult() if accepted else CallResult(ProviderFailure.THROTTLED, "too many calls")
    world.launcher.terminate = lambda _: answer  # type: ignore[method-assign]
    if gone:
        world.fleet.terminate(NEW)
    world.advance_minutes()
    assert [one.status for one in pool(world)] == [status]


def refuse_verification(world: World, *instances: str, error: type[Misconfigured | Transient] = Unverifiable) -> None:
    """Let the start of each verification of these instances fail; without instances, of every launched one."""

    def refuse(call: Call) -> None:
        if call.name == "verifier.start" and (not instances or call.argument[0] in instances):
            raise error(f"no thresholds for the type of {call.argument[0]}")

    world.seam.before = refuse


def test_a_spare_of_a_type_that_cannot_be_verified_is_terminated_and_the_sweep_states_why_once() -> None:
    world = world_with(1)
    refuse_verification(world)
    failures = [line for _ in range(180) for line in world.advance_minutes().failures]
    (spare,) = pool(world)
    reason = f"no thresholds for the type of {NEW}"
    assert (spare.status, spare.reason) == (SpareStatus.EMPTY, f"refused by ssm-dcgm: {reason}")
    assert world.live_instances() == [OLD]
    assert world.launcher.terminated == [NEW]
    assert [line.endswith(f"spare 1: {reason}") for line in failures] == [True]


def test_a_refused_spare_is_launched_again_after_a_day() -> None:
    world = world_with(1)
    refuse_verification(world, NEW)
    world.until(lambda: world.launcher.terminated == [NEW], minutes=60)
    world.advance_minutes(60)
    assert len(world.launcher.launch_calls) == 1
    world.clock.advance(REFUSED_DELAY)
    world.until(lambda: ready(world) == ["i-00000000000000003"], minutes=60)


def test_another_verifier_launches_a_refused_spare_within_minutes() -> None:
    world = world_with(1)
    refuse_verification(world, NEW)
    world.until(lambda: world.launcher.terminated == [NEW], minutes=60)
    configure(world, verifier="ssm-deep")
    world.until(lambda: ready(world) == ["i-00000000000000003"], minutes=60)


def test_a_ready_spare_that_can_no_longer_be_verified_is_terminated() -> None:
    world = world_with_ready(1)
    refuse_verification(world)
    world.clock.advance(VERIFIED_FOR)
    world.until(lambda: pool(world)[0].status is SpareStatus.EMPTY, minutes=10)
    assert world.live_instances() == [OLD]


def test_a_spare_whose_verification_lacks_a_permission_keeps_its_instance_and_each_sweep_states_why() -> None:
    world = world_with(1)
    refuse_verification(world, NEW, error=Misconfigured)
    swept = world.advance_minutes(180)
    assert [one.status for one in pool(world)] == [SpareStatus.LAUNCHING]
    assert sorted(world.live_instances()) == [OLD, NEW]
    assert any("spare 1: no thresholds" in line for line in swept.failures)


@pytest.mark.parametrize("error", [Misconfigured, Unverifiable])
def test_a_spare_whose_verification_cannot_start_does_not_stop_the_other_one(error: type[Misconfigured]) -> None:
    world = world_with(2)
    refuse_verification(world, NEW, error=error)
    world.until(lambda: len(ready(world)) == 1, minutes=60)
    assert ready(world) == ["i-00000000000000003"]


def test_a_verifier_that_this_installation_does_not_have_is_named_and_stops_no_other_step_of_the_sweep() -> None:
    world = world_with(1)
    configure(world, verifier="absent")
    swept = world.advance_minutes(60)
    assert any("spare 1: unknown verifier: 'absent'; known: ssm-dcgm" in line for line in swept.failures)
    assert not [line for line in swept.failures if "KeyError" in line]


def test_a_spare_that_is_not_configured_any_more_is_terminated_during_its_verification() -> None:
    world = world_with(1)
    world.until(lambda: SpareStatus.VERIFYING in {one.status for one in pool(world)}, minutes=60)
    configure(world, spares=0)
    world.until(lambda: SpareStatus.VERIFYING not in {one.status for one in pool(world)}, minutes=5)
    assert [one.reason for one in pool(world)] == ["the pool was made smaller"]


def test_a_spare_whose_step_is_repeated_does_not_stop_the_other_one() -> None:
    world = world_with(2)
    refuse_verification(world, NEW, error=Transient)
    swept = world.advance_minutes(60)
    assert ready(world) == ["i-00000000000000003"]
    assert any("spare 1: no thresholds" in line for line in swept.failures)


def test_a_verification_that_has_to_wait_to_start_counts_once() -> None:
    world = world_with_ready(1)
    (before,) = pool(world)
    refuse_verification(world, NEW, error=Transient)
    world.clock.advance(VERIFIED_FOR)
    world.advance_minutes(30)
    (waiting,) = pool(world)
    assert (waiting.status, waiting.verifications) == (READY, before.verifications)
    world.seam.before = lambda _: None
    world.until(lambda: pool(world)[0].status is SpareStatus.VERIFYING, minutes=10)
    assert pool(world)[0].verifications == before.verifications + 1


def test_a_spare_whose_verification_cannot_start_is_terminated_with_its_pool() -> None:
    world = world_with(1)
    refuse_verification(world, NEW, error=Misconfigured)
    world.advance_minutes(10)
    configure(world, spares=0)
    world.until(lambda: pool(world) == (), minutes=10)
    assert world.live_instances() == [OLD]


def test_a_spare_with_a_missing_gpu_is_never_ready() -> None:
    world = world_with(1)
    world.verifier.results["i-00000000000000002"] = Verification(Verdict.PASSED, gpus=7)
    world.until(lambda: len(ready(world)) == 1, minutes=120)
    assert ready(world) == ["i-00000000000000003"]


def test_a_spare_that_became_bad_is_detected_before_it_serves() -> None:
    world = world_with_ready(1)
    (spare,) = ready(world)
    world.verifier.results[spare] = BAD
    world.fault_until_resolved()
    assert world.released_instances() == [OLD, spare]
    assert world.case().resolution is Resolution.REPLACED


def test_a_spare_verification_is_valid_for_a_day_and_then_repeated() -> None:
    world = world_with_ready(1)
    (spare,) = ready(world)
    before = [instance for instance, _ in world.verifier.started.values()].count(spare)
    world.clock.advance(VERIFIED_FOR)
    assert SparePool(world.table, world.clock).take(CLUSTER, GROUP, "c-1", None, lambda _: True) is None
    world.until(lambda: ready(world) == [], minutes=5)
    world.until(lambda: ready(world) == [spare], minutes=60)
    assert [instance for instance, _ in world.verifier.started.values()].count(spare) == before + 1


def test_a_spare_with_another_number_of_gpus_is_not_used() -> None:
    world = world_with(1)
    configure(world, instance_types=("p5.4xlarge",))
    world.until(lambda: len(ready(world)) == 1, minutes=60)
    configure(world, instance_types=())
    world.fault_until_resolved()
    assert steps(world)["committed"]["facts"]["capacity_evidence"] == "launch_first"


def test_a_spare_stays_cordoned_until_it_is_verified_as_a_node() -> None:
    world = world_with_ready(1, orchestrated=True)
    (spare,) = ready(world)
    assert spare in world.orchestrator.cordoned
    world.fault_until_resolved()
    assert "node-1" not in world.orchestrator.cordoned


def test_a_case_with_a_running_successor_takes_no_spare() -> None:
    world = world_with(0)
    world.fault()
    world.provider.fail_next(ProviderFailure.THROTTLED)
    world.until_case(CaseStatus.QUEUED)
    configure(world, spares=1)
    world.controls.pause(CLUSTER)
    world.until(lambda: len(ready(world)) == 1, minutes=60)
    (spare,) = ready(world)
    world.controls.resume(CLUSTER, force=True)
    world.until(world.case_is(RESOLVED))
    current = world.instance()
    assert (ready(world), current) == ([spare], "i-00000000000000002")
    assert steps(world)["committed"]["facts"]["capacity_evidence"] == "launch_first"
    assert sorted(world.live_instances()) == ["i-00000000000000002", spare]


def taken(world: World) -> str | None:
    return next((one.instance_id for one in pool(world) if one.status is SpareStatus.TAKEN), None)


def test_a_node_whose_instance_another_controller_terminated_gets_a_ready_spare() -> None:
    world = world_with_ready(1)
    (spare,) = ready(world)
    world.fleet.set_capacity(0)
    world.fleet.terminate(OLD)
    world.fault_and_react()
    assert world.until(world.case_is(RESOLVED)) <= 30
    node, facts = world.node(), steps(world)
    assert (world.case().resolution, node.incarnation.instance_id) == (Resolution.EXTERNAL, spare)  # type: ignore[union-attr]
    assert not list(node.active())
    assert node.incarnation.since >= world.case().opened_at  # type: ignore[union-attr]
    assert facts["spare_taken"]["facts"]["capacity_evidence"] == "spare"
    assert [one["source"] for one in facts["spare_taken"]["facts"]["capacity_sources"]] == ["spare_pool"]
    assert (facts["spare_taken"]["old_instance"], facts["spare_taken"]["new_instance"]) == (OLD, spare)
    assert facts["claimed"]["facts"]["spare"] is True
    assert world.fleet.instances[spare].case == world.case().id
    world.fleet.set_capacity(None)
    world.until(lambda: len(ready(world)) == 1, minutes=60)


def test_a_spare_that_is_taken_for_a_lost_instance_is_claimed_in_the_same_step() -> None:
    world = world_with_ready(1)
    (spare,) = ready(world)
    world.fleet.terminate(OLD)
    world.fault_and_react()
    assert (world.status(), world.instance()) == (NodeStatus.VALIDATING, spare)


def test_a_spare_that_is_terminated_after_the_release_is_followed_by_another_spare() -> None:
    world = world_with_ready(2)
    first, second = ready(world)
    world.fleet.set_capacity(0)

    def terminate_after_release(call: Call) -> None:
        if call.name == "provider.replace":
            world.seam.after = lambda _: None
            assert taken(world) == first
            world.fleet.terminate(first)

    world.seam.after = terminate_after_release
    world.fault_and_react()
    assert world.until(world.case_is(RESOLVED)) <= 60
    assert world.instance() == second
    assert (world.live_instances(), ready(world)) == ([second], [])


def test_a_successor_is_launched_after_the_spares_of_a_case_could_not_be_claimed() -> None:
    world = world_with_ready(2)
    spares, listed = set(ready(world)), world.launcher.launched
    world.launcher.launched = lambda request: tuple(one for one in listed(request) if one.instance_id not in spares)  # type: ignore[method-assign]
    world.fleet.terminate(OLD)
    world.fault_and_react()
    assert world.until(world.case_is(RESOLVED)) <= 60
    assert world.instance() not in {OLD, *spares}
    assert len([line for line in world.record_history() if "spare_taken" in line]) <= len(spares)


@pytest.mark.parametrize(
    ("capacity_left", "sources", "is_spare_used"),
    [
        (0, (CapacitySource.SPARE_POOL, CapacitySource.ON_DEMAND), True),
        (9, (CapacitySource.SPARE_POOL, CapacitySource.ON_DEMAND), True),
        (0, (CapacitySource.ON_DEMAND, CapacitySource.SPARE_POOL), True),
        (9, (CapacitySource.ON_DEMAND, CapacitySource.SPARE_POOL), False),
        (9, (CapacitySource.ON_DEMAND,), False),
    ],
)
def test_a_node_without_instance_gets_a_spare_in_the_order_of_the_policy(
    capacity_left: int, sources: tuple[CapacitySource, ...], is_spare_used: bool
) -> None:
    world = world_with_ready(1)
    (spare,) = ready(world)
    world.policy = replace(world.policy, capacity=sources)
    world.fleet.set_capacity(capacity_left)
    world.fleet.terminate(OLD)
    world.fault_until_resolved()
    assert (world.instance() == spare) is is_spare_used


def test_while_no_spare_is_ready_a_refused_launch_is_tried_again() -> None:
    world = world_with(0)
    world.policy = replace(world.policy, capacity=(CapacitySource.ON_DEMAND, CapacitySource.SPARE_POOL))
    world.fleet.set_capacity(0)
    world.fleet.terminate(OLD)
    world.fault_and_react(minutes=20)
    world.fleet.set_capacity(None)
    assert world.until(world.case_is(RESOLVED)) <= 60


def test_without_a_launchable_type_nothing_is_released_although_a_spare_is_ready() -> None:
    world = world_with_ready(1)
    (spare,) = ready(world)
    configure(world, instance_types=("p5.4xlarge",))
    world.fault_until(CaseStatus.ESCALATED)
    assert (world.released_instances(), ready(world)) == ([], [spare])
    assert "as many GPUs" in str(world.case().reason)


def test_a_policy_without_the_spare_pool_takes_no_spare() -> None:
    world = world_with_ready(1)
    world.policy = replace(world.policy, capacity=(CapacitySource.ON_DEMAND,))
    world.fleet.set_capacity(0)
    world.fleet.terminate(OLD)
    world.fault_and_react()
    world.until(world.case_is(CaseStatus.ESCALATED), minutes=9 * 60)
    assert len(ready(world)) == 1


def check_that_an_untagged_spare_is_not_claimed(world: World) -> None:
    (spare,) = ready(world)
    world.fleet.terminate(OLD)
    world.fault_and_react()
    assert (taken(world), world.instance()) == (spare, OLD)
    world.until(world.case_is(RESOLVED))
    assert (world.fleet.instances[spare].case, world.live_instances()[0]) == (world.case().id, spare)


def test_a_spare_is_claimed_only_after_it_is_tagged_with_its_case() -> None:
    world = world_with_ready(1)
    world.seam.before = raise_once(("launcher.assign", Transient("lost")))
    check_that_an_untagged_spare_is_not_claimed(world)


def test_a_spare_whose_tag_the_provider_refuses_is_not_claimed_yet() -> None:
    world = world_with_ready(1)
    assign, refused = world.launcher.assign, [CallResult(ProviderFailure.THROTTLED, "too many calls")]
    world.launcher.assign = lambda *given: refused.pop() if refused else assign(*given)  # type: ignore[method-assign]
    check_that_an_untagged_spare_is_not_claimed(world)


def test_a_spare_is_tagged_with_its_case_once() -> None:
    world = world_with_ready(1)
    (spare,) = ready(world)
    world.fault_until_resolved()
    assert [call.argument for call in world.seam.named("launcher.assign")] == [(spare, world.case().id)]


def test_a_taken_spare_that_was_not_needed_becomes_ready_again() -> None:
    world = world_with_ready(1)
    (spare,) = ready(world)
    world.fault()
    world.provider.fail_next(ProviderFailure.PERMISSION_DENIED)
    world.until_case(CaseStatus.ESCALATED)
    world.advance_minutes(5)  # the next attempt of the case may still use the spare
    assert (pool(world)[0].status, ready(world)) == (SpareStatus.TAKEN, [])
    world.node_orders.return_node(world.key(), OperatorOrder("an operator", "repaired by hand"))
    world.until_case(RESOLVED)
    world.advance_minutes()
    assert (ready(world), world.status()) == ([spare], NodeStatus.DEGRADED)
    assert world.live_instances() == [OLD, spare]


def test_a_taken_spare_whose_case_is_not_stored_is_given_to_no_other_case() -> None:
    """A restore may have lost the case, and the spare may serve."""
    world = world_with_ready(1)
    assert SparePool(world.table, world.clock).take(CLUSTER, GROUP, "c-lost", None, lambda _: True) == NEW
    world.advance_minutes(5)
    assert (taken(world), ready(world)) == (NEW, [])


def test_a_terminated_spare_is_replaced() -> None:
    world = world_with_ready(1)
    (spare,) = ready(world)
    world.fleet.terminate(spare)
    world.until(lambda: ready(world) == [], minutes=5)
    world.until(lambda: len(ready(world)) == 1, minutes=60)
    assert ready(world) != [spare]


def test_a_smaller_pool_terminates_its_surplus_spares() -> None:
    world = world_with_ready(2)
    configure(world, spares=0)
    world.advance_minutes(5)
    assert (pool(world), world.live_instances()) == ((), [OLD])


def test_a_spare_of_a_former_group_is_replaced_by_one_of_the_new_group() -> None:
    world = world_with_ready(1)
    world.fleet.templates.add("others")
    configure(world, spare_group="others")
    world.until(lambda: ready(world) not in ([], [NEW]), minutes=60)
    assert [one.group for one in pool(world)] == ["others"]
    assert world.live_instances() == [OLD, *ready(world)]


def test_a_cluster_without_repair_permission_has_no_pool() -> None:
    from faultbridge.model.cluster.config import Mode

    world = world_with(2)
    world.set_mode(Mode.DRY_RUN)
    world.advance_minutes(30)
    assert (pool(world), world.live_instances()) == ((), [OLD])


CALLS = (
    "launcher.launch",
    "launcher.launched",
    "launcher.terminate",
    "verifier.start",
    "verifier.status",
    "table.write",
)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("side", ["before", "after"])
def test_a_failed_call_delays_the_pool_and_loses_no_instance(call: str, side: str) -> None:
    world = world_with(1)
    world.verifier.results["i-00000000000000002"] = BAD
    setattr(world.seam, side, raise_once(*[(call, Transient("lost"))] * 3))
    world.until(lambda: len(ready(world)) == 1, minutes=180)
    assert sorted(world.live_instances()) == sorted([OLD, *ready(world)])


@pytest.mark.parametrize("failure", [ProviderFailure.AMBIGUOUS, ProviderFailure.TIMEOUT])
def test_an_uncertain_launch_launches_once(failure: ProviderFailure) -> None:
    world = world_with(1)
    world.launcher.fail_next(failure, effect=True)
    world.launcher.fail_next(ProviderFailure.THROTTLED)
    world.launcher.hidden_until = world.clock.now() + timedelta(minutes=10)
    world.until(lambda: len(ready(world)) == 1, minutes=60)
    assert sorted(world.live_instances()) == sorted([OLD, *ready(world)])


def test_a_launch_that_the_provider_lists_after_the_pool_gave_it_up_leaves_no_instance() -> None:
    world = world_with(1)
    world.launcher.hidden_until = world.clock.now() + LAUNCH_TIMEOUT + timedelta(minutes=5)
    world.advance_minutes(50)
    assert len(world.live_instances()) == 3, "the pool has launched another instance"
    world.advance_minutes(120)
    assert len(ready(world)) == 1
    assert sorted(world.live_instances()) == sorted([OLD, *ready(world)])


def test_a_launch_for_the_pool_that_lasts_over_the_hour_is_kept() -> None:
    world = world_with(1)
    world.launcher.hidden_until = world.clock.now() + LAUNCH_TIMEOUT - timedelta(minutes=5)
    world.until(lambda: [one.status for one in pool(world)] == [SpareStatus.LAUNCHING])
    world.advance_minutes(2)
    kept = world.live_instances()
    assert len(kept) == 2
    world.clock.advance_to(world.clock.now().replace(minute=0, second=0, microsecond=0) + timedelta(hours=1))
    end_unused_launches(world.step_runner.tools, CLUSTER)
    assert world.live_instances() == kept


def test_without_capacity_the_pool_retries_at_intervals() -> None:
    world = world_with(1)
    world.fleet.capacity_left = 0
    world.advance_minutes(60)
    assert 2 <= len(world.launcher.launch_calls) <= 7
    world.fleet.set_capacity(1)
    world.until(lambda: len(ready(world)) == 1, minutes=60)


def test_a_spare_filled_concurrently_is_kept() -> None:
    world = World()
    places = SparePool(world.table, world.clock)
    empty = places.change(Spare(CLUSTER, 1, GROUP), reason="no capacity")
    assert empty is not None
    places.change(empty, status=SpareStatus.LAUNCHING)
    places.drop(empty)
    assert [one.status for one in pool(world)] == [SpareStatus.LAUNCHING]


def world_with_unreachable_orchestrator(spares: int) -> World:
    """Return a world whose first spare cannot be cordoned because the orchestrator is unreachable."""
    world = world_with(spares, orchestrated=True)
    world.orchestrator.unreachable_until = world.clock.now() + timedelta(hours=2)
    world.until(lambda: len(world.live_instances()) == 2, minutes=5)
    return world


def test_a_spare_that_cannot_be_cordoned_is_terminated_after_half_an_hour() -> None:
    world = world_with_unreachable_orchestrator(1)
    world.until(lambda: pool(world)[0].status is SpareStatus.ENDING, minutes=60)
    assert world.clock.now() - world.fleet.instances[NEW].launched_at == LAUNCH_TIMEOUT
    world.advance_minutes()
    assert world.live_instances() == [OLD]


def test_a_launch_for_a_pool_that_became_smaller_is_terminated_at_once() -> None:
    world = world_with_unreachable_orchestrator(1)
    configure(world, spares=0)
    world.advance_minutes(3)
    assert (world.live_instances(), pool(world)) == ([OLD], ())


def test_after_a_failed_launch_the_pool_waits_ten_minutes() -> None:
    world = world_with(1)
    world.launcher.types_without_capacity = {world.fleet.instance_type}
    minutes = [
        world.until(lambda count=count: len(world.launcher.launch_calls) == count, minutes=60) for count in (1, 2)
    ]
    assert minutes[1] == 11


def test_a_verification_without_result_is_restarted() -> None:
    world = world_with(1)
    world.verifier.results[NEW] = Verification(Verdict.UNKNOWN)
    world.until(lambda: [instance for instance, _ in world.verifier.started.values()].count(NEW) > 1, minutes=60)
    world.verifier.results.pop(NEW)
    world.until(lambda: ready(world) == [NEW], minutes=60)
    assert [instance for instance, _ in world.verifier.started.values()].count(NEW) == 2
