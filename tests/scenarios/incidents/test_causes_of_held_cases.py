"""An incident is the cause of what it absorbs and releases, and the chain of each held case continues before it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest

from faultbridge.decode.data import load_catalog
from faultbridge.model.enums import CaseStatus, RepairAction
from faultbridge.model.fault_enums import Action
from faultbridge.model.policy import Match, Rule
from faultbridge.record.causes import Chain, Link, Relation, read_chain
from faultbridge.repair.case_orders import OperatorOrder
from faultbridge.repair.incidents import IncidentOrders
from tests.scenarios.incidents.incidents import (
    NETWORK_WAITS,
    RACK,
    cases,
    incidents,
    lose_links,
    restore_links,
    world_of,
)
from tests.scenarios.world import CLUSTER, World


def after_the_incident() -> World:
    """Return a world whose rack lost its links and has them back: node 3 was replaced, all others recovered."""
    world = world_of(16)
    lose_links(world)
    world.fault_and_react(3, "xid.79", minutes=30)
    restore_links(world)
    world.until(lambda: cases(world) == {CaseStatus.RESOLVED})
    return world


def event(link: Link) -> dict[str, Any]:
    return dict(json.loads(link.line.body))


def of_incident(world: World, change: str) -> dict[str, Any]:
    return next(body for body in world.bodies(None) if body["data"].get("change") == change)


def chain_of(world: World, body: dict[str, Any]) -> Chain:
    return read_chain(world.table, body["metadata"]["event_id"])


def moves(bodies: Iterable[dict[str, Any]], **wanted: str) -> list[dict[str, Any]]:
    statuses = [body for body in bodies if body["metadata"]["event_type"] == "Case Status Change"]
    return [body for body in statuses if wanted.items() <= body["data"].items()]


def test_the_effects_of_an_opened_incident_are_the_cases_that_wait_for_it():
    world = after_the_incident()
    effects = [event(link) for link in chain_of(world, of_incident(world, "opened")).links if link.distance == 1]
    held = moves(effects, to="absorbed")
    assert {body["metadata"]["node"] for body in held} == {f"node-{number}" for number in RACK}


def test_a_case_that_gives_its_approval_request_up_for_an_incident_names_the_incident_as_the_cause():
    asking = Rule("ask", Match(codes=("xid.79",)), approval=(RepairAction.REPLACE_NODE,))
    world = world_of(16, rules=(asking, NETWORK_WAITS))
    world.fault_and_react(1, "xid.79")
    lose_links(world)
    (held,) = moves(world.bodies(1), to="absorbed")
    assert held["metadata"]["causation_id"] == of_incident(world, "opened")["metadata"]["event_id"]
    causes = [event(link) for link in chain_of(world, held).links if link.relation is Relation.CAUSE]
    assert {"over"} <= {body["data"].get("stage") for body in causes}
    assert "xid.79" in {body["data"].get("code") for body in causes}


def test_the_effects_of_a_closed_incident_are_the_cases_that_it_releases():
    world = after_the_incident()
    links = chain_of(world, of_incident(world, "closed")).links
    released = moves((event(link) for link in links if link.relation is Relation.EFFECT), **{"from": "absorbed"})
    assert [body["metadata"]["node"] for body in released] == ["node-3"]


def test_the_chain_of_a_held_case_names_the_incident_and_leads_back_to_its_own_fault():
    world = after_the_incident()
    (closing,) = moves(world.bodies(3), to="resolved")
    chain = chain_of(world, closing)
    causes = [
        event(link) for link in sorted(chain.links, key=lambda link: link.distance) if link.relation is Relation.CAUSE
    ]
    opened, closed = of_incident(world, "opened"), of_incident(world, "closed")
    names = [body["metadata"]["event_id"] for body in causes]
    assert {opened["metadata"]["event_id"], closed["metadata"]["event_id"]} <= set(names)
    assert len(names) == len(set(names))
    assert {body["metadata"]["node"] for body in causes} == {"node-3", None}
    first = causes[-1]
    assert first["metadata"]["event_type"] == "Node Fault Detected"
    assert chain.record == first["metadata"]["causation_id"]


def test_the_chain_of_a_case_that_was_just_opened_and_held_leads_back_to_its_fault():
    world = world_of(16)
    world.fault(1, "xid.92")  # the node is degraded already, so its case has no other entry before it is held
    lose_links(world)
    opening, held = moves(world.bodies(1))
    chain = chain_of(world, held)
    causes = {event(link)["metadata"]["event_id"] for link in chain.links if link.relation is Relation.CAUSE}
    assert {opening["metadata"]["event_id"], opening["metadata"]["causation_id"]} <= causes
    assert chain.record is not None


def test_the_effects_of_a_fault_reach_the_end_of_its_held_case():
    world = after_the_incident()
    opening = moves(world.bodies(3))[0]
    fault = next(
        body for body in world.bodies(3) if body["metadata"]["event_id"] == opening["metadata"]["causation_id"]
    )
    for start in (fault, opening):
        found = [event(link)["metadata"]["event_id"] for link in chain_of(world, start).links]
        assert {body["metadata"]["event_id"] for body in moves(world.bodies(3))} <= set(found)
        assert len(found) == len(set(found))


@pytest.mark.parametrize("action", [None, Action.CONTACT_SUPPORT])
def test_a_case_that_passes_to_another_incident_names_that_one_and_its_chain_leads_back_to_its_fault(
    action: Action | None,
):
    world = world_of(16, catalog=load_catalog())
    for node in RACK:
        world.fault(node, "net.link_down", source="link-state", action=action)
    world.process_entries()
    reason = world.case(1).reason
    (first,) = incidents(world)
    for node in RACK:
        world.fault(node, "dcgm.nvswitch_down", source="dcgm-health", action=None)
    world.process_entries()
    order = OperatorOrder("ada", "not the network")
    IncidentOrders(world.incident_changes, world.rulebook).close(CLUSTER, first.id, order)
    world.advance_minutes(3)
    (second,) = (one for one in incidents(world) if one.status.holds)
    assert {world.case(node).incident for node in RACK} == {second.id}
    assert (world.case(1).reason == reason) is (action is Action.CONTACT_SUPPORT)
    *_, held, passed = moves(world.bodies(1))
    assert (held["data"]["to"], held["data"]["incident_id"]) == ("absorbed", first.id)
    assert (passed["data"]["to"], passed["data"]["incident_id"]) == ("absorbed", second.id)
    causes = [event(link) for link in chain_of(world, passed).links if link.relation is Relation.CAUSE]
    named = next(body for body in causes if body["metadata"]["event_id"] == passed["metadata"]["causation_id"])
    assert (named["metadata"]["event_type"], named["data"]["incident_id"]) == ("Cluster Incident Change", second.id)
    assert {"net.link_down"} <= {body["data"].get("code") for body in causes}
