"""Orders of operators for nodes: replacement, quarantine, and return after a manual fix."""

from __future__ import annotations

from datetime import timedelta

import pytest

from faultbridge.decide.fold.expire import ORDERED_QUARANTINE as QUARANTINE
from faultbridge.decide.fold.expire import ORDERED_REPLACEMENT
from faultbridge.model.cluster.config import Mode, RepairOwner
from faultbridge.model.enums import CaseStatus, NodeStatus, RepairAction, Resolution, WaitingFor
from faultbridge.model.errors import Rejected
from faultbridge.model.fault_enums import Action, Severity
from faultbridge.model.policy import Match, Rule
from faultbridge.model.recorded import read_event
from faultbridge.record.ports.compute import Verdict, Verification
from faultbridge.record.ports.messaging import PageUrgency
from faultbridge.repair.case_orders import OperatorOrder
from faultbridge.repair.node_orders import NodeOrders
from faultbridge.repair.registry.registration import Registration
from faultbridge.repair.registry.retirement import Retirement
from faultbridge.serve.pager.page import PageState
from faultbridge.serve.pager.rules import rules_for
from tests.scenarios.world import CLUSTER, World, limits
from tests.sim.fakes import Call

RESOLVED, ESCALATED = CaseStatus.RESOLVED, CaseStatus.ESCALATED
ADA = OperatorOrder("arn:aws:iam::123456789012:user/ada", "burnt smell")


def codes(world: World) -> list[str]:
    return [condition.code for condition in world.node().active()]


def operators(world: World) -> list[tuple[str, str]]:
    data = (body["data"] for body in world.bodies())
    return [(one["operator"], one["text"]) for one in data if one.get("kind") == "operator"]


def test_an_operator_can_replace_a_healthy_node_and_is_recorded() -> None:
    world = World()
    world.node_orders.replace(world.key(), ADA)
    world.until_case(RESOLVED)
    assert (world.case().resolution, world.status(), codes(world)) == (Resolution.REPLACED, NodeStatus.HEALTHY, [])
    assert operators(world) == [(ADA.operator, "replace: burnt smell")]
    assert world.case().code == ORDERED_REPLACEMENT


def test_an_ordered_replacement_obeys_the_limits_and_may_need_approval() -> None:
    world = World(rules=(Rule("two-people", Match(codes=("operator.*",)), approval=(RepairAction.REPLACE_NODE,)),))
    world.node_orders.replace(world.key(), ADA)
    world.process_entries(minutes=5)
    assert (world.case().waiting_for, world.released_instances()) == (WaitingFor.APPROVAL, [])
    assert world.case().rule == "two-people"


def test_a_second_order_for_the_same_node_releases_no_second_instance() -> None:
    world = World()
    world.node_orders.replace(world.key(), ADA)
    world.node_orders.replace(world.key(), ADA)
    world.until_case(RESOLVED)
    assert len(world.released_instances()) == 1


def backing(world: World) -> str:
    incarnation = world.node().incarnation
    assert incarnation is not None
    return str(incarnation.instance_id)


@pytest.mark.parametrize("busy", [0, 15], ids=["idle", "busy"])
@pytest.mark.parametrize("minutes", [0, 2, 4, 6, 10, 13, 18, 22, 28])
def test_an_order_about_the_faulty_instance_never_releases_its_successor(busy: int, minutes: int) -> None:
    world = World(orchestrated=True)
    seen = backing(world)
    if busy:
        world.orchestrator.busy_until["node-1"] = world.clock.now() + timedelta(minutes=busy)
    world.fault_and_react(minutes=minutes)
    drains = world.status() is NodeStatus.DRAINING
    try:
        world.node_orders.replace(world.key(), ADA, seen)
    except Rejected as error:
        assert error.reason in {"instance_changed", "not_replaceable"}  # noqa: PT017 - an order may also be accepted
    else:
        assert drains
    world.process_entries(minutes=150)
    assert (world.released_instances(), world.status()) == ([seen], NodeStatus.HEALTHY)


