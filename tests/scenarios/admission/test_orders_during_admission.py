"""Orders of an operator after the queue was read: a repair is admitted by its node as it is, not by its row."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from faultbridge.model.cases import RepairAction, WaitingFor
from faultbridge.model.cluster.state import BreakerState, Control
from faultbridge.model.edges import CaseStatus, NodeStatus
from faultbridge.model.policy import Rule
from faultbridge.model.storage import keys
from faultbridge.repair.case_orders import OperatorOrder
from tests.races import run_before_call, run_before_write, writes_to
from tests.scenarios.admission.builders import CLUSTER_LIMIT, fail, states
from tests.scenarios.world import CLUSTER, World, limits

ORDER = OperatorOrder("op")


def dispatch_with(world: World, monkeypatch: pytest.MonkeyPatch, order: Callable[[], object]) -> None:
    """Run one admission; an operator gives an order between its read of the queue and that of the controls."""
    read, orders = world.dispatch._control, [order]

    def order_then_read(cluster: str) -> Control:
        while orders:
            orders.pop()()
        return read(cluster)

    with monkeypatch.context() as patched:
        patched.setattr(type(world.dispatch), "_control", lambda _, cluster: order_then_read(cluster))
        world.dispatch.admit_cases(CLUSTER)


def paused_after_a_fault(**others) -> World:
    """Return a world whose first node is out of service and queued, while repairs are paused."""
    world = World(**others)
    world.pause_repairs(paused=True)
    world.fault_and_react(1)
    return world


def test_a_replacement_ordered_after_the_queue_was_read_waits_for_the_open_breaker(monkeypatch):
    world = paused_after_a_fault(nodes=12, breakers=(CLUSTER_LIMIT,))
    world.orders.cancel(world.case(1).id, ORDER)
    assert world.case(1).repair_action is RepairAction.VERIFY
    fail(world, 2, 3, 4, 5, 6, 7)
    world.pause_repairs(paused=False)
    dispatch_with(world, monkeypatch, lambda: world.node_orders.replace(world.key(1), ORDER))
    assert states(world) == {"cluster": BreakerState.OPEN}
    assert (world.case(1).status, world.case(1).repair_action) == (CaseStatus.QUEUED, RepairAction.REPLACE_NODE)
    world.advance_minutes()
    assert world.case(1).waiting_for is WaitingFor.BREAKER
    assert world.released_instances() == []


def test_a_replacement_ordered_after_the_queue_was_read_takes_no_slot_beyond_the_limit(monkeypatch):
    world = paused_after_a_fault(nodes=2, limits=limits(concurrent=1))
    world.fault_and_react(2)
    world.orders.cancel(world.case(2).id, ORDER)
    world.pause_repairs(paused=False)
    dispatch_with(world, monkeypatch, lambda: world.node_orders.replace(world.key(2), ORDER))
    assert len(world.control().holders) <= 1


def test_a_replacement_ordered_before_the_commit_of_an_admission_takes_no_slot_beyond_the_limit() -> None:
    world = paused_after_a_fault(nodes=2, limits=limits(concurrent=1))
    world.clock.advance(1)
    world.fault_and_react(2)
    world.orders.cancel(world.case(2).id, ORDER)
    world.pause_repairs(paused=False)
    written = writes_to(keys.node_state(world.key(2)))
    run_before_write(world.seam, written, lambda: world.node_orders.replace(world.key(2), ORDER))
    world.dispatch.admit_cases(CLUSTER)
    assert (world.case(2).status, world.case(2).repair_action) == (CaseStatus.QUEUED, RepairAction.REPLACE_NODE)
    assert list(world.control().holders) == [world.case(1).id]


def test_a_case_that_is_canceled_while_its_node_is_isolated_delays_no_other_repair() -> None:
    gentle = Rule("gentle", isolate=False, release_without_capacity=True)
    world = World(nodes=2, rules=(gentle,), limits=limits(concurrent=2), orchestrated=True)
    for node in (1, 2):
        world.fault(node)
    run_before_call(world.seam, "orchestrator.cordon", lambda: world.orders.cancel(world.case(1).id, ORDER))
    world.dispatch.admit_cases(CLUSTER)
    assert (world.case(1).status, world.case(2).status) == (CaseStatus.RESOLVED, CaseStatus.IN_PROGRESS)


def test_no_approval_is_requested_for_a_repair_that_is_canceled_after_the_queue_was_read(monkeypatch):
    rule = Rule("ask", approval=(RepairAction.REPLACE_NODE,), release_without_capacity=True)
    world = paused_after_a_fault(rules=(rule,))
    world.pause_repairs(paused=False)
    dispatch_with(world, monkeypatch, lambda: world.orders.cancel(world.case(1).id, ORDER))
    assert world.case(1).approval is None
    world.advance_minutes(30)
    assert world.case(1).status is not CaseStatus.ESCALATED
    assert world.status(1) is NodeStatus.DEGRADED
