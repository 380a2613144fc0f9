"""Incidents: one shared cause behind the faults of many nodes is one incident and one page, and replaces no node."""

from __future__ import annotations

from datetime import timedelta

import pytest

from faultbridge.model.cases import Phase
from faultbridge.model.enums import CaseStatus, IncidentStatus, NodeStatus, RepairAction, Resolution, WaitingFor
from faultbridge.model.fault_enums import Action
from faultbridge.model.policy import Match, Rule
from tests.scenarios.incidents.incidents import (
    NETWORK_WAITS,
    PER_RACK,
    RACK,
    cases,
    incident_changes,
    incidents,
    lose_links,
    restore_links,
    world_of,
)
from tests.scenarios.world import CLUSTER


def test_eight_nodes_of_one_rack_that_lose_their_links_are_one_incident_and_no_instance_is_given_up():
    world = world_of()
    lose_links(world)
    world.advance_minutes(100)
    (incident,) = incidents(world)
    assert (incident.status, incident.affected, incident.of) == (IncidentStatus.OPEN, 8, 8)
    assert incident.domain.text == "rack rack-1"
    assert incident.nodes == tuple(f"node-{number}" for number in RACK)
    assert world.released_instances() == []
    assert cases(world) == {CaseStatus.ABSORBED}
    assert {world.case(node).waiting_for for node in RACK} == {WaitingFor.INCIDENT}
    assert world.control().holders == {}


def test_two_of_the_eight_with_a_fault_of_their_own_are_repaired_after_the_incident_and_six_recover():
    world = world_of()
    lose_links(world)
    for node in (3, 5):
        world.fault(node, "xid.79")
    world.process_entries()
    world.advance_minutes(30)
    assert world.released_instances() == []
    assert cases(world) == {CaseStatus.ABSORBED}
    restore_links(world)
    world.advance_minutes(5)
    assert world.released_instances() == []
    assert cases(world, (3, 5)) == {CaseStatus.ABSORBED}
    world.until(lambda: cases(world) == {CaseStatus.RESOLVED})
    resolutions = {node: world.case(node).resolution for node in RACK}
    replaced, recovered = Resolution.REPLACED, Resolution.RECOVERED
    assert resolutions == {node: replaced if node in {3, 5} else recovered for node in RACK}
    assert world.released_instances() == ["i-00000000000000003", "i-00000000000000005"]
    assert {world.status(node) for node in RACK} == {NodeStatus.HEALTHY}
    (incident,) = incidents(world)
    assert incident.status is IncidentStatus.CLOSED
    first_intent = min(world.case(node).marks[Phase.INTENT] for node in (3, 5))
    assert incident.closed_at is not None
    assert first_intent >= incident.closed_at


def test_the_same_faults_in_eight_racks_are_eight_repairs_within_the_budget():
    world = world_of()
    nodes = range(1, 65, PER_RACK)
    for node in nodes:
        world.fault(node, "xid.79")
        world.fault(node, "net.link_down", source="link-state")
    world.process_entries()
    most = 0
    while cases(world, nodes) != {CaseStatus.RESOLVED}:
        world.advance_minutes()
        most = max(most, len(world.control().holders))
    assert incidents(world) == []
    assert len(world.released_instances()) == 8
    assert most == 2


def test_a_false_incident_expires_and_every_node_is_repaired_oldest_first():
    world = world_of(16)
    for node in RACK:
        world.fault(node, "net.link_down", source="link-state", action=None)
        world.fault(node, "cloud.instance_gone", source="ec2-event")
        world.clock.advance(timedelta(seconds=1))
    world.process_entries()
    held = world.until(lambda: incidents(world)[0].status is IncidentStatus.EXPIRED)
    assert held == 120
    assert world.released_instances() == []
    world.until(lambda: cases(world) == {CaseStatus.RESOLVED})
    assert world.released_instances() == [f"i-{number:017x}" for number in RACK]
    world.until(lambda: incidents(world)[0].status is IncidentStatus.CLOSED)
    assert incident_changes(world)[0] == "opened"
    assert incident_changes(world).count("expired") == 1
    assert len(incidents(world)) == 1