def test_an_order_about_an_instance_that_no_longer_backs_the_node_is_refused_in_one_line() -> None:
    world = World()
    seen = backing(world)
    world.fault_and_react()
    world.until(lambda: world.status() is NodeStatus.VALIDATING)
    before = world.record_history()
    with pytest.raises(Rejected) as refused:
        world.node_orders.replace(world.key(), ADA, seen)
    text = f"the instance changed since you looked: node-1 has {backing(world)} now, and not {seen}"
    assert (refused.value.reason, str(refused.value).splitlines()) == (
        "instance_changed",
        [f"instance_changed: {text}"],
    )
    assert world.record_history() == before


def test_an_order_about_the_instance_that_is_verified_replaces_it() -> None:
    world = World()
    first = backing(world)
    world.fault_and_react()
    world.until(lambda: world.status() is NodeStatus.VALIDATING)
    second = backing(world)
    world.node_orders.replace(world.key(), ADA, second)
    world.until_case(RESOLVED)
    assert world.released_instances() == [first, second]


def test_a_quarantined_node_stays_out_until_an_operator_returns_it_and_it_is_verified() -> None:
    world = World(orchestrated=True)
    world.node_orders.quarantine(world.key(), ADA)
    world.process_entries(minutes=60)
    assert (world.case().status, world.status(), codes(world)) == (ESCALATED, NodeStatus.QUARANTINED, [QUARANTINE])
    world.node_orders.return_node(world.key(), OperatorOrder(ADA.operator, "cable changed"))
    world.until_case(RESOLVED)
    assert (world.status(), codes(world), world.released_instances()) == (NodeStatus.HEALTHY, [], [])
    assert [text for _, text in operators(world)] == ["quarantine: burnt smell", "return: cable changed"]


def test_a_quarantine_by_order_sends_only_a_notice_and_an_approval_timeout_an_urgent_page() -> None:
    def triggered(world: World) -> list[tuple[str, PageUrgency]]:
        rules = [rule for body in world.bodies() for rule in rules_for(read_event(body))]
        return [(rule.kind, rule.urgency) for rule in rules if rule.state is PageState.TRIGGERED]

    world = World(orchestrated=True)
    world.node_orders.quarantine(world.key(), ADA)
    world.process_entries(minutes=60)
    assert triggered(world) == [("stopped", PageUrgency.NOTICE)]
    asking = World(rules=(Rule("ask", approval=(RepairAction.REPLACE_NODE,)),))
    asking.fault_and_react()
    asking.until(asking.case_is(ESCALATED), minutes=24 * 60 + 2)
    assert triggered(asking)[-1] == ("escalated", PageUrgency.URGENT)


WAITS = Rule("wait", Match(codes=("net.*",)), wait_seconds=600)


@pytest.mark.parametrize("minutes", [1, 5])
def test_no_passed_verification_ends_the_quarantine_of_a_node_with_another_fault(minutes: int) -> None:
    world = World(orchestrated=True, rules=(WAITS,))
    world.fault_and_react(code="net.link_down", source="link-state", minutes=minutes)
    world.node_orders.quarantine(world.key(), ADA)
    world.process_entries()
    assert world.case().reason == "taken out of service by an operator: burnt smell"
    world.clear(code="net.link_down", source="link-state")
    world.process_entries(minutes=120)
    assert (world.case().status, world.status(), codes(world)) == (ESCALATED, NodeStatus.QUARANTINED, [QUARANTINE])
    world.node_orders.return_node(world.key(), ADA)
    world.until(world.case_is(RESOLVED))
    assert (world.status(), codes(world), world.released_instances()) == (NodeStatus.HEALTHY, [], [])


