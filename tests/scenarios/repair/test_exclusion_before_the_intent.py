"""An exclusion that is ordered while a node drains ends the attempt before its intent."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from faultbridge.model.cluster.config import Mode, RepairOwner
from faultbridge.model.enums import CaseStatus, NodeStatus, Resolution, WaitingFor
from faultbridge.repair.case_orders import OperatorOrder
from tests.scenarios.repair.builders import HOURS, ignore, maintain, set_cluster
from tests.scenarios.world import World


def observe(world: World) -> None:
    world.set_mode(Mode.OBSERVE)


def dry_run(world: World) -> None:
    world.set_mode(Mode.DRY_RUN)


def end_repairs(world: World) -> None:
    set_cluster(world, repair_owner=RepairOwner.OBSERVE)


def world_that_drains() -> World:
    """Return a world in which the attempt of node 1 waits for a job that ends in 25 minutes."""
    world = World(orchestrated=True)
    world.orchestrator.busy_until["node-1"] = world.clock.now() + timedelta(minutes=25)
    world.fault_and_react(minutes=2)
    assert world.status() is NodeStatus.DRAINING
    return world


@pytest.mark.parametrize("exclude", [ignore, maintain, observe, dry_run, end_repairs])
def test_no_instance_is_released_after_its_node_or_cluster_was_excluded(exclude: Callable[[World], None]) -> None:
    world = world_that_drains()
    exclude(world)
    world.advance_minutes(60)
    assert world.released_instances() == []
    assert (world.status(), world.case().waiting_for) == (NodeStatus.QUARANTINED, WaitingFor.PAUSE)


@pytest.mark.parametrize("exclude", [ignore, maintain])
def test_the_repair_continues_after_the_exclusion(exclude: Callable[[World], None]) -> None:
    world = world_that_drains()
    exclude(world)
    world.until(lambda: world.case().status is CaseStatus.RESOLVED)
    assert world.case().resolution is Resolution.REPLACED
    assert world.clock.now() > world.case().opened_at + HOURS


def pause(world: World) -> None:
    world.pause_repairs(paused=True)


def cancel(world: World) -> None:
    world.orders.cancel(world.case().id, OperatorOrder("ada"))


@pytest.mark.parametrize("order", [ignore, pause, cancel])
def test_an_order_between_the_last_check_and_the_intent_prevents_the_intent(order: Callable[[World], None]) -> None:
    world = World(orchestrated=True)
    ordered: list[bool] = []

    def order_before_the_logs_are_collected(call: object) -> None:
        if getattr(call, "name", "") == "collector.collect" and not ordered:
            ordered.append(True)
            order(world)

    world.seam.before = order_before_the_logs_are_collected
    world.fault_and_react(minutes=60)
    assert ordered
    assert world.released_instances() == []
