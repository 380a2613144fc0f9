"""Orders about a case: repeated and contradicting answers, orders about an ended case, and what a cancel records."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from faultbridge.model.enums import RepairAction, Resolution
from faultbridge.model.errors import Rejected
from faultbridge.model.nodes import NodeState
from faultbridge.model.policy import Rule
from faultbridge.repair.case_orders import CaseOrders, OperatorOrder
from tests.scenarios.world import World

ADA = OperatorOrder("arn:aws:iam::123456789012:user/ada", "seen in the rack")
ASK = Rule("ask", approval=(RepairAction.REPLACE_NODE,), release_without_capacity=True)
ANSWERS = [(CaseOrders.approve, CaseOrders.deny, "approved"), (CaseOrders.deny, CaseOrders.approve, "denied")]
Answer = Callable[..., NodeState]


def asked() -> World:
    """Return a world in which the first attempt of a case waits for approval."""
    world = World(rules=(ASK,))
    world.fault_and_react()
    return world


@pytest.mark.parametrize("answer", [CaseOrders.approve, CaseOrders.deny])
def test_an_answer_that_is_given_twice_changes_nothing(answer: Answer) -> None:
    world = asked()
    given = answer(world.orders, world.case().id, ADA, attempt=1)
    assert answer(world.orders, world.case().id, ADA, attempt=1) == given


@pytest.mark.parametrize(("answer", "other", "text"), ANSWERS)
def test_an_answer_that_contradicts_the_first_one_is_rejected(answer: Answer, other: Answer, text: str) -> None:
    world = asked()
    answer(world.orders, world.case().id, ADA, attempt=1)
    with pytest.raises(Rejected, match=f"attempt is already {text}: 1"):
        other(world.orders, world.case().id, ADA, attempt=1)


def test_the_approval_of_one_repair_action_does_not_answer_an_order_about_another_one() -> None:
    world = asked()
    world.orders.approve(world.case().id, ADA, attempt=1)
    with pytest.raises(Rejected, match="no approval is requested: reboot_node, attempt 1"):
        world.orders.approve(world.case().id, ADA, attempt=1, action=RepairAction.REBOOT_NODE)


@pytest.mark.parametrize("order", [CaseOrders.approve, CaseOrders.deny, CaseOrders.cancel])
def test_an_order_about_a_case_that_has_ended_is_rejected(order: Answer) -> None:
    world = World()
    world.fault_until_resolved()
    with pytest.raises(Rejected, match="case has ended"):
        order(world.orders, world.case().id, ADA)


def test_an_order_about_an_earlier_case_does_not_concern_the_next_case_of_the_node() -> None:
    world = World()
    world.fault_until_resolved()
    earlier = world.case().id
    world.pause_repairs(paused=True)
    world.advance_minutes(20)
    world.fault_and_react()
    with pytest.raises(Rejected, match=f"case has ended: {earlier}"):
        world.orders.cancel(earlier, ADA)


def test_a_canceled_case_keeps_the_reason_of_the_operator() -> None:
    world = World(rules=(Rule("gentle", isolate=False, wait_seconds=600),))
    world.fault_and_react()
    world.orders.cancel(world.case().id, ADA)
    case = world.case()
    assert (case.resolution, case.cancelled, case.reason) == (Resolution.CANCELLED, True, "seen in the rack")
