"""A node that is to be left alone: all is recorded, nothing is done, and what was put off is done when it is over."""

from __future__ import annotations

from datetime import timedelta

from faultbridge.domain.cases import WaitingFor
from faultbridge.domain.edges import CaseStatus, NodeStatus
from faultbridge.registry.registration import Registration
from faultbridge.repair.case_orders import CaseOrder
from faultbridge.repair.opt_out import OptOut
from tests.scenarios.world import CLUSTER, World

ADA = CaseOrder("arn:aws:iam::123456789012:user/ada", "her experiment")


def ignore(world: World) -> OptOut:
    return OptOut(world.append, world.rulebook)


def test_a_fault_of_an_ignored_node_is_on_the_record_and_nothing_else_happens() -> None:
    world = World(orchestrated=True)
    ignore(world)(world.key(), ADA)
    world.fault()
    world.minute(90)
    assert (world.status(), world.node().case) == (NodeStatus.DEGRADED, None)
    assert world.story()[-2:] == ["detected xid.79", "node healthy -> degraded"]
    assert world.orchestrator.cordoned == set()
    assert world.released() == []


def test_when_its_time_is_over_it_is_repaired_like_any_other() -> None:
    world = World()
    ignore(world)(world.key(), ADA, world.clock.now() + timedelta(hours=3))
    world.fault()
    world.minute(179)
    assert world.node().case is None
    world.until(lambda: world.node().case is not None and not world.case().status.live, minutes=240)
    assert (world.status(), len(world.released())) == (NodeStatus.HEALTHY, 1)


def test_a_person_takes_it_back_before() -> None:
    world = World()
    ignore(world)(world.key(), ADA)
    world.fault()
    world.minute(10)
    ignore(world).end(world.key(), ADA)
    world.until(lambda: world.node().live_case is not None, minutes=2)


def test_a_case_that_waits_when_the_node_is_ignored_waits_on() -> None:
    world = World()
    world.pause_repairs(paused=True)
    world.fault()
    world.until(lambda: world.case().status is CaseStatus.QUEUED, minutes=5)
    ignore(world)(world.key(), ADA)
    world.pause_repairs(paused=False)
    world.minute(30)
    assert (world.case().status, world.case().waiting_for) == (CaseStatus.QUEUED, WaitingFor.PAUSE)
    assert world.released() == []
    ignore(world).end(world.key(), ADA)
    world.until(lambda: not world.case().status.live, minutes=120)
    assert world.status() is NodeStatus.HEALTHY


def test_a_cluster_under_maintenance_is_left_alone_as_a_whole_and_caught_up_with_afterwards() -> None:
    world = World(nodes=2)
    over = world.clock.now() + timedelta(hours=2)
    registration = Registration(world.table, world.append, world.clock)
    registration.set_cluster(CLUSTER, {"maintenance_until": over})
    world.fault(1)
    world.minute(60)
    world.fault(2)
    world.minute()
    world.clear(2)
    world.minute(57)
    assert (world.node(1).case, world.node(2).case) == (None, None)
    world.until(lambda: world.node(1).case is not None and not world.case(1).status.live, minutes=240)
    assert (world.status(1), world.status(2), world.node(2).case) == (NodeStatus.HEALTHY, NodeStatus.HEALTHY, None)
