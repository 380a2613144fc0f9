"""Approvals and orders of operators: denial, cancellation, maintenance windows, capacity evidence."""

from __future__ import annotations

from datetime import timedelta

import pytest

from faultbridge.decide.admit import Refused
from faultbridge.model.cluster.config import CapacitySource
from faultbridge.model.enums import CaseStatus, NodeStatus, ProviderFailure, RepairAction, Resolution, WaitingFor
from faultbridge.model.errors import Rejected
from faultbridge.model.fault_enums import Action, Severity
from faultbridge.model.policy import Match, Rule, Window
from faultbridge.model.recorded import read_event
from faultbridge.model.storage import items
from faultbridge.model.storage.node_rows import QueuedCase
from faultbridge.model.storage.projections import queue_row, queued_case
from faultbridge.model.values import replace
from faultbridge.record.ports.compute import Capacity, CapacityEvidence, Verdict, Verification
from faultbridge.record.ports.messaging import PageUrgency
from faultbridge.record.rulebook import rules_of
from faultbridge.repair.case_orders import OperatorOrder
from faultbridge.repair.dispatch import record_refusals
from faultbridge.serve.pager.rules import rules_for
from tests.scenarios.world import CLUSTER, World, limits

RESOLVED, QUEUED, ESCALATED = CaseStatus.RESOLVED, CaseStatus.QUEUED, CaseStatus.ESCALATED
ADA = OperatorOrder("arn:aws:iam::123456789012:user/ada", "seen in the rack")
BY_APPROVAL = Rule("careful", approval=(RepairAction.REPLACE_NODE,), approval_deadline=timedelta(hours=2))


def pages(world: World, node: int = 1) -> list[str]:
    return [f"{rule.kind} {rule.state}" for body in world.bodies(node) for rule in rules_for(read_event(body))]


def urgent(world: World) -> list[str]:
    """The urgent pages that are triggered or resolved by the entries of the node."""
    rules = [rule for body in world.bodies() for rule in rules_for(read_event(body))]
    return [f"{rule.kind} {rule.state}" for rule in rules if rule.urgency is PageUrgency.URGENT]


def asked(**others) -> World:
    world = World(rules=(BY_APPROVAL,), **others)
    world.fault_and_react()
    return world


def facts(world: World, step: str) -> dict:
    return next(body["data"]["facts"] for body in world.bodies() if body["data"].get("step") == step)


def test_a_repair_that_needs_approval_isolates_at_once_and_requests_approval_once():
    world = asked()
    world.advance_minutes(30)
    assert (world.status(), world.case().waiting_for, world.released_instances()) == (
        NodeStatus.QUARANTINED,
        WaitingFor.APPROVAL,
        [],
    )
    assert world.record_history().count("note approval begun") == 1
    assert "approval triggered" in pages(world)
    world.orders.approve(world.case().id, ADA)
    world.until(world.case_is(RESOLVED))
    note = next(body["data"] for body in world.bodies() if body["data"].get("stage") == "over")
    assert (note["operator"], note["facts"]["attempt"]) == (ADA.operator, 1)
    assert "approval resolved" in pages(world)
    assert world.case().resolution is Resolution.REPLACED


def test_an_approval_is_valid_only_for_its_attempt():
    world = asked(limits=limits(attempts=3))
    case = world.case().id
    with pytest.raises(Rejected, match="attempt 2"):
        world.orders.approve(case, ADA, attempt=2)
    world.provider.fail_next(ProviderFailure.THROTTLED)
    world.orders.approve(case, ADA, attempt=1)
    world.until(lambda: world.record_history().count("note approval begun") == 2)
    world.advance_minutes(10)
    assert (world.case().waiting_for, len(world.released_instances())) == (WaitingFor.APPROVAL, 1)
    world.orders.approve(case, ADA, attempt=2)
    world.until(world.case_is(RESOLVED))


def test_a_late_approval_of_a_reboot_does_not_approve_the_replacement_that_follows_it():
    rule = Rule(
        "careful", approval=(RepairAction.REBOOT_NODE, RepairAction.REPLACE_NODE), release_without_capacity=True
    )
    mild = Rule("mild", Match(codes=("xid.48",)), action=Action.REBOOT_NODE, approval=rule.approval)
    world = World(rules=(mild, rule))
    world.fault_and_react(code="xid.48")
    case = world.case()
    assert case.pending_approval.repair_action is RepairAction.REBOOT_NODE
    world.fault_and_react(code="xid.79")
    with pytest.raises(Rejected, match="no approval is requested: reboot_node"):
        world.orders.approve(case.id, ADA, attempt=1, action=RepairAction.REBOOT_NODE)
    world.advance_minutes(60)
    assert (world.case().waiting_for, world.released_instances()) == (WaitingFor.APPROVAL, [])
    world.orders.approve(case.id, ADA, attempt=1, action=RepairAction.REPLACE_NODE)
    world.until(world.case_is(RESOLVED))