def test_a_node_that_is_out_of_service_and_waits_for_its_repair_is_kept_out_by_order() -> None:
    world = World(orchestrated=True)
    world.pause_repairs(paused=True)
    world.fault_and_react()
    assert (world.case().status, world.status()) == (CaseStatus.QUEUED, NodeStatus.QUARANTINED)
    world.node_orders.quarantine(world.key(), ADA)
    world.pause_repairs(paused=False)
    world.advance_minutes(60)
    assert (world.case().status, world.released_instances()) == (ESCALATED, [])


def test_a_quarantined_node_can_be_replaced_by_order() -> None:
    world = World()
    world.node_orders.quarantine(world.key(), ADA)
    world.process_entries()
    world.node_orders.replace(world.key(), ADA)
    world.until_case(RESOLVED)
    assert (world.case().resolution, codes(world), len(world.released_instances())) == (Resolution.REPLACED, [], 1)


def test_an_approval_does_not_outlast_a_quarantine() -> None:
    world = World(rules=(Rule("ask", approval=(RepairAction.REPLACE_NODE,)),))
    world.fault_and_react()
    world.pause_repairs(paused=True)
    world.orders.approve(world.case().id, ADA)
    world.node_orders.quarantine(world.key(), ADA)
    world.node_orders.replace(world.key(), ADA)
    world.pause_repairs(paused=False)
    world.advance_minutes(5)
    assert (world.case().waiting_for, world.released_instances()) == (WaitingFor.APPROVAL, [])


def test_an_escalated_case_returned_to_automation_keeps_its_attempt_numbers() -> None:
    world = World(rules=(Rule("ask", approval=(RepairAction.REPLACE_NODE,)),))
    world.fault_and_react()
    world.orders.deny(world.case().id, ADA)
    world.process_entries()
    world.node_orders.replace(world.key(), ADA)
    assert (world.case().status, world.case().repair_action, world.case().counted_attempts) == (
        CaseStatus.QUEUED,
        RepairAction.REPLACE_NODE,
        0,
    )


def test_an_escalated_node_that_still_serves_is_returned_without_verification() -> None:
    world = World(rules=(Rule("look", Match(codes=("xid.79",)), isolate=False, repair_actions=()),))
    world.fault_and_react()
    assert world.case().status is ESCALATED
    world.node_orders.return_node(world.key(), ADA)
    assert (world.case().resolution, world.status()) == (Resolution.BY_OPERATOR, NodeStatus.DEGRADED)


def test_impossible_orders_are_rejected_with_a_reason() -> None:
    world = World()
    with pytest.raises(Rejected, match="no escalated case"):
        world.node_orders.return_node(world.key(), ADA)
    with pytest.raises(Rejected, match="unknown node in cluster"):
        world.node_orders.replace(world.key(9), ADA)
    world.node_orders.replace(world.key(), ADA)
    world.process_entries()
    world.until(lambda: world.status() is NodeStatus.PROVISIONING)
    with pytest.raises(Rejected, match="no instance to replace"):
        world.node_orders.replace(world.key(), ADA)
    with pytest.raises(Rejected, match="no instance to quarantine"):
        world.node_orders.quarantine(world.key(), ADA)
    world.until(lambda: world.status() is NodeStatus.VALIDATING)
    with pytest.raises(Rejected, match=r"a repair is in progress: c-.*; wait, or run 'faultbridge case cancel c-"):
        world.node_orders.quarantine(world.key(), ADA)


def test_a_replacement_ordered_during_a_repair_changes_nothing_in_its_attempt() -> None:
    world = World(orchestrated=True)
    world.orchestrator.busy_until["node-1"] = world.clock.now() + timedelta(minutes=30)
    world.fault_and_react()
    attempt = world.case().attempt
    world.node_orders.replace(world.key(), ADA)
    assert (world.case().status, world.case().attempt) == (CaseStatus.IN_PROGRESS, attempt)


def test_an_order_is_recorded_with_the_case_that_it_opens() -> None:
    world = World()
    world.node_orders.replace(world.key(), ADA)
    (noted,) = [body for body in world.bodies() if body["data"].get("kind") == "operator"]
    assert noted["metadata"]["case_id"] == world.case().id