def test_nodes_that_joined_an_incident_since_the_last_correlation_open_no_breaker():
    world = world_of(16)
    lose_links(world, range(1, 5))
    assert len(incidents(world)) == 1
    for node in range(5, 9):
        world.fault(node, "net.link_down", source="link-state")
    world.guard.update(CLUSTER)
    assert cases(world, range(5, 9)) == {CaseStatus.OPEN}
    assert world.control().breakers == {}
    world.advance_minutes()
    assert cases(world) == {CaseStatus.ABSORBED}
    assert world.control().breakers == {}


def test_an_incident_grows_and_shrinks_with_the_difference_in_each_entry():
    world = world_of(16)
    lose_links(world, range(1, 4))
    world.advance_minutes(3)
    lose_links(world, range(4, 9))
    world.advance_minutes(3)
    restore_links(world, (1, 2))
    world.advance_minutes(1)
    entries = [body["data"] for body in world.bodies(None) if "incident_id" in body["data"] and "added" in body["data"]]
    members: set[str] = set()
    for entry in entries:
        members = (members | set(entry["added"]["listed"])) - set(entry["removed"]["listed"])
        assert members == set(entry["nodes"]["listed"])
    assert members == {f"node-{number}" for number in range(3, 9)}
    assert {entry["change"] for entry in entries} == {"opened", "grown", "shrunk"}


def test_a_repair_that_is_past_its_intent_finishes():
    world = world_of(16)
    world.fault(1, "xid.79")
    world.process_entries()
    world.until(lambda: Phase.INTENT in world.case(1).marks)
    lose_links(world)
    world.advance_minutes(60)
    assert world.case(1).status is CaseStatus.RESOLVED
    assert world.released_instances() == ["i-00000000000000001"]
    assert cases(world, range(2, 9)) == {CaseStatus.ABSORBED}


def test_a_reboot_that_is_past_its_intent_keeps_its_case_when_an_incident_opens():
    reboot = Rule("reboot", Match(codes=("xid.79",)), action=Action.REBOOT_NODE)
    world = world_of(16, rules=(reboot, NETWORK_WAITS))
    world.fault(1, "xid.79")
    world.process_entries()
    world.until(lambda: Phase.INTENT in world.case(1).marks)
    lose_links(world)
    world.advance_minutes()
    assert world.case(1).status is CaseStatus.IN_PROGRESS
    assert cases(world, range(2, 9)) == {CaseStatus.ABSORBED}


def test_a_repair_before_its_intent_stops_and_gives_its_slot_back():
    world = world_of(16, orchestrated=True)
    world.orchestrator.busy_until["node-1"] = world.clock.now() + timedelta(hours=8)
    world.fault(1, "xid.79")
    world.process_entries()
    world.advance_minutes(3)
    assert world.status(1) is NodeStatus.DRAINING
    lose_links(world)
    world.advance_minutes(5)
    assert world.case(1).status is CaseStatus.ABSORBED
    assert world.status(1) is NodeStatus.QUARANTINED
    assert world.control().holders == {}
    world.advance_minutes(60)
    assert world.released_instances() == []


def test_a_new_fault_of_a_held_node_raises_its_repair_action_and_keeps_waiting():
    world = world_of(16)
    lose_links(world)
    world.fault(2, "xid.79")
    world.process_entries()
    assert world.case(2).status is CaseStatus.ABSORBED
    assert world.case(2).repair_action == "replace_node"


def test_an_approval_request_is_withdrawn_when_the_case_is_absorbed():
    asking = Rule("ask", Match(codes=("xid.79",)), approval=(RepairAction.REPLACE_NODE,))
    world = world_of(16, rules=(asking, NETWORK_WAITS))
    world.fault(1, "xid.79")
    world.process_entries()
    assert world.case(1).pending_approval is not None
    lose_links(world)
    assert world.case(1).status is CaseStatus.ABSORBED
    assert world.case(1).approval is None
    assert "note approval over" in world.record_history(1)
    world.advance_minutes()
    restore_links(world)
    world.advance_minutes(12)
    assert world.case(1).pending_approval is not None


def test_a_cordoned_node_that_recovers_serves_again_while_the_incident_is_open():
    world = world_of(16, orchestrated=True)
    lose_links(world)
    world.advance_minutes(2)
    assert (world.status(1), "node-1" in world.orchestrator.cordoned) == (NodeStatus.DEGRADED, True)
    restore_links(world, (1,))
    world.until(lambda: world.case(1).status is CaseStatus.RESOLVED, minutes=30)
    assert world.case(1).resolution is Resolution.RECOVERED
    assert "node-1" not in world.orchestrator.cordoned
    assert cases(world, range(2, 9)) == {CaseStatus.ABSORBED}


