"""Held cases: a run reads and moves only the cases whose incident began or ended."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import timedelta

import pytest

from faultbridge.decide.case_moves import SETTLE
from faultbridge.model.cluster.incidents import Incident
from faultbridge.model.enums import CaseStatus, IncidentStatus, RepairAction, WaitingFor
from faultbridge.model.errors import Transient
from faultbridge.model.nodes import NodeKey
from faultbridge.model.policy import Match, Rule
from faultbridge.model.storage import keys
from faultbridge.model.storage.node_rows import UnhealthyNode
from faultbridge.model.storage.projections import unhealthy_row
from faultbridge.model.storage.writes import Item
from faultbridge.model.values import replace
from faultbridge.record.ports.compute import Verdict, Verification
from faultbridge.record.queries import held_cases, unhealthy_nodes
from faultbridge.record.rulebook import rules_of
from faultbridge.repair import incidents as repair_incidents
from faultbridge.repair.incidents import HeldCases
from tests.scenarios.incidents.builders import fail, world_with_catalog
from tests.scenarios.incidents.incidents import RACK, cases, incidents, lose_links, restore_links, world_of
from tests.scenarios.world import CLUSTER, World


def held_of(world: World) -> HeldCases:
    return world.correlate.held


def rows(world: World) -> dict[str, UnhealthyNode]:
    """Return the rows of unhealthy nodes by name."""
    found = unhealthy_nodes(world.table, rules_of(world.rulebook, CLUSTER).config)
    return {row.node: row for row in found}


def by_id(world: World) -> dict[str, Incident]:
    return {one.id: one for one in incidents(world)}


def read_nodes(world: World) -> set[int]:
    """Return the nodes whose states were read or written since the calls were cleared."""
    arguments = [str(call.argument) for call in world.seam.calls]
    return {node for node in range(1, 17) if any(str(keys.node_state(world.key(node))) in one for one in arguments)}


def absorb(world: World, found: dict[str, UnhealthyNode], explained: dict[str, str] | None = None) -> set[int]:
    """Absorb the cases of open incidents; returns the nodes whose states were read."""
    control, known = world.control(), by_id(world)
    world.seam.calls.clear()
    held_of(world).absorb(control, known, found, explained or {})
    return read_nodes(world)


def release(world: World, known: dict[str, Incident], explained: dict[str, str] | None = None) -> set[int]:
    """Release the cases that none of these incidents holds; returns the nodes whose states were read."""
    control, rules = world.control(), rules_of(world.rulebook, CLUSTER)
    waiting = held_cases(world.table, rules.config)
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
    assert absorb(world, {"node-1": replace(found["node-1"], case=None, incident=None)}) == set()
    assert absorb(world, {"node-1": replace(found["node-1"], incident=None)}) == {1}


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
    absorb(world, {"node-1": replace(rows(world)["node-1"], incident=None)})
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
    opened, early = found["node-3"].opened, timedelta(milliseconds=1)
    assert opened is not None
    control = world.control()
    world.clock.advance_to(opened + SETTLE)
    held_of(world).escalate(control, {}, found.values(), opened + SETTLE - early)
    assert world.case(3).status is CaseStatus.OPEN
    held_of(world).escalate(control, {}, found.values(), opened + SETTLE)
    assert world.case(3).status is CaseStatus.ESCALATED


def test_a_case_that_an_open_incident_explains_is_not_escalated_and_one_of_an_expired_incident_is() -> None:
    world = world_with_catalog()
    lose_links(world)
    (incident,) = incidents(world)
    fail(world, 9)
    found, now = rows(world), world.clock.now() + SETTLE
    of_node = replace(incident, nodes=("node-9",))
    world.clock.advance_to(now)
    held_of(world).escalate(world.control(), {incident.id: of_node}, found.values(), now)
    assert world.case(9).status is CaseStatus.OPEN
    expired = replace(of_node, status=IncidentStatus.EXPIRED)
    held_of(world).escalate(world.control(), {incident.id: expired}, found.values(), now)
    assert world.case(9).status is CaseStatus.ESCALATED


def not_waiting(world: World, nodes: Iterable[int]) -> dict[str, Item]:
    """Return the rows of some nodes as if their cases did not wait for an incident yet."""
    found = rows(world)
    return {f"node-{node}": replace(found[f"node-{node}"], incident=None) for node in nodes}


def test_an_expired_incident_makes_no_further_case_wait() -> None:
    world = world_of(16)
    lose_links(world)
    (incident,) = incidents(world)
    expired = replace(incident, status=IncidentStatus.EXPIRED)
    world.seam.calls.clear()
    held_of(world).absorb(world.control(), {incident.id: expired}, not_waiting(world, [1]), {})
    assert str(keys.node_state(world.key(1))) not in str(world.seam.calls)


def test_one_run_makes_a_limited_number_of_cases_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_of(16)
    lose_links(world)
    monkeypatch.setattr(repair_incidents, "MAX_CASES", 2)
    assert absorb(world, not_waiting(world, RACK)) == set(RACK[:2])


def test_a_node_that_cannot_be_read_does_not_keep_the_other_cases_from_waiting(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    world = world_of(16)
    lose_links(world)
    tried: list[str] = []

    def append(key: NodeKey, *_: object, **__: object) -> None:
        tried.append(key.node)
        raise ValueError("the item is damaged")

    replace(held_of(world), append=append).absorb(world.control(), by_id(world), not_waiting(world, [1, 2]), {})
    assert tried == ["node-1", "node-2"]
    failed = [record for record in caplog.records if record.message == "case_absorbed_failed"]
    assert [record.reason for record in failed] == ["ValueError: the item is damaged"] * 2


def test_a_table_without_an_answer_ends_the_run_so_that_the_next_one_repeats_it() -> None:
    world = world_of(16)
    lose_links(world)

    def append(*_: object, **__: object) -> None:
        raise Transient("no answer")

    with pytest.raises(Transient):
        replace(held_of(world), append=append).absorb(world.control(), by_id(world), not_waiting(world, [1]), {})


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
    state = world.node(1)
    assert state.live_case is not None
    case = replace(state.live_case, status=CaseStatus.IN_PROGRESS, repair_action=action, incident=incident.id)
    row = unhealthy_row(replace(state, case=case, conditions={}))
    assert row is not None
    assert row.value.incident == (incident.id if explained else None)
