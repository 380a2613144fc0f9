"""Two faults under two rules: what either rule requires of a repair holds, whenever the second fault joins."""

from __future__ import annotations

from datetime import timedelta

import pytest

from faultbridge.model.enums import CaseStatus, NodeStatus, RepairAction, Resolution, WaitingFor
from faultbridge.model.fault_enums import Action, Severity
from faultbridge.model.policy import Match, Rule, Window
from faultbridge.model.values import replace
from faultbridge.record.ports.compute import Verdict, Verification
from tests.scenarios.repair.builders import ADA, CAREFUL, MILD, REPLACE, with_rules
from tests.scenarios.world import World
from tests.sim.fakes.seam import Call

CLOSED = Window("0 3 1 1 *", timedelta(hours=1))
"""A window on the first of January, when no test runs."""


def join_at(world: World, call: str, code: str, **others: object) -> None:
    """Report a second fault at the first call of this name."""
    pending = [call]

    def before(made: Call) -> None:
        if made.name in pending:
            pending.remove(made.name)
            world.fault(code=code, **others)

    world.seam.before = before


def reboot(world: World) -> None:
    world.fault_and_react(code="xid.48", severity=Severity.ERROR, action=Action.REBOOT_NODE)


@pytest.mark.parametrize("call", ["orchestrator.drain", "restarter.restart", "restarter.status", "verifier.start"])
def test_a_fault_that_joins_an_attempt_brings_the_approval_that_its_rule_requires(call: str) -> None:
    world = with_rules(CAREFUL, MILD)
    join_at(world, call, "xid.79")
    reboot(world)
    world.advance_minutes(180)
    assert (world.case().waiting_for, world.released_instances()) == (WaitingFor.APPROVAL, [])
    assert world.case().rule == "replacements-ask"
    assert world.case().severity is Severity.FATAL
    world.orders.approve(world.case().id, ADA, action=REPLACE)
    world.until(world.case_is(CaseStatus.RESOLVED))
    assert len(world.released_instances()) == 1


def test_a_stronger_fault_that_joins_during_the_verification_is_repaired_by_its_own_rule() -> None:
    only_reboots = replace(MILD, repair_actions=(RepairAction.VERIFY, RepairAction.REBOOT_NODE))
    world = with_rules(replace(CAREFUL, approval=()), only_reboots)
    join_at(world, "verifier.start", "xid.79")
    reboot(world)
    world.until(world.case_is(CaseStatus.RESOLVED))
    assert len(world.released_instances()) == 1


@pytest.mark.parametrize("joined", ["queued", "draining"])
def test_a_fault_that_needs_the_same_action_brings_the_approval_of_its_own_rule(joined: str) -> None:
    automatic = replace(MILD, action=Action.REPLACE_NODE)
    world = with_rules(CAREFUL, automatic)
    if joined == "queued":
        world.pause_repairs(paused=True)
    else:
        join_at(world, "orchestrator.drain", "xid.79")
    world.fault_and_react(code="xid.48")
    if joined == "queued":
        world.fault_and_react(code="xid.79")
        world.pause_repairs(paused=False)
    world.advance_minutes(60)
    assert (world.case().waiting_for, world.released_instances()) == (WaitingFor.APPROVAL, [])
    world.orders.approve(world.case().id, ADA, action=REPLACE)
    world.until(world.case_is(CaseStatus.RESOLVED))


@pytest.mark.parametrize("asks", [False, True], ids=["paused", "waiting for an approval"])
def test_the_next_sweep_isolates_a_node_with_a_fatal_fault_that_joined_the_waiting_case_of_a_warning(
    asks: bool,
) -> None:
    world = with_rules(Rule("asks", approval=(RepairAction.REBOOT_NODE, REPLACE) if asks else ()))
    world.pause_repairs(paused=not asks)
    world.fault_and_react(code="xid.48", severity=Severity.WARNING, action=Action.REBOOT_NODE)
    assert world.status() is NodeStatus.DEGRADED
    world.fault_and_react(code="xid.79", minutes=1)
    assert world.status() is NodeStatus.QUARANTINED
    assert world.case().status is CaseStatus.QUEUED