def test_the_status_of_the_cluster_names_the_incident_as_its_cause():
    world = world_of(16)
    lose_links(world)
    (incident,) = incidents(world)
    status = [body["data"] for body in world.bodies(None) if body["metadata"]["event_type"] == "Cluster Status Change"]
    assert status[-1]["incidents"] == [incident.id]
    assert f"network incident {incident.id} in rack rack-1" in status[-1]["reason"]
    world.advance_minutes()
    restore_links(world)
    world.advance_minutes(60)
    status = [body["data"] for body in world.bodies(None) if body["metadata"]["event_type"] == "Cluster Status Change"]
    assert status[-1]["incidents"] == []
    assert status[-1]["to"] == "healthy"


def test_an_incident_opens_no_breaker():
    world = world_of(16)
    lose_links(world)
    world.advance_minutes(15)
    assert world.control().breakers == {}


def test_nodes_that_are_only_verified_after_an_incident_open_no_breaker():
    world = world_of(16)
    lose_links(world)
    world.advance_minutes(2)
    restore_links(world)
    world.advance_minutes(30)
    assert world.control().breakers == {}


def test_faults_of_another_kind_open_the_breaker_of_a_rack_with_an_incident():
    world = world_of(16)
    lose_links(world, range(1, 5))
    assert len(incidents(world)) == 1
    for node in range(5, 9):
        world.fault(node, "xid.79")
    world.guard.update(CLUSTER)
    assert list(world.control().breakers) == ["domain:rack-1"]


def test_the_sweep_alone_opens_the_same_incident_as_react():
    by_react, by_sweep = world_of(16), world_of(16)
    lose_links(by_react)
    for node in RACK:
        by_sweep.fault(node, "net.link_down", source="link-state")
    by_sweep.sweep.run()
    assert [one.domain for one in incidents(by_sweep)] == [one.domain for one in incidents(by_react)]
    assert [one.nodes for one in incidents(by_sweep)] == [one.nodes for one in incidents(by_react)]
    assert cases(by_sweep) == {CaseStatus.ABSORBED}


@pytest.mark.parametrize("racks", [2, 3])
def test_two_racks_of_a_large_cluster_are_two_incidents(racks: int):
    world = world_of(128)
    lose_links(world, range(1, PER_RACK * racks + 1))
    assert {one.domain.name for one in incidents(world)} == {f"rack-{number}" for number in range(1, racks + 1)}


def test_no_repair_starts_when_the_incidents_cannot_be_updated(monkeypatch: pytest.MonkeyPatch):
    world = world_of(16)

    def fail(*_: object) -> None:
        raise ValueError("broken")

    world.fault(1, "xid.79")
    monkeypatch.setattr(type(world.correlate), "update_incidents", fail)
    swept = world.sweep.run()
    assert any("updating the incidents" in line for line in swept.failures)
    assert world.case(1).status is CaseStatus.QUEUED
    monkeypatch.undo()
    world.sweep.run()
    assert world.case(1).status is CaseStatus.IN_PROGRESS


def test_react_starts_no_repair_when_the_incidents_cannot_be_updated(monkeypatch: pytest.MonkeyPatch):
    world = world_of(16)

    def fail(*_: object) -> None:
        raise ValueError("broken")

    monkeypatch.setattr(type(world.correlate), "update_incidents", fail)
    world.fault_and_react(1, "xid.79")
    assert world.case(1).status is CaseStatus.QUEUED
    monkeypatch.undo()
    world.advance_minutes()
    assert world.case(1).status is CaseStatus.IN_PROGRESS


def test_a_case_that_an_incident_held_waits_again_as_its_rule_says():
    world = world_of(16)
    lose_links(world)
    world.until(lambda: incidents(world)[0].status is IncidentStatus.EXPIRED)
    released = incidents(world)[0].expired_at
    assert released is not None
    for node in RACK:
        assert world.case(node).not_before == released + timedelta(seconds=NETWORK_WAITS.wait_seconds)


def test_a_node_whose_fault_is_much_older_does_not_belong_to_the_incident():
    world = world_of(16)
    lose_links(world, (8,))
    world.advance_minutes(60)
    lose_links(world, range(1, 6))
    (incident,) = incidents(world)
    assert incident.nodes == tuple(f"node-{number}" for number in range(1, 6))
