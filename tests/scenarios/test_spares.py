"""A pool of machines that were launched and verified before anybody needs them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from faultbridge.domain.cases import Resolution
from faultbridge.domain.edges import CaseStatus, NodeStatus
from faultbridge.domain.spares import VERIFIED_FOR, Spare, SpareStatus
from faultbridge.errors import Transient
from faultbridge.ports import ProviderFailure, Verdict, Verification
from faultbridge.registry.registration import Registration
from faultbridge.repair.case_orders import CaseOrder
from faultbridge.repair.spares.pool import Pool
from faultbridge.repair.spares.reconcile import LAUNCHED_WITHIN
from faultbridge.simulation.fakes.seams import breaking
from tests.scenarios.world import CLUSTER, GROUP, World

RESOLVED, READY = CaseStatus.RESOLVED, SpareStatus.READY
OLD, NEW = "i-00000000000000001", "i-00000000000000002"
BAD = Verification(Verdict.FAILED, ("pcie: fail",), b"{}")


def pool(world: World) -> tuple[Spare, ...]:
    return Pool(world.table, world.clock).places(CLUSTER)


def ready(world: World) -> list[str]:
    return [str(one.instance_id) for one in pool(world) if one.status is READY]


def configure(world: World, **changes: Any) -> None:
    Registration(world.table, world.append, world.clock).set_cluster(CLUSTER, changes)


def world_with(spares: int, *, nodes: int = 1, orchestrated: bool = False) -> World:
    world = World(nodes=nodes, orchestrated=orchestrated)
    world.launch_from_template()
    configure(world, spares=spares, spare_group=GROUP)
    return world


def filled(spares: int, *, nodes: int = 1, orchestrated: bool = False) -> World:
    world = world_with(spares, nodes=nodes, orchestrated=orchestrated)
    world.until(lambda: len(ready(world)) == spares, minutes=60)
    return world


def steps(world: World, node: int = 1) -> dict[str, dict[str, Any]]:
    return {body["data"]["outcome"]: body["data"] for body in world.bodies(node) if "step" in body["data"]}


def test_as_many_machines_as_are_asked_for_are_launched_and_verified_and_no_more() -> None:
    world = filled(2)
    world.minute(60)
    assert len(ready(world)) == 2
    assert sorted(world.living()) == sorted([OLD, *ready(world)])
    assert {instance for instance, _ in world.verifier.begun.values()} >= set(ready(world))


def test_a_verified_spare_takes_the_node_and_the_record_says_so_and_its_place_is_filled_again() -> None:
    world = filled(1)
    (spare,) = ready(world)
    world.fault()
    world.listen()
    world.until(world.case_is(RESOLVED))
    assert world.node().incarnation is not None
    assert world.node().incarnation.instance_id == spare
    told = steps(world)
    assert told["committed"]["facts"]["capacity_evidence"] == "spare"
    assert told["committed"]["facts"]["spare"] == spare
    assert told["claimed"]["facts"]["spare"] is True
    assert world.fleet.instances[spare].case == world.case().id
    world.until(lambda: len(ready(world)) == 1, minutes=60)
    assert sorted(world.living()) == sorted([spare, *ready(world)])


def test_a_node_gets_a_spare_although_there_is_no_capacity_for_anything_else() -> None:
    world = filled(1)
    world.fleet.spare = 0
    world.fault()
    world.listen()
    assert world.until(world.case_is(RESOLVED)) <= 30
    world.fleet.restock(None)
    world.until(lambda: len(ready(world)) == 1, minutes=60)


def test_two_cases_and_one_spare_are_two_machines() -> None:
    world = filled(1, nodes=2)
    (spare,) = ready(world)
    for node in (1, 2):
        world.fault(node)
    world.listen()
    for node in (1, 2):
        world.until(world.case_is(RESOLVED, node))
    sitting = [world.node(node).incarnation.instance_id for node in (1, 2)]  # type: ignore[union-attr]
    assert len(set(sitting)) == 2
    assert spare in sitting
    evidence = [steps(world, node)["committed"]["facts"]["capacity_evidence"] for node in (1, 2)]
    assert sorted(evidence) == ["launch_first", "spare"]


def test_of_two_cases_that_reach_for_one_spare_in_the_same_moment_one_gets_it() -> None:
    world = filled(1)
    places = Pool(world.table, world.clock)
    (place,) = places.places(CLUSTER)
    assert places.change(place, status=SpareStatus.TAKEN, case="c-1") is not None
    assert places.change(place, status=SpareStatus.TAKEN, case="c-2") is None
    assert places.take(CLUSTER, GROUP, "c-2", None) is None
    assert places.taken_by(CLUSTER, "c-1", ()) == place.instance_id
    assert places.taken_by(CLUSTER, "c-1", (place.instance_id,)) is None


def test_a_spare_that_is_bad_on_arrival_never_waits_and_is_ended_and_followed_by_another() -> None:
    world = world_with(1)
    world.verifier.results["i-00000000000000002"] = BAD
    world.until(lambda: len(ready(world)) == 1, minutes=120)
    assert ready(world) == ["i-00000000000000003"]
    assert sorted(world.living()) == [OLD, "i-00000000000000003"]
    assert world.launcher.ended == ["i-00000000000000002"]


def test_a_spare_that_lacks_a_gpu_never_waits() -> None:
    world = world_with(1)
    world.verifier.results["i-00000000000000002"] = Verification(Verdict.PASSED, gpus=7)
    world.until(lambda: len(ready(world)) == 1, minutes=120)
    assert ready(world) == ["i-00000000000000003"]


def test_a_spare_that_went_bad_while_it_waited_is_found_out_before_it_serves() -> None:
    world = filled(1)
    (spare,) = ready(world)
    world.verifier.results[spare] = BAD
    world.fault()
    world.listen()
    world.until(world.case_is(RESOLVED))
    assert world.released() == [OLD, spare]
    assert world.case().resolution is Resolution.REPLACED


def test_a_verification_counts_for_a_day_and_is_then_repeated() -> None:
    world = filled(1)
    (spare,) = ready(world)
    before = [instance for instance, _ in world.verifier.begun.values()].count(spare)
    world.clock.advance(VERIFIED_FOR)
    assert Pool(world.table, world.clock).take(CLUSTER, GROUP, "c-1", None) is None
    world.until(lambda: ready(world) == [], minutes=5)
    world.until(lambda: ready(world) == [spare], minutes=60)
    assert [instance for instance, _ in world.verifier.begun.values()].count(spare) == before + 1


def test_a_spare_with_another_number_of_gpus_takes_no_node() -> None:
    world = world_with(1)
    configure(world, instance_types=("p5.4xlarge",))
    world.until(lambda: len(ready(world)) == 1, minutes=60)
    configure(world, instance_types=())
    world.fault()
    world.listen()
    world.until(world.case_is(RESOLVED))
    assert steps(world)["committed"]["facts"]["capacity_evidence"] == "launch_first"


def test_a_spare_is_kept_from_work_until_it_is_verified_in_a_node() -> None:
    world = filled(1, orchestrated=True)
    (spare,) = ready(world)
    assert spare in world.orchestrator.cordoned
    world.fault()
    world.listen()
    world.until(world.case_is(RESOLVED))
    assert "node-1" not in world.orchestrator.cordoned


def test_a_case_whose_successor_runs_already_takes_no_spare_beside_it() -> None:
    world = world_with(0)
    world.fault()
    world.provider.fail_next(ProviderFailure.THROTTLED)
    world.listen()
    world.until(world.case_is(CaseStatus.QUEUED))
    configure(world, spares=1)
    world.controls.pause(CLUSTER, paused=True)
    world.until(lambda: len(ready(world)) == 1, minutes=60)
    (spare,) = ready(world)
    world.controls.pause(CLUSTER, paused=False)
    world.until(world.case_is(RESOLVED))
    sitting = world.node().incarnation
    assert sitting is not None
    assert (ready(world), sitting.instance_id) == ([spare], "i-00000000000000002")
    assert steps(world)["committed"]["facts"]["capacity_evidence"] == "launch_first"
    assert sorted(world.living()) == ["i-00000000000000002", spare]


def test_what_a_case_took_and_did_not_need_waits_again() -> None:
    world = filled(1)
    (spare,) = ready(world)
    world.fault()
    world.provider.fail_next(ProviderFailure.PERMISSION_DENIED)
    world.listen()
    world.until(world.case_is(CaseStatus.ESCALATED))
    assert (pool(world)[0].status, ready(world)) == (SpareStatus.TAKEN, [])
    world.node_orders.give_back(world.key(), CaseOrder("an operator", "mended by hand"))
    world.listen()
    world.until(world.case_is(RESOLVED))
    world.minute()
    assert (ready(world), world.status()) == ([spare], NodeStatus.DEGRADED)
    assert world.living() == [OLD, spare]


def test_a_spare_that_is_gone_is_followed_by_another() -> None:
    world = filled(1)
    (spare,) = ready(world)
    world.fleet.terminate(spare)
    world.until(lambda: ready(world) == [], minutes=5)
    world.until(lambda: len(ready(world)) == 1, minutes=60)
    assert ready(world) != [spare]


def test_a_smaller_pool_ends_the_machines_that_are_too_many() -> None:
    world = filled(2)
    configure(world, spares=0)
    world.minute(5)
    assert (pool(world), world.living()) == ((), [OLD])


def test_a_cluster_in_which_nothing_may_be_done_has_no_pool() -> None:
    from faultbridge.domain.clusters import Mode

    world = world_with(2)
    world.set_mode(Mode.DRY_RUN)
    world.minute(30)
    assert (pool(world), world.living()) == ((), [OLD])


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
def test_a_call_that_breaks_costs_time_and_no_machine(call: str, side: str) -> None:
    world = world_with(1)
    world.verifier.results["i-00000000000000002"] = BAD
    setattr(world.seam, side, breaking(*[(call, Transient("lost"))] * 3))
    world.until(lambda: len(ready(world)) == 1, minutes=180)
    assert sorted(world.living()) == sorted([OLD, *ready(world)])


@pytest.mark.parametrize("failure", [ProviderFailure.AMBIGUOUS, ProviderFailure.TIMEOUT])
def test_a_launch_of_which_nobody_knows_is_one_launch(failure: ProviderFailure) -> None:
    world = world_with(1)
    world.launcher.fail_next(failure, effect=True)
    world.launcher.hidden_until = world.clock.now() + timedelta(minutes=10)
    world.until(lambda: len(ready(world)) == 1, minutes=60)
    assert sorted(world.living()) == sorted([OLD, *ready(world)])


def test_without_capacity_the_pool_asks_again_at_intervals() -> None:
    world = world_with(1)
    world.fleet.spare = 0
    world.minute(60)
    assert 2 <= len(world.launcher.asked) <= 7
    world.fleet.restock(1)
    world.until(lambda: len(ready(world)) == 1, minutes=60)


def test_a_place_that_somebody_filled_meanwhile_is_not_given_up() -> None:
    world = World()
    places = Pool(world.table, world.clock)
    empty = places.change(Spare(CLUSTER, 1, GROUP), reason="no capacity")
    assert empty is not None
    places.change(empty, status=SpareStatus.LAUNCHING)
    places.drop(empty)
    assert [one.status for one in pool(world)] == [SpareStatus.LAUNCHING]


def unreachable(spares: int) -> World:
    """A pool whose first machine runs, and whose orchestrator keeps no work off it."""
    world = world_with(spares, orchestrated=True)
    world.orchestrator.silent_until = world.clock.now() + timedelta(hours=2)
    world.until(lambda: len(world.living()) == 2, minutes=5)
    return world


def test_a_machine_that_work_cannot_be_kept_off_is_given_up_after_half_an_hour() -> None:
    world = unreachable(1)
    world.until(lambda: pool(world)[0].status is SpareStatus.ENDING, minutes=60)
    assert world.clock.now() - world.fleet.instances[NEW].launched_at == LAUNCHED_WITHIN
    world.minute()
    assert world.living() == [OLD]


def test_a_machine_that_is_launched_for_a_pool_that_became_smaller_is_ended_at_once() -> None:
    world = unreachable(1)
    configure(world, spares=0)
    world.minute(3)
    assert (world.living(), pool(world)) == ([OLD], ())


def test_a_place_stays_empty_for_ten_minutes_after_a_launch_that_came_to_nothing() -> None:
    world = world_with(1)
    world.launcher.dry = {world.fleet.instance_type}
    asked = [world.until(lambda count=count: len(world.launcher.asked) == count, minutes=60) for count in (1, 2)]
    assert asked[1] == 11


def test_a_verification_that_nobody_can_tell_of_is_begun_anew() -> None:
    world = world_with(1)
    world.verifier.results[NEW] = Verification(Verdict.UNKNOWN)
    world.until(lambda: [instance for instance, _ in world.verifier.begun.values()].count(NEW) > 1, minutes=60)
    world.verifier.results.pop(NEW)
    world.until(lambda: ready(world) == [NEW], minutes=60)
