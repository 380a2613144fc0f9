"""One cause sends one urgent page, whatever the catalog or the policy says about the faults that it causes."""

from __future__ import annotations

from datetime import timedelta

import pytest

from faultbridge.model.enums import CaseStatus, RepairAction, Resolution, WaitingFor
from faultbridge.model.fault_enums import Action, Family, Severity
from faultbridge.model.policy import Match, Rule
from faultbridge.repair import incidents as repair_incidents
from faultbridge.repair.case_orders import OperatorOrder
from tests.scenarios.incidents.builders import CATALOG, SUPPORT, fail, world_with_catalog
from tests.scenarios.incidents.incidents import (
    RACK,
    cases,
    incidents,
    lose_links,
    restore_links,
)
from tests.scenarios.incidents.pages_of_incidents import urgent
from tests.scenarios.world import CLUSTER, World, limits

CODES = {
    Family.NETWORK: "net.link_down",
    Family.NVLINK: "sxid.11004",
    Family.POWER: "xid.54",
    Family.STORAGE: "host.file_server_lost",
    Family.THERMAL: "xid.53",
    Family.SOFTWARE: "host.invalid_registration",
    Family.HEARTBEAT: "host.not_ready",
}
"""One fault code of each family."""

ACTIONS = [action for action in Action if action.opens_case]


def opened_page(world: World) -> list[str]:
    return [f"train-a:incident:{one.id} triggered" for one in incidents(world)]


def own_pages(world: World) -> list[str]:
    return [line for line in urgent(world) if line.endswith("escalated triggered")]


def test_each_family_has_its_code_here():
    assert {family: CATALOG.row(code).family for family, code in CODES.items()} == {family: family for family in Family}


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action.value)
@pytest.mark.parametrize("family", Family, ids=lambda family: family.value)
def test_eight_nodes_of_a_rack_that_fail_at_once_are_one_urgent_page(family: Family, action: Action):
    world = world_with_catalog()
    for node in RACK:
        fail(world, node, CODES[family], action)
    world.process_entries()
    world.advance_minutes(5)
    assert cases(world) == {CaseStatus.ABSORBED}
    assert [incident.affected for incident in incidents(world)] == [8]
    assert urgent(world) == opened_page(world)


@pytest.mark.parametrize("family", Family, ids=lambda family: family.value)
def test_eight_nodes_that_need_support_and_report_one_after_the_other_are_one_urgent_page(family: Family):
    world = world_with_catalog()
    for node in RACK:
        fail(world, node, CODES[family], Action.CONTACT_SUPPORT)
        world.process_entries()
        world.clock.advance(timedelta(seconds=1))
    world.advance_minutes(5)
    assert cases(world) == {CaseStatus.ABSORBED}
    assert [incident.affected for incident in incidents(world)] == [8]
    assert urgent(world) == opened_page(world)


@pytest.mark.parametrize("family", Family, ids=lambda family: family.value)
def test_a_node_that_needs_support_and_fails_alone_sends_its_urgent_page_within_a_sweep(family: Family):
    world = world_with_catalog()
    fail(world, 1, CODES[family], Action.CONTACT_SUPPORT)
    world.process_entries()
    assert (world.case(1).status, world.case(1).waiting_for) == (CaseStatus.OPEN, WaitingFor.CORRELATION)
    world.advance_minutes()
    assert world.case(1).status is CaseStatus.ESCALATED
    assert "needs support" in world.case(1).reason
    assert urgent(world) == [f"{world.case(1).id}:escalated triggered"]


def test_a_fault_without_a_family_that_needs_support_sends_its_urgent_page_at_once():
    world = world_with_catalog()
    fail(world, 1, "xid.119", Action.CONTACT_SUPPORT)
    assert urgent(world) == [f"{world.case(1).id}:escalated triggered"]


def test_an_operator_who_quarantines_a_faulty_node_waits_for_no_comparison():
    world = world_with_catalog()
    world.fault(1, "net.link_down", source="link-state", severity=Severity.WARNING, action=Action.NONE)
    assert [condition.family for condition in world.node(1).active()] == [Family.NETWORK]
    world.node_orders.quarantine(world.key(1), OperatorOrder("ada"))
    assert world.case(1).status is CaseStatus.ESCALATED


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action.value)
def test_nodes_that_join_the_rack_later_send_no_further_page(action: Action):
    world = world_with_catalog()
    for node in range(1, 5):
        fail(world, node, action=action)
    world.process_entries()
    world.advance_minutes(20)
    for node in range(5, 9):
        fail(world, node, action=action)
        world.process_entries()
        world.advance_minutes(1)
    assert cases(world) == {CaseStatus.ABSORBED}
    assert urgent(world) == opened_page(world)


def test_the_sweep_alone_lets_no_node_of_a_shared_fault_page():
    world = world_with_catalog()
    for node in RACK:
        fail(world, node)
    world.clock.advance(timedelta(minutes=1))
    world.sweep.run()
    assert cases(world) == {CaseStatus.ABSORBED}
    world.process_entries()
    assert urgent(world) == opened_page(world)


def test_a_node_that_needs_support_pages_within_minutes_if_the_incidents_cannot_be_updated(
    monkeypatch: pytest.MonkeyPatch,
):
    world = world_with_catalog()

    def stop(*_: object, **__: object) -> None:
        raise ValueError("broken")

    monkeypatch.setattr(type(world.correlate), "update_incidents", stop)
    fail(world, 1)
    world.advance_minutes(2)
    assert world.case(1).status is CaseStatus.OPEN
    world.advance_minutes(1)
    assert world.case(1).status is CaseStatus.ESCALATED