def test_a_fault_that_joins_under_a_rule_without_isolation_leaves_the_node_in_service() -> None:
    world = with_rules(replace(CAREFUL, isolate=False), MILD)
    world.pause_repairs(paused=True)
    world.fault_and_react(code="xid.48", severity=Severity.WARNING, action=Action.REBOOT_NODE)
    world.fault_and_react(code="xid.79", minutes=1)
    assert (world.status(), world.case().repair_action) == (NodeStatus.DEGRADED, REPLACE)


def test_a_replacement_after_a_failed_reboot_needs_the_approval_of_each_active_fault() -> None:
    asks = Rule("asks-later", Match(codes=("xid.48",)), approval=(REPLACE,), release_without_capacity=True)
    world = with_rules(asks, Rule("reboots", Match(codes=("xid.95",)), release_without_capacity=True))
    world.pause_repairs(paused=True)
    world.fault_and_react(code="xid.95", severity=Severity.ERROR, action=Action.REBOOT_NODE)
    reboot(world)
    world.pause_repairs(paused=False)
    world.verifier.result = Verification(Verdict.FAILED, ("memory: fail",))
    world.advance_minutes(180)
    assert (world.case().waiting_for, world.released_instances()) == (WaitingFor.APPROVAL, [])


@pytest.mark.parametrize("mild", [False, True], ids=["alone", "beside a mild fault"])
@pytest.mark.parametrize("joins", ["while queued", "orchestrator.drain"])
def test_a_replacement_needs_the_approval_of_a_joined_fault_that_the_reboot_before_it_ended(
    joins: str, mild: bool
) -> None:
    asks = Rule("asks-later", Match(codes=("xid.48",)), approval=(REPLACE,), release_without_capacity=True)
    world = with_rules(asks, Rule("reboots", Match(codes=("xid.79",)), release_without_capacity=True))
    world.verifier.result = Verification(Verdict.FAILED, ("memory: fail",))
    world.pause_repairs(paused=True)
    world.fault_and_react(code="xid.79", severity=Severity.ERROR, action=Action.REBOOT_NODE)
    if joins == "while queued":
        reboot(world)
    else:
        join_at(world, joins, "xid.48", severity=Severity.ERROR, action=Action.REBOOT_NODE)
    world.pause_repairs(paused=False)
    world.until(lambda: bool(world.restarter.restarted))
    world.advance_minutes(1)
    for code in ("xid.79", "xid.48"):
        world.clear(code=code)
    assert list(world.node().active()) == []
    if mild:
        world.fault(code="net.link_down", source="link-state", severity=Severity.WARNING, action=Action.RUN_DIAGNOSTICS)
    world.advance_minutes(180)
    assert (world.case().waiting_for, world.released_instances()) == (WaitingFor.APPROVAL, [])
    world.orders.approve(world.case().id, ADA, action=REPLACE)
    world.until(lambda: len(world.released_instances()) == 1)


@pytest.mark.parametrize("mild", [False, True], ids=["alone", "beside a mild fault"])
@pytest.mark.parametrize("source", [(), ("kernel-log",)], ids=["any source", "one source"])
def test_a_replacement_needs_the_approval_that_a_changed_policy_requires_for_the_ended_fault(
    source: tuple[str, ...], mild: bool
) -> None:
    world = with_rules(MILD)
    world.verifier.result = Verification(Verdict.FAILED, ("memory: fail",))
    reboot(world)
    world.until(lambda: bool(world.restarter.restarted))
    world.advance_minutes(1)
    world.clear(code="xid.48")
    if mild:
        world.fault(code="net.link_down", source="link-state", severity=Severity.WARNING, action=Action.RUN_DIAGNOSTICS)
    asks = replace(CAREFUL, name="asks-now", match=Match(codes=("xid.48",), sources=source))
    world.policy = replace(world.policy, version="changed", rules=(asks, MILD))
    world.advance_minutes(180)
    assert (world.case().waiting_for, world.released_instances()) == (WaitingFor.APPROVAL, [])
    world.orders.approve(world.case().id, ADA, action=REPLACE)
    world.until(lambda: len(world.released_instances()) == 1)