def test_an_approval_counts_only_for_the_repair_action_that_the_attempt_takes():
    careful = (RepairAction.REBOOT_NODE, RepairAction.REPLACE_NODE)
    world = World(rules=(Rule("careful", action=Action.REBOOT_NODE, approval=careful, release_without_capacity=True),))
    world.fault_and_react()
    world.orders.approve(world.case().id, ADA)
    only = (RepairAction.REPLACE_NODE,)
    without_reboot = replace(world.policy.rules[0], repair_actions=only, approval=only)
    world.policy = replace(world.policy, rules=(without_reboot, *world.policy.rules[1:]))
    world.advance_minutes(60)
    assert (world.case().waiting_for, world.released_instances()) == (WaitingFor.APPROVAL, [])
    assert world.case().pending_approval.repair_action is RepairAction.REPLACE_NODE
    world.orders.approve(world.case().id, ADA, action=RepairAction.REPLACE_NODE)
    world.until(world.case_is(RESOLVED))
    assert len(world.released_instances()) == 1


def test_a_denied_repair_escalates_and_the_node_stays_out_of_service():
    world = asked()
    world.orders.deny(world.case().id, ADA)
    world.advance_minutes(5)
    assert (world.case().status, world.status(), world.released_instances()) == (ESCALATED, NodeStatus.QUARANTINED, [])
    assert world.case().reason == "denied: seen in the rack"
    answer = world.case().approval
    assert answer is not None
    assert (answer.answer, answer.operator) == ("denied", ADA.operator)
    assert urgent(world) == ["approval triggered", "approval resolved", "approval resolved", "waiting resolved"]
    with pytest.raises(Rejected, match="no approval is requested"):
        world.orders.approve(world.case().id, ADA)


def test_an_approval_that_times_out_escalates_the_case():
    world = asked()
    assert 119 <= world.until(world.case_is(ESCALATED)) <= 121
    assert world.record_history()[-2:] == ["note approval over", "case queued -> escalated"]
    assert world.released_instances() == []


def test_a_repair_starts_only_within_a_maintenance_window_of_its_rule():
    # Noon in UTC is 13:00 in Berlin in winter.
    window = Window("0 22 * * mon-fri", timedelta(hours=4), "Europe/Berlin")
    rule = Rule("at-night", windows=(window,), release_without_capacity=True)
    world = World(rules=(rule,))
    world.fault_and_react()
    assert (world.status(), world.case().waiting_for) == (NodeStatus.QUARANTINED, WaitingFor.WINDOW)
    minutes = world.until(lambda: bool(world.released_instances()), 24 * 60)
    assert minutes == 9 * 60
    world.until(world.case_is(RESOLVED))


def test_a_case_canceled_before_any_action_closes_and_leaves_the_node_unchanged():
    world = World(rules=(Rule("gentle", isolate=False, wait_seconds=600),))
    world.fault_and_react()
    world.orders.cancel(world.case().id, ADA)
    world.advance_minutes(20)
    assert (world.case().resolution, world.status()) == (Resolution.CANCELLED, NodeStatus.DEGRADED)
    assert world.released_instances() == []


@pytest.mark.parametrize("draining", [False, True])
def test_canceling_the_case_of_an_isolated_node_releases_nothing_and_returns_the_node_verified(draining):
    world = World(orchestrated=True)
    world.orchestrator.busy_until["node-1"] = world.clock.now() + timedelta(minutes=30)
    if not draining:
        world.pause_repairs(paused=True)
    world.fault_and_react()
    world.orders.cancel(world.case().id, ADA)
    world.pause_repairs(paused=False)
    world.until(world.case_is(RESOLVED))
    assert world.released_instances() == []
    assert "intent committed" not in world.record_history()
    assert world.case().resolution is Resolution.CANCELLED
    assert world.status().in_service
    assert world.orchestrator.cordoned == set()


def test_a_case_cannot_be_canceled_after_its_intent():
    world = World()
    world.fault_and_react()
    assert "intent committed" in world.record_history()
    with pytest.raises(Rejected, match="past its intent"):
        world.orders.cancel(world.case().id, ADA)
    world.until(world.case_is(RESOLVED))