def test_an_order_ends_no_condition_that_a_reboot_would_end() -> None:
    world = World()
    world.fault(code="smi.row_remap_pending")
    world.node_orders.quarantine(world.key(), ADA)
    assert set(codes(world)) == {"smi.row_remap_pending", QUARANTINE}


def test_a_quarantine_by_order_also_isolates_a_node_that_its_rule_keeps_in_service() -> None:
    world = World(orchestrated=True, rules=(Rule("gentle", isolate=False),))
    world.node_orders.quarantine(world.key(), ADA)
    world.process_entries(minutes=1)
    assert (world.case().isolate, world.status()) == (True, NodeStatus.QUARANTINED)


@pytest.mark.parametrize("excluded", ["node", "cluster"])
def test_a_quarantine_of_an_excluded_node_is_refused_because_it_would_stay_in_service(excluded: str) -> None:
    world = World()
    end = world.clock.now() + timedelta(hours=4)
    if excluded == "node":
        NodeOrders(world.append, world.rulebook).ignore(world.key(), ADA, end)
    else:
        Registration(world.table, world.append, world.clock).set_cluster(CLUSTER, {"maintenance_until": end})
    with pytest.raises(Rejected, match="excluded: node-1 would stay in service: the node is ignored or its cluster"):
        world.node_orders.quarantine(world.key(), ADA)
    assert codes(world) == []


def test_a_quarantine_that_a_rule_of_the_policy_turns_off_is_refused() -> None:
    world = World(rules=(Rule("none", Match(codes=("operator.*",)), action=Action.NONE),))
    with pytest.raises(Rejected, match="not_quarantinable: node-1 would stay in service: a rule of the policy"):
        world.node_orders.quarantine(world.key(), ADA)


def test_a_quarantine_by_order_ends_the_cancellation_of_the_case() -> None:
    world = World()
    world.pause_repairs(paused=True)
    world.fault_and_react()
    world.orders.cancel(world.case().id, ADA)
    assert world.case().cancelled
    world.node_orders.quarantine(world.key(), ADA)
    assert (world.case().status, world.case().cancelled) == (ESCALATED, False)


def test_a_node_that_was_given_up_waits_in_quarantine_when_an_operator_returns_it() -> None:
    world = World(limits=limits(attempts=1))
    world.verifier.result = Verification(Verdict.FAILED, ("memory: fail",))
    world.fault_and_react()
    world.until(lambda: world.status() is NodeStatus.FAILED)
    world.node_orders.return_node(world.key(), ADA)
    assert (world.case().status, world.status()) == (CaseStatus.QUEUED, NodeStatus.QUARANTINED)
    assert "node failed -> quarantined" in world.record_history()


def test_the_case_of_a_returned_node_has_the_severity_of_the_remaining_faults() -> None:
    world = World(rules=(Rule("ask", approval=(RepairAction.REPLACE_NODE,)),))
    world.fault_and_react()
    world.fault(code="xid.92")
    world.orders.deny(world.case().id, ADA)
    world.clock.advance(1)
    world.clear()
    assert world.case().severity is Severity.FATAL
    world.node_orders.return_node(world.key(), ADA)
    assert (world.case().status, world.case().severity) == (CaseStatus.QUEUED, Severity.WARNING)


def test_a_node_that_the_provider_repairs_is_returned_by_order_but_not_replaced() -> None:
    world = World()
    registration = Registration(world.table, world.append, world.clock)
    registration.set_cluster(CLUSTER, {"repair_owner": RepairOwner.PROVIDER})
    world.fault_and_react()
    with pytest.raises(Rejected, match="does not repair"):
        world.node_orders.replace(world.key(), ADA)
    world.until(world.case_is(ESCALATED))
    world.node_orders.return_node(world.key(), ADA)
    assert (world.case().status, world.case().repair_action) == (CaseStatus.QUEUED, RepairAction.VERIFY)


