"""Links that come and go: an incident delays each repair once, and ends only when its nodes stay healthy."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from faultbridge.model.enums import IncidentStatus
from faultbridge.model.fault_enums import ComponentType
from faultbridge.model.faults import Component
from faultbridge.model.times import to_text
from tests.builders import after
from tests.scenarios.incidents.incidents import (
    RACK,
    incident_changes,
    incidents,
    lose_links,
    restore_links,
    world_of,
)
from tests.scenarios.incidents.pages_of_incidents import urgent
from tests.scenarios.world import World

OWN_FAULT = (3, 5)
OTHER_LINK = Component(ComponentType.NIC, name="rdma9")


def world_with_own_faults() -> World:
    """Return a world whose rack has lost its links, and whose third and fifth node also have a fault of their own."""
    world = world_of(16)
    lose_links(world)
    for node in OWN_FAULT:
        world.fault(node, "xid.79")
    world.process_entries()
    return world


def flap(world: World, hours: int, *, down: int, up: int) -> None:
    """Let all links of the rack be down and up in turn for some hours; the numbers are minutes."""
    for _ in range(hours * 60 // (down + up)):
        world.advance_minutes(down)
        restore_links(world)
        world.advance_minutes(up)
        lose_links(world)


def test_links_that_come_and_go_delay_a_repair_for_the_maximum_age_once():
    world = world_with_own_faults()
    flap(world, 4, down=8, up=2)
    assert {"i-00000000000000003", "i-00000000000000005"} <= set(world.released_instances())
    steps = [body for node in OWN_FAULT for body in world.bodies(node) if body["data"].get("step") == "intent"]
    assert to_text(after(hours=2)) <= min(step["metadata"]["recorded_at"] for step in steps)
    assert [one.status for one in incidents(world)] == [IncidentStatus.EXPIRED]
    assert (incident_changes(world).count("opened"), incident_changes(world).count("expired")) == (1, 1)


def test_an_incident_that_comes_and_goes_sends_one_page_and_one_about_its_maximum_age():
    world = world_with_own_faults()
    flap(world, 4, down=8, up=2)
    (incident,) = incidents(world)
    assert [line for line in urgent(world) if incident.id in line] == [
        f"train-a:incident:{incident.id} triggered",
        f"train-a:incident:{incident.id} resolved",
        f"train-a:incident-expired:{incident.id} triggered",
    ]


def test_links_that_stay_up_longer_than_the_quiet_time_delay_a_repair_for_little_more_than_the_maximum_age():
    world = world_with_own_faults()
    flap(world, 4, down=8, up=11)
    assert {"i-00000000000000003", "i-00000000000000005"} <= set(world.released_instances())
    assert [one.status for one in incidents(world)] == [IncidentStatus.CLOSED, IncidentStatus.EXPIRED]
    assert [line.split(":")[1] for line in urgent(world) if ":incident" in line and "triggered" in line] == [
        "incident",
        "incident",
        "incident-expired",
    ]


def test_an_expired_incident_neither_closes_nor_resolves_its_page_while_two_links_are_down():
    world = world_of(16)
    lose_links(world)
    world.until(lambda: incidents(world)[0].status is IncidentStatus.EXPIRED)
    restore_links(world)
    world.advance_minutes(1)
    lose_links(world, (1, 2))
    world.advance_minutes(30)
    (incident,) = incidents(world)
    assert (incident.status, incident.nodes) == (IncidentStatus.EXPIRED, ("node-1", "node-2"))
    expired = f"train-a:incident-expired:{incident.id}"
    assert [line for line in urgent(world) if line.startswith(expired)] == [f"{expired} triggered"]
    restore_links(world, (1, 2))
    world.until(lambda: incidents(world)[0].status is IncidentStatus.CLOSED, minutes=30)
    assert f"{expired} resolved" in urgent(world)


def test_links_that_are_lost_again_after_a_quiet_time_are_a_new_incident():
    world = world_of(16)
    lose_links(world)
    world.until(lambda: incidents(world)[0].status is IncidentStatus.EXPIRED)
    restore_links(world)
    world.until(lambda: incidents(world)[0].status is IncidentStatus.CLOSED, minutes=30)
    world.advance_minutes(1)
    lose_links(world)
    world.advance_minutes(1)
    assert [one.status for one in incidents(world)] == [IncidentStatus.CLOSED, IncidentStatus.OPEN]


def recovering_without_a_sweep(world: World, minutes: int) -> None:
    """Lose the links of the rack, restore them 30 minutes later, and pass minutes in which no sweep runs."""
    lose_links(world)
    world.advance_minutes(30)
    restore_links(world)
    world.advance_minutes(1)
    world.clock.advance(timedelta(minutes=minutes))


def test_a_link_lost_within_the_quiet_time_continues_the_incident_although_its_node_loses_another_link_later():
    world = world_of(16)
    recovering_without_a_sweep(world, 5)
    world.fault(1, "net.link_down", source="link-state")
    world.clock.advance(timedelta(minutes=15))
    for node in RACK:
        world.fault(node, "net.link_down", source="link-state", component=OTHER_LINK)
    world.advance_minutes(1)
    assert [one.status for one in incidents(world)] == [IncidentStatus.OPEN]


def without_runs(world: World, nodes: Iterable[int], *, up: int) -> None:
    """Restore links that are down for 30 minutes, and lose them again after `up` minutes without any run."""
    lose_links(world)
    world.advance_minutes(30)
    for node in nodes:
        world.clear(node, "net.link_down", source="link-state")
    world.clock.advance(timedelta(minutes=up))
    lose_links(world, nodes)
    world.advance_minutes(1)


def test_links_that_were_up_for_the_quiet_time_are_a_new_incident_although_no_run_noticed_it():
    world = world_of(16)
    without_runs(world, RACK, up=15)
    assert [one.status for one in incidents(world)] == [IncidentStatus.CLOSED, IncidentStatus.OPEN]


def test_links_that_were_up_for_a_short_time_or_on_some_nodes_continue_their_incident():
    short, some = world_of(16), world_of(16)
    without_runs(short, RACK, up=5)
    without_runs(some, range(1, 5), up=15)
    assert [[one.status for one in incidents(world)] for world in (short, some)] == [[IncidentStatus.OPEN]] * 2


def test_a_node_whose_other_link_was_down_in_between_continues_its_incident():
    world = world_of(16)
    lose_links(world)
    world.fault(1, "net.link_down", source="link-state", component=OTHER_LINK)
    world.advance_minutes(30)
    for node in RACK:
        world.clear(node, "net.link_down", source="link-state")
    world.clock.advance(timedelta(minutes=8))
    world.clear(1, "net.link_down", source="link-state", component=OTHER_LINK)
    world.clock.advance(timedelta(minutes=7))
    lose_links(world)
    world.advance_minutes(1)
    assert [one.status for one in incidents(world)] == [IncidentStatus.OPEN]


def test_the_phases_of_an_incident_whose_end_no_sweep_noticed_last_until_its_end():
    world = world_of(16)
    recovering_without_a_sweep(world, 60)
    lose_links(world)
    world.advance_minutes(1)
    closed = next(one for one in incidents(world) if one.status is IncidentStatus.CLOSED)
    (phases,) = [body["data"]["phases"] for body in world.bodies(None) if body["data"].get("change") == "closed"]
    assert closed.closed_at is not None
    assert phases == {"open": (closed.closed_at - closed.opened_at) // timedelta(milliseconds=1)}