def test_a_case_that_needed_support_is_escalated_when_its_incident_expires_and_is_never_repaired():
    world = world_with_catalog()
    for node in RACK:
        fail(world, node)
    world.process_entries()
    world.advance_minutes(110)
    assert own_pages(world) == []
    world.advance_minutes(20)
    assert cases(world) == {CaseStatus.ESCALATED}
    assert world.released_instances() == []


@pytest.mark.parametrize("orchestrated", [True, False])
def test_a_fault_that_ends_before_it_is_known_to_be_alone_sends_no_page(orchestrated: bool):
    world = world_with_catalog(orchestrated=orchestrated)
    fail(world, 1)
    world.process_entries()
    world.clock.advance(timedelta(seconds=5))
    world.clear(1, SUPPORT)
    world.process_entries()
    world.until(lambda: world.case(1).status is CaseStatus.RESOLVED, minutes=30)
    assert urgent(world) == []
    assert world.released_instances() == []


def test_a_fault_that_comes_back_at_once_replaces_no_instance():
    world = world_with_catalog(orchestrated=True)
    world.pause_repairs(paused=True)
    fail(world, 1)
    world.process_entries()
    world.clock.advance(timedelta(seconds=5))
    world.clear(1, SUPPORT)
    world.process_entries()
    world.clock.advance(timedelta(seconds=5))
    fail(world, 1)
    world.process_entries()
    world.pause_repairs(paused=False)
    world.advance_minutes(60)
    assert world.case(1).status is CaseStatus.ESCALATED
    assert world.released_instances() == world.restarter.restarted == []


def test_an_operator_orders_the_replacement_of_a_node_that_is_still_compared_with_others():
    world = world_with_catalog()
    fail(world, 1)
    world.process_entries()
    world.node_orders.replace(world.key(1), OperatorOrder("ada"))
    world.process_entries()
    world.until(lambda: world.case(1).status is CaseStatus.RESOLVED)
    assert world.case(1).resolution is Resolution.REPLACED
    assert urgent(world) == []


def test_a_rule_that_permits_no_repair_action_sends_no_page_of_the_nodes_of_one_rack():
    verify_only = Rule("verify-only", Match(codes=("net.*",)), repair_actions=(RepairAction.VERIFY,))
    world = world_with_catalog(rules=(verify_only,))
    lose_links(world)
    world.advance_minutes(5)
    assert cases(world) == {CaseStatus.ABSORBED}
    assert urgent(world) == opened_page(world)


def test_nodes_that_were_replaced_after_one_incident_send_no_page_of_their_own_in_the_next():
    world = world_with_catalog()
    lose_links(world)
    for node in (3, 5):
        world.fault(node, "xid.79")
    world.process_entries()
    world.advance_minutes(20)
    restore_links(world)
    world.advance_minutes(300)
    assert world.case(3).resolution is Resolution.REPLACED
    assert world.node(3).probations != ()
    lose_links(world)
    world.advance_minutes(15)
    assert cases(world) == {CaseStatus.ABSORBED}
    restore_links(world)
    world.advance_minutes(60)
    assert own_pages(world) == []
    assert cases(world) == {CaseStatus.RESOLVED}
    assert world.released_instances() == ["i-00000000000000003", "i-00000000000000005"]


def test_a_link_that_fails_alone_after_a_replacement_still_needs_an_operator_within_a_sweep():
    world = world_with_catalog()
    lose_links(world, (3,))
    world.fault_and_react(3, "xid.79")
    world.until(lambda: world.case(3).status is CaseStatus.RESOLVED)
    assert world.case(3).resolution is Resolution.REPLACED
    world.advance_minutes(60)
    lose_links(world, (3,))
    assert own_pages(world) == []
    world.advance_minutes()
    assert world.case(3).status is CaseStatus.ESCALATED
    assert own_pages(world) == [f"{world.case(3).id}:escalated triggered"]


def test_a_run_that_cannot_absorb_all_cases_of_an_incident_lets_none_of_the_others_page(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(repair_incidents, "MAX_CASES", 3)
    world = world_with_catalog()
    for node in RACK:
        fail(world, node, action=Action.RESET_GPU if node <= repair_incidents.MAX_CASES else None)
    world.clock.advance(timedelta(minutes=1))
    world.correlate.update_incidents(CLUSTER)
    assert [world.case(node).status for node in RACK].count(CaseStatus.ABSORBED) == 3
    world.advance_minutes(2)
    assert cases(world) == {CaseStatus.ABSORBED}
    assert urgent(world) == opened_page(world)


def test_support_faults_that_return_end_in_no_repair():
    world = world_with_catalog(orchestrated=True, limits=limits(isolation_percent=100))
    faulty = {f"i-{node:017}" for node in RACK}
    world.verifier.cut_off = lambda instance: instance in faulty
    for node in RACK:
        fail(world, node)
    world.process_entries()
    world.advance_minutes(5)
    without_power, faulty = faulty, set()
    for node in RACK:
        world.clear(node, SUPPORT)
    world.process_entries()
    world.advance_minutes(2)
    faulty = without_power
    for node in RACK:
        fail(world, node)
    world.process_entries()
    world.advance_minutes(400)
    assert cases(world) == {CaseStatus.ESCALATED}
    assert "no automatic repair is known" in world.case(1).reason
    assert world.released_instances() == world.restarter.restarted == []