def test_orders_are_rejected_in_a_cluster_in_observe_mode() -> None:
    world = World(mode=Mode.OBSERVE)
    with pytest.raises(Rejected, match="does not repair"):
        world.node_orders.quarantine(world.key(), ADA)


def test_canceling_an_ordered_replacement_ends_the_order_and_the_node_is_healthy() -> None:
    world = World(orchestrated=True)
    world.node_orders.replace(world.key(), ADA)
    world.orders.cancel(world.case().id, ADA)
    world.process_entries(minutes=2)
    assert (world.case().resolution, world.status(), codes(world)) == (Resolution.CANCELLED, NodeStatus.HEALTHY, [])


def test_canceling_an_ordered_replacement_of_an_isolated_node_returns_it_healthy() -> None:
    world = World(rules=(Rule("ask", approval=(RepairAction.REPLACE_NODE,)),), orchestrated=True)
    world.node_orders.replace(world.key(), ADA)
    world.process_entries()
    assert world.status() is NodeStatus.QUARANTINED
    world.orders.cancel(world.case().id, ADA)
    world.until(world.case_is(RESOLVED))
    assert (world.status(), codes(world), world.released_instances()) == (NodeStatus.HEALTHY, [], [])


def test_returning_a_node_withdraws_an_ordered_replacement_that_was_denied() -> None:
    world = World(rules=(Rule("ask", approval=(RepairAction.REPLACE_NODE,)),))
    world.node_orders.replace(world.key(), ADA)
    world.process_entries()
    world.orders.deny(world.case().id, ADA)
    world.node_orders.return_node(world.key(), ADA)
    world.until(world.case_is(RESOLVED))
    assert (world.status(), codes(world), world.released_instances()) == (NodeStatus.HEALTHY, [], [])


def test_a_replacement_ordered_while_a_returned_node_is_verified_is_carried_out() -> None:
    world = World()
    world.node_orders.quarantine(world.key(), ADA)
    world.process_entries()
    world.node_orders.return_node(world.key(), ADA)
    world.until(lambda: world.status() is NodeStatus.VALIDATING)
    world.node_orders.replace(world.key(), ADA)
    world.until(world.case_is(RESOLVED))
    assert (world.case().resolution, codes(world)) == (Resolution.REPLACED, [])
    assert len(world.released_instances()) == 1


def test_a_node_retires_after_its_repair_was_escalated_past_the_intent() -> None:
    world = World()
    world.fleet.set_capacity(0)
    world.fault_until(ESCALATED)
    assert world.case().attempt.intent is not None
    Retirement(world.table, world.append, world.rulebook).retire(world.key(), ADA)
    world.fleet.set_capacity(None)
    world.advance_minutes(200)
    assert (world.status(), world.case().resolution) == (NodeStatus.RETIRED, Resolution.RETIRED)
    assert (world.node().live_case, dict(world.control().holders)) == (None, {})


@pytest.mark.parametrize(
    ("during", "outcome"), [("orchestrator.drain", "retired"), ("provider.replace", "past_intent")]
)
def test_a_node_retires_during_its_repair_only_before_the_intent(during: str, outcome: str) -> None:
    world, outcomes = World(nodes=2, orchestrated=True), []

    def retire(call: Call) -> None:
        if call.name == during and not outcomes:
            outcomes.append("retired")
            try:
                Retirement(world.table, world.append, world.rulebook).retire(world.key(), ADA)
            except Rejected as rejected:
                outcomes[:] = [rejected.reason]

    world.seam.before = retire
    instances = len(world.live_instances())
    world.fault_and_react(minutes=200)
    retired = outcome == "retired"
    assert outcomes == [outcome]
    assert world.status() is (NodeStatus.RETIRED if retired else NodeStatus.HEALTHY)
    assert world.released_instances() == ([] if retired else ["i-00000000000000001"])
    assert (world.node().live_case, dict(world.control().holders)) == (None, {})
    assert len(world.live_instances()) == instances
