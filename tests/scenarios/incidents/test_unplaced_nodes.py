"""A node whose failure domains are not known yet is not repaired for a fault that an open incident may explain."""

from __future__ import annotations

from faultbridge.model.enums import CaseStatus, IncidentStatus, WaitingFor
from tests.scenarios.incidents.incidents import cases, incidents, lose_links, rack, restore_links, world_of
from tests.scenarios.world import World, limits

NEW, OTHER = 17, 18


def world_with_a_new_node() -> World:
    """Return a world of two racks and two more nodes; one of these was registered by hand, before any inventory."""
    return world_of(
        18, limits=limits(isolation_percent=100), domain=lambda number: None if number == NEW else rack(number)
    )


def test_a_node_of_unknown_place_waits_for_the_incident_that_may_explain_its_fault():
    world = world_with_a_new_node()
    lose_links(world)
    lose_links(world, (NEW,))
    world.advance_minutes(60)
    (incident,) = incidents(world)
    assert (world.case(NEW).status, world.case(NEW).waiting_for) == (CaseStatus.QUEUED, WaitingFor.INCIDENT)
    assert world.case(NEW).reason == (
        f"incident {incident.id} is open, and whether this node shares its cause is not known yet"
    )
    assert world.released_instances() == []
    restore_links(world)
    restore_links(world, (NEW,))
    world.until(lambda: cases(world, (NEW,)) == {CaseStatus.RESOLVED})
    assert world.released_instances() == []


def test_a_node_of_unknown_place_waits_no_longer_than_the_maximum_age_of_the_incident():
    world = world_with_a_new_node()
    lose_links(world)
    lose_links(world, (NEW,))
    world.until(lambda: incidents(world)[0].status is IncidentStatus.EXPIRED)
    world.until(lambda: world.case(NEW).status is CaseStatus.IN_PROGRESS, minutes=60)


def test_a_node_of_another_rack_and_a_node_with_another_fault_do_not_wait():
    world = world_with_a_new_node()
    lose_links(world)
    lose_links(world, (OTHER,))
    world.fault_and_react(NEW, "xid.79")
    for node in (NEW, OTHER):
        world.until(lambda node=node: CaseStatus.IN_PROGRESS in world.case(node).marks, minutes=60)
    assert {one.status for one in incidents(world)} == {IncidentStatus.OPEN}
