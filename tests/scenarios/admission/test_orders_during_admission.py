"""Orders of an operator after the queue was read: a repair is admitted by its node as it is, not by its row."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from itertools import count

import pytest

from faultbridge.decode.data import load_catalog
from faultbridge.decode.data.policies import default_policy
from faultbridge.model.cluster.state import BreakerState, Control
from faultbridge.model.enums import Actor, CaseStatus, Isolation, NodeStatus, RepairAction, WaitingFor
from faultbridge.model.fault_enums import Severity
from faultbridge.model.policy import Rule
from faultbridge.model.storage import keys
from faultbridge.repair.case_orders import OperatorOrder
from faultbridge.repair.dispatch import escalate_queued
from tests.races import run_before_call, run_before_read, run_before_write, writes_to
from tests.scenarios.admission.builders import CLUSTER_LIMIT, fail, states
from tests.scenarios.world import CLUSTER, World, limits

ORDER = OperatorOrder("op")


def dispatch_with(
    world: World, monkeypatch: pytest.MonkeyPatch, order: Callable[[], object], *, number: int = 2
) -> None:
    """Run one admission; an operator gives an order right before its read of the controls with this number.

    The queue is read before the first read of the controls, and again before the second one.
    """
    read, reads = world.dispatch._control, count(1)

    def order_then_read(cluster: str) -> Control:
        if next(reads) == number:
            order()
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
    # A second repair would give its slot back at once, because its group owes the successor of the first one.
    assert (world.case(2).attempts, list(world.control().holders)) == (0, [world.case(1).id])


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
    dispatch_with(world, monkeypatch, lambda: world.orders.cancel(world.case(1).id, ORDER), number=1)
    assert world.case(1).approval is None
    world.advance_minutes(30)
    assert world.case(1).status is not CaseStatus.ESCALATED
    assert world.status(1) is NodeStatus.DEGRADED


def claimed_and_queued() -> World:
    """Return a world whose first node has a claim only: it is cordoned, serves, and waits until it is idle."""
    world = World(nodes=2, orchestrated=True, catalog=load_catalog())
    world.policy = default_policy()
    world.orchestrator.busy_until["node-1"] = world.clock.now() + timedelta(minutes=30)
    world.claim_and_react(1, "xid.48", minutes=2)
    assert (world.case().waiting_for, world.node().isolation) == (WaitingFor.IDLE, Isolation.CONFIRMED)
    world.orchestrator.busy_until.clear()
    return world


def test_a_node_stays_in_service_if_its_case_is_escalated_between_the_queue_and_the_admission() -> None:
    world = claimed_and_queued()
    case = world.case().id

    def escalate() -> None:
        world.append(world.key(), lambda state, now: escalate_queued(state, case, "denied", now), actor=Actor.DISPATCH)

    run_before_read(world.seam, keys.node_state(world.key()), escalate)
    world.dispatch.admit_cases(CLUSTER)
    assert (world.case().status, world.status()) == (CaseStatus.ESCALATED, NodeStatus.DEGRADED)


def test_a_fault_that_is_proven_while_the_work_of_its_node_is_checked_is_not_lost_from_its_case() -> None:
    world = claimed_and_queued()
    run_before_call(world.seam, "orchestrator.idle", lambda: world.fault(1, "xid.79"))
    world.dispatch.admit_cases(CLUSTER)
    case = world.case()
    assert (case.status, case.severity, case.repair_action) == (
        CaseStatus.QUEUED,
        Severity.FATAL,
        RepairAction.REPLACE_NODE,
    )


def test_a_node_that_recovers_while_its_work_is_checked_is_not_taken_out_of_service() -> None:
    world = claimed_and_queued()
    run_before_call(world.seam, "orchestrator.idle", lambda: world.clear(1, "xid.48"))
    world.dispatch.admit_cases(CLUSTER)
    assert list(world.node().active()) == []
    assert "node degraded -> quarantined" not in world.record_history()
