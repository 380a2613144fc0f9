"""Held cases: a run reads and moves only the cases whose incident began or ended."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import timedelta

import pytest

from faultbridge.decide.case_moves import SETTLE
from faultbridge.model.cluster.incidents import Incident
from faultbridge.model.enums import CaseStatus, RepairAction, WaitingFor
from faultbridge.model.policy import Match, Rule
from faultbridge.model.storage import keys
from faultbridge.model.storage.projections import unhealthy_row
from faultbridge.model.storage.writes import Item
from faultbridge.model.times import from_text
from faultbridge.record.ports import Verdict, Verification
from faultbridge.record.queries import unhealthy_rows
from faultbridge.record.rulebook import rules_of
from faultbridge.repair.incidents.held import HeldCases
from tests.scenarios.incidents.builders import fail, world_with_catalog
from tests.scenarios.incidents.incidents import RACK, cases, incidents, lose_links, restore_links, world_of
from tests.scenarios.world import CLUSTER, World


def held_of(world: World) -> HeldCases:
    return world.correlate.held


def rows(world: World) -> dict[str, Item]:
    """Return the rows of unhealthy nodes by name."""
    found = unhealthy_rows(world.table, rules_of(world.rulebook, CLUSTER).config)
    return {str(row["node"]): row for row in found}


def by_id(world: World) -> dict[str, Incident]:
    return {one.id: one for one in incidents(world)}


def read_nodes(world: World) -> set[int]:
    """Return the nodes whose states were read or written since the calls were cleared."""
    arguments = [str(call.argument) for call in world.seam.calls]
    return {node for node in range(1, 17) if any(str(keys.node_state(world.key(node))) in one for one in arguments)}


def absorb(world: World, found: dict[str, Item], explained: dict[str, str] | None = None) -> set[int]:
    """Absorb the cases of open incidents; returns the nodes whose states were read."""
    control, known = world.control(), by_id(world)
    world.seam.calls.clear()
    held_of(world).absorb(control, known, found, explained or {})
    return read_nodes(world)


def release(world: World, known: dict[str, Incident], explained: dict[str, str] | None = None) -> set[int]:
    """Release the cases that none of these incidents holds; returns the nodes whose states were read."""
    control, rules = world.control(), rules_of(world.rulebook, CLUSTER)
    waiting = held_of(world).rows(rules)
    world.seam.calls.clear()
    held_of(world).release(control, known, waiting, rules, explained or {})
    return read_nodes(world)


def test_a_case_that_waits_already_and_a_node_without_a_case_are_left_alone():
    world = world_of(16)
    lose_links(world)
    assert cases(world) == {CaseStatus.ABSORBED}
    found = rows(world)
    assert absorb(world, found) == set()
    assert absorb(world, {}) == set()
    assert absorb(world, {"node-1": {**found["node-1"], "case": None, "incident": None}}) == set()
    assert absorb(world, {"node-1": {**found["node-1"], "incident": None}}) == {1}


def test_each_case_that_a_run_moves_is_logged_and_no_other(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO)
    world = world_of(16)
    lose_links(world)
    (incident,) = incidents(world)
    moved = [record for record in caplog.records if record.message == "case_absorbed"]
    assert [(one.node, one.reason, one.case_id) for one in moved] == [
        (f"node-{node}", incident.id, world.case(node).id) for node in RACK
    ]
    caplog.clear()
    absorb(world, {"node-1": {**rows(world)["node-1"], "incident": None}})
    assert [record.message for record in caplog.records] == []


def test_a_failed_repair_waits_for_the_incident_that_explains_it_only_while_that_is_open():
    world = world_of(16)
    lose_links(world)
    (incident,) = incidents(world)
    world.fault(9, "xid.79")
    found = {"node-9": rows(world)["node-9"]}
    assert absorb(world, found, {"node-9": "inc-over"}) == set()
    assert absorb(world, found, {"node-9": incident.id}) == {9}


def test_only_the_cases_of_nodes_that_left_their_incident_are_read():
    world = world_of(16)
    lose_links(world)
    (incident,) = incidents(world)
    left = replace(incident, nodes=incident.nodes[1:])
    assert release(world, by_id(world)) == set()
    assert release(world, {left.id: left}) == {1}
    assert release(world, {left.id: left}, {"node-1": left.id}) == set()
    assert cases(world) == {CaseStatus.ABSORBED}
    assert release(world, {}) == set(RACK)
    assert cases(world) == {CaseStatus.QUEUED}


def test_a_case_that_no_incident_explains_is_escalated_once_reports_of_its_neighbors_have_arrived():
    world = world_with_catalog()
    fail(world, 3)
    found = rows(world)
    opened, early = from_text(str(found["node-3"]["opened"])), timedelta(milliseconds=1)
    control = world.control()
    world.clock.advance_to(opened + SETTLE)
    held_of(world).escalate(control, {}, found.values(), opened + SETTLE - early)
    assert world.case(3).status is CaseStatus.OPEN
    held_of(world).escalate(control, {}, found.values(), opened + SETTLE)
    assert world.case(3).status is CaseStatus.ESCALATED


def test_a_rule_that_asked_for_approval_before_an_incident_governs_the_case_after_it() -> None:
    world = world_of(16, orchestrated=True)
    world.pause_repairs(paused=True)
    world.fault_and_react(3)
    careful = Rule("careful", Match(codes=("xid.79",)), approval=(RepairAction.REPLACE_NODE,))
    world.policy = replace(world.policy, version="careful", rules=(careful, *world.policy.rules))
    world.pause_repairs(paused=False)
    world.until(lambda: world.case(3).waiting_for is WaitingFor.APPROVAL)
    lose_links(world)
    world.advance_minutes(2)
    world.verifier.results["i-00000000000000003"] = Verification(Verdict.FAILED)
    world.clear(3)
    restore_links(world)
    world.until(lambda: "repair_in_place back" in world.record_history(3))
    world.until(lambda: world.case(3).waiting_for is WaitingFor.APPROVAL)
    assert world.case(3).repair_action is RepairAction.REPLACE_NODE
    assert world.released_instances() == []


@pytest.mark.parametrize(("action", "explained"), [(RepairAction.VERIFY, True), (RepairAction.REPLACE_NODE, False)])
def test_an_incident_that_released_a_case_explains_its_verification_and_no_repair_after_it(
    action: RepairAction, explained: bool
) -> None:
    world = world_of(16)
    lose_links(world)
    (incident,) = incidents(world)
    state, now = world.node(1), world.clock.now()
    assert state.live_case is not None
    case = replace(state.live_case, status=CaseStatus.IN_PROGRESS, repair_action=action, incident=incident.id)
    row = unhealthy_row(replace(state, case=case, conditions={}), now)
    assert row is not None
    assert row.get("incident") == (incident.id if explained else None)