def test_a_milder_fault_beside_it_does_not_make_a_repair_ask() -> None:
    asks = Rule("asks-later", Match(codes=("xid.48",)), approval=(REPLACE,))
    world = with_rules(asks, replace(CAREFUL, approval=()))
    world.pause_repairs(paused=True)
    reboot(world)
    world.fault_and_react(code="xid.79")
    world.pause_repairs(paused=False)
    world.until(world.case_is(CaseStatus.RESOLVED))
    assert "note approval begun" not in world.record_history()


def test_a_rule_that_only_reports_does_not_stop_the_repair_of_another_fault() -> None:
    world = with_rules(Rule("trial", Match(codes=("xid.48",)), dry_run=True), replace(CAREFUL, approval=()))
    world.pause_repairs(paused=True)
    world.fault_and_react(code="xid.79")
    world.fault_and_react(code="xid.48")
    world.pause_repairs(paused=False)
    world.until(world.case_is(CaseStatus.RESOLVED))
    assert (len(world.released_instances()), world.case().resolution) == (1, Resolution.REPLACED)


def test_a_repair_waits_for_the_window_of_each_fault_that_requires_it() -> None:
    windowed = replace(CAREFUL, name="windows", approval=(), windows=(CLOSED,))
    world = with_rules(windowed, replace(MILD, action=Action.REPLACE_NODE))
    world.pause_repairs(paused=True)
    world.fault_and_react(code="xid.48")
    world.fault_and_react(code="xid.79")
    world.pause_repairs(paused=False)
    world.advance_minutes(60)
    assert (world.case().waiting_for, world.released_instances()) == (WaitingFor.WINDOW, [])


def test_an_instance_is_released_without_evidence_only_if_the_rule_of_each_fault_permits_it() -> None:
    proven = replace(CAREFUL, approval=(), release_without_capacity=False)
    world = World(rules=(proven, replace(MILD, action=Action.REPLACE_NODE)))
    world.pause_repairs(paused=True)
    world.fault_and_react(code="xid.48")
    world.fault_and_react(code="xid.79")
    world.pause_repairs(paused=False)
    world.advance_minutes(60)
    assert (world.case().waiting_for, world.released_instances()) == (WaitingFor.APPROVAL, [])


def queued_under(rule: Rule) -> World:
    world = with_rules(rule)
    world.pause_repairs(paused=True)
    world.fault(code="xid.79")
    world.advance_minutes(2)
    return world


def go_on_with(world: World, *rules: Rule) -> None:
    world.policy = replace(world.policy, version="renamed", rules=(*rules, *world.policy.rules[1:]))
    world.pause_repairs(paused=False)
    world.advance_minutes(60)


def test_a_policy_that_renames_the_rule_of_a_queued_case_keeps_what_the_rule_requires() -> None:
    world = queued_under(CAREFUL)
    go_on_with(world, replace(CAREFUL, name="ask-before-replacements"))
    assert (world.status(), world.case().waiting_for) == (NodeStatus.QUARANTINED, WaitingFor.APPROVAL)
    assert world.released_instances() == []


def test_a_renamed_dry_run_still_repairs_nothing() -> None:
    world = queued_under(replace(CAREFUL, approval=(), windows=(CLOSED,)))
    go_on_with(world, replace(CAREFUL, name="only-report", approval=(), dry_run=True))
    assert world.released_instances() == []
    assert world.case().status is CaseStatus.ESCALATED
    assert world.case().reason.endswith("only reports, and the node is out of service")


def test_a_renamed_rule_still_limits_the_repair_actions() -> None:
    world = queued_under(replace(CAREFUL, approval=()))
    go_on_with(world, replace(CAREFUL, name="reboots-only", approval=(), repair_actions=(RepairAction.REBOOT_NODE,)))
    assert world.released_instances() == []
