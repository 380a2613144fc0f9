"""Orders of operators: for a case, and for the repairs of a cluster."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import pytest

from faultbridge.model.cluster.state import Breaker, BreakerState, Control
from faultbridge.model.enums import Actor, RepairAction, Resolution, SafetyKind, SafetyState
from faultbridge.model.errors import Rejected
from faultbridge.model.nodes import NodeState
from faultbridge.model.policy import Rule
from faultbridge.repair.case_orders import CaseOrders, OperatorOrder
from faultbridge.repair.controls import ControlChange, breaker_draft, control_draft
from tests.builders import NOON, data_of
from tests.scenarios.world import CLUSTER, World

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


@pytest.mark.parametrize(("name", "scope", "domain"), [("cluster", "cluster", None), ("domain:r-1", "domain", "r-1")])
def test_the_entry_of_a_breaker_states_its_scope_and_the_failing_nodes(
    name: str, scope: str, domain: str | None
) -> None:
    draft = breaker_draft(name, None, Breaker(BreakerState.OPEN, NOON, failing=5, of=20), "5 nodes fail at once")
    assert (draft.subject, data_of(draft)["scope"], data_of(draft)["domain"]) == (name, scope, domain)
    assert data_of(draft)["counts"] == {"failing": 5, "of": 20}


def test_the_entry_of_the_only_control_of_its_kind_is_about_this_kind() -> None:
    running, paused = SafetyState.RUNNING, SafetyState.PAUSED
    draft = control_draft(SafetyKind.PAUSE, running, paused, NOON, reason="ordered by an operator")
    assert (draft.subject, data_of(draft)["counts"], data_of(draft)["until"]) == ("pause", {}, None)
    assert "incident_id" not in data_of(draft)


def cause_of(world: World, after: str, cause: str | None, *, operator: str | None = None) -> str | None:
    """Record a new state of the cluster's breaker, and return the cause of the entry."""

    def revise(control: Control, now: datetime) -> ControlChange:
        kind, to = SafetyKind.BREAKER, SafetyState(after)
        draft = control_draft(kind, None, to, now, reason="a test", operator=operator, name="cluster")
        return ControlChange(control, (draft,), cause=cause)

    world.controls.change(CLUSTER, revise, Actor.CLI if operator else Actor.DISPATCH)
    found: str | None = world.bodies(None)[-1]["metadata"]["causation_id"]
    return found


def last_event(world: World) -> str:
    event: str = world.bodies(None)[-1]["metadata"]["event_id"]
    return event


def test_a_breaker_that_opens_names_the_event_that_opened_it_as_its_cause() -> None:
    world = World()
    assert cause_of(world, "open", "first") == "first"
    assert cause_of(world, "open", "second") == "second"


@pytest.mark.parametrize(("after", "operator"), [("closed", None), ("half_open", None), ("open", "ada")])
def test_any_other_change_of_a_breaker_names_the_entry_before_it_as_its_cause(after: str, operator: str | None) -> None:
    world = World()
    cause_of(world, "open", "first")
    opened = last_event(world)
    assert cause_of(world, after, "second", operator=operator) == opened


def test_a_change_of_a_breaker_without_an_entry_before_it_names_the_given_event_as_its_cause() -> None:
    assert cause_of(World(), "closed", "first") == "first"


@pytest.mark.parametrize("operator", [None, "ada"])
def test_without_a_given_cause_only_an_order_does_not_follow_from_the_last_entry(operator: str | None) -> None:
    world = World()
    world.rollup.update(CLUSTER)
    last = last_event(world)
    assert cause_of(world, "closed", None, operator=operator) == (None if operator else last)