@pytest.mark.parametrize("blind", [False, True])
def test_a_working_node_without_capacity_evidence_is_released_only_after_approval(blind):
    mild = Rule("mild", Match(codes=("xid.48",)), severity=Severity.ERROR, release_without_capacity=blind)
    world = World(rules=(mild,))
    world.fault_and_react(code="xid.48")
    assert (world.case().waiting_for, world.released_instances()) == (WaitingFor.APPROVAL, [])
    assert "capacity unproven" in world.record_history()
    world.orders.approve(world.case().id, ADA)
    world.until(world.case_is(RESOLVED))
    assert facts(world, "intent")["capacity_evidence"] == "none"


def test_the_approval_of_a_reboot_is_no_approval_of_a_release_without_evidence():
    reboot = RepairAction.REBOOT_NODE
    world = World(rules=(Rule("asks", Match(codes=("xid.48",)), action=Action.REBOOT_NODE, approval=(reboot,)),))
    world.verifier.result = Verification(Verdict.FAILED, ("memory: fail",))
    world.fault_and_react(code="xid.48")
    world.orders.approve(world.case().id, ADA, action=reboot)
    world.advance_minutes(120)
    assert len(world.restarter.restarted) == 1
    assert (world.case().waiting_for, world.released_instances()) == (WaitingFor.APPROVAL, [])
    assert world.case().pending_approval.repair_action is RepairAction.REPLACE_NODE


def test_an_unusable_node_without_capacity_evidence_is_kept_unless_a_rule_allows_its_release():
    world = World(rules=(Rule("says-nothing"),))
    world.fault_and_react()
    assert (world.case().waiting_for, world.released_instances()) == (WaitingFor.APPROVAL, [])


def test_the_state_of_a_reservation_is_recorded_with_the_intent_or_with_the_question():
    ended = Capacity(reason="capacity reservation cr-1 is expired")
    asking = World(rules=(Rule("never-blind"),))
    asking.provider.known_capacity = ended
    asking.fault_and_react()
    assert asking.case().pending_approval is not None
    assert asking.case().reason.endswith("replacement instance: capacity reservation cr-1 is expired")
    permitted = World(rules=(Rule("blind", release_without_capacity=True),))
    permitted.provider.known_capacity = ended
    permitted.fault_until_resolved()
    assert (facts(permitted, "intent")["capacity_evidence"], facts(permitted, "intent")["capacity"]) == (
        "none",
        "capacity reservation cr-1 is expired",
    )


WITHOUT_CAPACITY = {CapacityEvidence.NONE, CapacityEvidence.ABSENT}


@pytest.mark.parametrize("evidence", [one for one in CapacityEvidence if one not in WITHOUT_CAPACITY])
def test_the_capacity_evidence_is_recorded_with_the_intent(evidence):
    rule = Rule("never-blind", release_without_capacity=False)
    world = World(rules=(rule,))
    world.provider.known_capacity = Capacity(evidence)
    world.fault_until_resolved()
    note = facts(world, "intent")
    assert (note["capacity_evidence"], note["rule"], note["policy"]) == (
        evidence.value,
        "never-blind",
        "test-policy",
    )


def probes(world: World) -> int:
    """Return how many times the sources of capacity were asked: each time the own reservation once."""
    return sum(call.argument[0] is CapacitySource.OWN_RESERVATION for call in world.seam.named("provider.capacity"))


def test_without_capacity_for_eight_hours_all_nodes_are_kept_and_one_case_probes():
    world = World(nodes=6, limits=limits(concurrent=6, per_hour=500))
    world.provider.known_capacity = Capacity(CapacityEvidence.RESERVATION, free=False)
    for node in range(1, 7):
        world.fault(node)
    world.process_entries(minutes=60)
    seen = probes(world)
    world.advance_minutes(7 * 60)
    assert world.released_instances() == []
    assert {world.case(node).status for node in range(1, 7)} == {QUEUED}
    assert probes(world) - seen <= 7 * 12
    assert world.control().holders == {}
    world.provider.known_capacity = Capacity(CapacityEvidence.RESERVATION)
    for node in range(1, 7):
        world.until(world.case_is(RESOLVED, node))
    assert len(world.released_instances()) == len(set(world.released_instances())) == 6


def test_an_isolation_that_fails_for_five_minutes_pages_and_resolves_the_page_on_success():
    world = World(orchestrated=True)
    world.orchestrator.fail_next(*[ProviderFailure.TIMEOUT] * 100)
    world.fault_and_react(minutes=4)
    assert "isolation triggered" not in pages(world)
    world.advance_minutes(3)
    assert pages(world).count("isolation triggered") == 1
    world.orchestrator.failures.clear()
    world.advance_minutes(6)
    assert pages(world).count("isolation resolved") == 1
    world.until(world.case_is(RESOLVED))


