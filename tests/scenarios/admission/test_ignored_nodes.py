"""Ignored nodes and clusters under maintenance: faults are recorded, repairs start afterwards."""

from __future__ import annotations

from datetime import timedelta

import pytest

from faultbridge.model.enums import CaseStatus, NodeStatus, WaitingFor
from faultbridge.model.errors import Rejected
from faultbridge.model.nodes import NodeKey
from faultbridge.model.policy import Rule
from faultbridge.repair.case_orders import OperatorOrder
from faultbridge.repair.node_orders import NodeOrders
from faultbridge.repair.registry.registration import Registration
from tests.scenarios.world import CLUSTER, World

ADA = OperatorOrder("arn:aws:iam::123456789012:user/ada", "her experiment")


def orders(world: World) -> NodeOrders:
    return NodeOrders(world.append, world.rulebook)


def test_an_unregistered_cluster_or_node_cannot_be_ignored() -> None:
    world = World()
    for key, reason in ((NodeKey("other", "node-1"), "unknown_cluster"), (NodeKey(CLUSTER, "other"), "unknown_node")):
        for order in (orders(world).ignore, orders(world).end_ignore):
            with pytest.raises(Rejected, match=reason):
                order(key, ADA)


def test_the_exclusion_of_a_node_names_the_operator_and_the_reason() -> None:
    world = World()
    ignored = orders(world).ignore(world.key(), ADA).ignored
    assert ignored is not None
    assert (ignored.by, ignored.reason) == (ADA.operator, "her experiment")


def test_a_fault_of_an_ignored_node_is_only_recorded() -> None:
    world = World(orchestrated=True)
    orders(world).ignore(world.key(), ADA)
    world.fault()
    world.advance_minutes(90)
    assert (world.status(), world.node().case) == (NodeStatus.DEGRADED, None)
    assert world.record_history()[-2:] == ["detected xid.79", "node healthy -> degraded"]
    assert world.orchestrator.cordoned == set()
    assert world.released_instances() == []


def test_a_node_is_repaired_after_its_ignore_period() -> None:
    world = World()
    orders(world).ignore(world.key(), ADA, world.clock.now() + timedelta(hours=3))
    world.fault()
    world.advance_minutes(179)
    assert world.node().case is None
    world.until(lambda: world.node().case is not None and not world.case().status.live, minutes=240)
    assert (world.status(), len(world.released_instances())) == (NodeStatus.HEALTHY, 1)


def test_an_operator_can_end_the_ignore_period_early() -> None:
    world = World()
    orders(world).ignore(world.key(), ADA)
    world.fault()
    world.advance_minutes(10)
    assert world.node().live_case is None
    orders(world).end_ignore(world.key(), ADA)
    world.until(lambda: world.node().live_case is not None, minutes=2)


def test_a_waiting_case_keeps_waiting_while_its_node_is_ignored() -> None:
    world = World()
    world.pause_repairs(paused=True)
    world.fault()
    world.until(lambda: world.case().status is CaseStatus.QUEUED, minutes=5)
    orders(world).ignore(world.key(), ADA)
    world.pause_repairs(paused=False)
    world.advance_minutes(30)
    assert (world.case().status, world.case().waiting_for) == (CaseStatus.QUEUED, WaitingFor.PAUSE)
    assert world.released_instances() == []
    orders(world).end_ignore(world.key(), ADA)
    world.until(lambda: not world.case().status.live, minutes=120)
    assert world.status() is NodeStatus.HEALTHY


@pytest.mark.parametrize(("hours", "until"), [(None, ""), (3, " until 2026-02-03T15:")])
def test_a_case_that_waits_for_an_ignored_node_states_the_end_of_the_period(hours: int | None, until: str) -> None:
    world = World(rules=(Rule("waits", wait_seconds=90),))
    world.fault_and_react()
    orders(world).ignore(world.key(), ADA, world.clock.now() + timedelta(hours=hours) if hours else None)
    world.advance_minutes(3)
    before, _, after = world.case().reason.partition("the node is ignored or its cluster is under maintenance")
    assert (before, after[: len(until) or None]) == ("", until)


def test_a_cluster_under_maintenance_is_not_repaired_until_the_maintenance_ends() -> None:
    world = World(nodes=2)
    over = world.clock.now() + timedelta(hours=2)
    registration = Registration(world.table, world.append, world.clock)
    registration.set_cluster(CLUSTER, {"maintenance_until": over})
    world.fault(1)
    world.advance_minutes(60)
    world.fault(2)
    world.advance_minutes()
    world.clear(2)
    world.advance_minutes(57)
    assert (world.node(1).case, world.node(2).case) == (None, None)
    world.until(lambda: world.node(1).case is not None and not world.case(1).status.live, minutes=240)
    assert (world.status(1), world.status(2), world.node(2).case) == (NodeStatus.HEALTHY, NodeStatus.HEALTHY, None)


def maintain(world: World, until: timedelta) -> None:
    registration = Registration(world.table, world.append, world.clock)
    registration.set_cluster(CLUSTER, {"maintenance_until": world.clock.now() + until})


@pytest.mark.parametrize("until", [timedelta(0), timedelta(minutes=30)])
def test_work_that_a_maintenance_postponed_continues_when_the_maintenance_ends_early(until: timedelta) -> None:
    world = World(nodes=3)
    world.pause_repairs(paused=True)
    maintain(world, timedelta(days=7))
    orders(world).ignore(world.key(3), ADA)
    for node in (1, 2, 3):
        world.fault_and_react(node)
    world.advance_minutes(5)
    assert [world.node(node).case for node in (1, 2, 3)] == [None] * 3
    maintain(world, until)
    world.advance_minutes(int(until.total_seconds()) // 60 + 1)
    assert world.node(1).live_case is not None
    assert world.node(2).live_case is not None
    assert world.node(3).case is None
    assert world.advance_minutes().ticked == 0
    orders(world).end_ignore(world.key(3), ADA)
    world.until(lambda: world.node(3).live_case is not None, minutes=2)
