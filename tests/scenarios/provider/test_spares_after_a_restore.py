"""Spares after the table was restored from a backup: the tags at the provider are newer than the table."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest

from faultbridge.model.cluster.state import SpareStatus
from faultbridge.model.enums import CaseStatus
from faultbridge.model.values import replace
from faultbridge.record.ports.compute import Verdict, Verification
from faultbridge.repair.spares.pool import SparePool
from faultbridge.repair.spares.reconcile import drop_taken_spares
from tests.scenarios.provider.builders import launched_and_then_retired, pool, ready, world_with, world_with_ready
from tests.scenarios.world import CLUSTER, World
from tests.sim.fakes import Call

RESOLVED = CaseStatus.RESOLVED
CONTENTS = ("_partitions", "_versions", "_index_members")


def back_up(world: World) -> Callable[[], None]:
    """Copy the table, and return the function that restores the copy."""
    kept = copy.deepcopy({name: getattr(world.table, name) for name in CONTENTS})

    def restore() -> None:
        for name, content in copy.deepcopy(kept).items():
            setattr(world.table, name, content)
        world._streamed = len(world.table.stream)
        world.reads.forget()

    return restore


def replace_node(world: World, node: int = 1) -> str:
    world.fault_until(RESOLVED, node)
    return world.instance(node)


def verified(world: World) -> list[str]:
    return [instance for instance, _ in world.verifier.started.values()]


def test_a_spare_that_serves_a_node_since_the_backup_is_not_given_to_another_node() -> None:
    world = world_with_ready(1, nodes=3)
    restore = back_up(world)
    serving = replace_node(world, 1)
    before = len(verified(world))
    restore()
    assert ready(world) == [serving], "the restored table has a wrong pool"
    world.fault_until(RESOLVED, 2)
    assert world.instance(2) != serving
    assert serving in world.live_instances()
    assert serving not in verified(world)[before:]


@pytest.mark.parametrize("status", ["launching", "verifying", "ready"])
@pytest.mark.parametrize("fails", [False, True], ids=["passes", "fails"])
def test_a_pool_that_was_restored_to_any_status_neither_verifies_nor_terminates_the_instance_that_serves(
    status: str, fails: bool
) -> None:
    world = world_with(1, nodes=2)
    world.until(lambda: [one.status for one in pool(world)] == [status])
    restore = back_up(world)
    world.until(lambda: len(ready(world)) == 1)
    serving = replace_node(world)
    world.advance_minutes(60)
    restore()
    before = len(verified(world))
    if fails:
        world.verifier.results[serving] = Verification(Verdict.FAILED, ("busy: fail",), b"{}")
    world.advance_minutes(26 * 60, every=10)
    assert serving in world.live_instances()
    assert serving not in verified(world)[before:]
    assert (len(ready(world)), serving in ready(world)) == (1, False), "the pool has another instance"


def test_a_spare_that_was_being_terminated_in_the_restored_table_and_serves_is_kept() -> None:
    world = world_with_ready(1)
    serving = replace_node(world)
    world.until(lambda: len(ready(world)) == 1)
    (position,) = pool(world)
    SparePool(world.table, world.clock).change(position, status=SpareStatus.ENDING, instance_id=serving)
    world.advance_minutes(30)
    assert serving in world.live_instances()


def test_a_case_does_not_claim_its_recorded_spare_if_the_tag_names_another_case() -> None:
    world = world_with_ready(1)
    (spare,) = ready(world)

    def serves_another_node(call: Call) -> None:
        if call.name == "table.transact" and world.case().attempt and world.case().attempt.intent:
            world.seam.after = lambda _: None
            world.fleet.instances[spare] = replace(world.fleet.instances[spare], case="c-other")

    world.fault()
    world.seam.after = serves_another_node
    world.until_case(RESOLVED)
    world.advance_minutes(60)
    assert world.instance() != spare
    assert (spare in world.live_instances(), world.fleet.instances[spare].case) == (True, "c-other")


def test_recover_removes_a_spare_that_serves_from_the_pool_and_names_it() -> None:
    world = world_with_ready(1)
    restore = back_up(world)
    serving = replace_node(world)
    restore()
    tools = replace(world.step_runner.tools, table=world.reads)
    assert drop_taken_spares(tools, CLUSTER) == [serving]
    assert ([one.status for one in pool(world)], serving in world.live_instances()) == (["empty"], True)
    assert drop_taken_spares(tools, CLUSTER) == []


def test_a_spare_that_a_case_gives_back_has_the_tag_of_the_pool_again() -> None:
    world = world_with_ready(1)
    (spare,) = ready(world)
    world.fault()
    taken = SparePool(world.table, world.clock)
    world.process_entries()
    world.until(lambda: world.fleet.instances[spare].case == world.case().id)
    taken.give_back(CLUSTER, spare, world.launcher)
    assert (ready(world), world.fleet.instances[spare].case) == ([spare], pool(world)[0].owner)


def test_an_unused_launch_is_kept_while_repairs_are_paused_for_a_comparison() -> None:
    world = launched_and_then_retired()
    kept = world.live_instances()
    world.pause_repairs(paused=True)
    world.advance_minutes(120)
    assert world.live_instances() == kept
    world.pause_repairs(paused=False)
    world.advance_minutes(60)
    assert world.live_instances() == []