def test_a_dry_run_rule_takes_no_action():
    world = World(rules=(Rule("trial", Match(codes=("xid.48",)), dry_run=True, isolate=False),), nodes=2)
    world.fault(1, code="xid.48")
    world.fault_and_react(2)
    assert (world.case(1).resolution, world.status(1)) == (Resolution.DRY_RUN, NodeStatus.DEGRADED)
    world.until(world.case_is(RESOLVED, 2))
    assert world.released_instances() == ["i-00000000000000002"]


def test_under_a_rule_that_only_reports_a_node_that_an_operator_fixed_is_verified_and_nothing_else_is_done():
    world = World(rules=(Rule("trial", dry_run=True),))
    world.node_orders.quarantine(world.key(), ADA)
    world.process_entries()
    world.node_orders.return_node(world.key(), ADA)
    world.until_case(RESOLVED)
    assert (world.status(), world.released_instances()) == (NodeStatus.HEALTHY, [])


def test_a_frequent_fault_is_raised_in_severity():
    often = Rule(
        "often",
        Match(codes=("xid.92",), count=3, hours=2),
        severity=Severity.FATAL,
        action=Action.REPLACE_NODE,
        release_without_capacity=True,
    )
    world = World(rules=(often,))
    world.fault(code="xid.92")
    world.advance_minutes(2)
    world.fault(code="xid.92")
    assert world.node().case is None
    world.advance_minutes(2)
    world.fault_and_react(code="xid.92")
    assert (world.case().rule, world.case().severity) == ("often", Severity.FATAL)
    world.until(world.case_is(RESOLVED))
    assert facts(world, "intent")["rule"] == "often"


@pytest.mark.parametrize(
    ("rule", "limit", "level"),
    [(4, None, 4), (None, 2, 2), (1, 4, 1), (None, None, None)],
    ids=["by its rule", "by the limits", "a rule replaces the limit", "by the verifier"],
)
def test_the_policy_sets_the_verification_level(rule: int | None, limit: int | None, level: int | None):
    rules = (Rule("catalog", verify_level=rule, release_without_capacity=True),)
    world = World(rules=rules, limits=limits(verify_level=limit))
    world.fault_until_resolved()
    (begun,) = world.seam.named("verifier.start")
    assert begun.argument[2] == level


def test_the_row_of_a_queued_case_has_no_empty_attribute_and_no_opening_time_before_a_failed_repair():
    world = World()
    world.pause_repairs(paused=True)
    world.fault_and_react()
    row = queue_row(world.node())
    assert row is not None
    stored = items.row_item(*row, world.clock.now())
    assert [name for name, value in stored.items() if value in (None, "", [], {}) or value is False] == []
    assert not {"repeated_since", "approved", "approval_pending"} & set(stored)
    assert items.stored_value(QueuedCase, stored) == row.value


def test_a_case_that_was_canceled_after_its_refusal_is_not_asked_for_approval_again():
    world = World(rules=(BY_APPROVAL,))
    world.pause_repairs(paused=True)
    world.fault_and_react()
    rules = rules_of(world.rulebook, CLUSTER)
    queued = queued_case(world.node())
    assert queued is not None
    refused = Refused(queued, WaitingFor.APPROVAL, "replace_node requires approval")
    world.orders.cancel(world.case().id, ADA)
    record_refusals(world.append, [refused], rules)
    assert world.case().cancelled
    assert world.case().pending_approval is None
    world.pause_repairs(paused=False)
    world.until(world.case_is(RESOLVED))
    assert "note approval begun" not in world.record_history()


def test_an_approval_is_refused_from_its_deadline_on_also_before_the_sweep_acts_on_it():
    world = asked()
    answer_by = world.case().pending_approval.answer_by
    world.clock.advance(answer_by - world.clock.now())
    with pytest.raises(Rejected, match="the approval was due by"):
        world.orders.approve(world.case().id, ADA)


@pytest.mark.parametrize(
    ("rule", "by_rule"), [(BY_APPROVAL, True), (Rule("strict", release_without_capacity=False), False)]
)
def test_an_approval_says_whether_a_rule_or_missing_evidence_of_capacity_requires_it(rule: Rule, by_rule: bool):
    world = World(rules=(rule,))
    world.fault_and_react()
    assert world.case().pending_approval.by_rule is by_rule
