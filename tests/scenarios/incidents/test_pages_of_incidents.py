"""One incident is one urgent page; the cases that wait for it send none, and open pages point to it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from faultbridge.model.cluster.config import Mode, RepairOwner
from faultbridge.model.cluster.state import BreakerState
from faultbridge.model.enums import IncidentStatus
from faultbridge.record.ports.messaging import PageMessage, PageUrgency
from faultbridge.repair.registry.registration import Registration
from faultbridge.serve.pager.deliver import Paging
from faultbridge.serve.pager.open_pages import OpenPages
from tests.pages import incident
from tests.scenarios.incidents.incidents import RACK, incidents, lose_links, restore_links, world_of
from tests.scenarios.incidents.pages_of_incidents import pages, urgent
from tests.scenarios.world import CLUSTER, World
from tests.sim.fakes import FakePager, FakeTable, ManualClock


def test_eight_nodes_of_a_rack_that_lose_their_links_send_one_urgent_page_with_the_nodes_in_it():
    world = world_of(16)
    lose_links(world)
    for node in (3, 5):
        world.fault(node, "xid.79")
    world.process_entries(minutes=20)
    (incident,) = incidents(world)
    assert urgent(world) == [f"train-a:incident:{incident.id} triggered"]
    (page,) = [page for page in pages(world) if page.urgency is PageUrgency.URGENT]
    assert ", ".join(f"node-{number}" for number in RACK) in page.bodies["email"]
    restore_links(world)
    world.advance_minutes(60)
    key = f"train-a:incident:{incident.id}"
    assert urgent(world) == [f"{key} triggered", f"{key} resolved"]


def test_a_notice_that_is_open_when_its_case_is_absorbed_is_resolved_with_a_pointer_to_the_incident():
    world = world_of(16, orchestrated=True)
    world.orchestrator.busy_until["node-1"] = world.clock.now() + timedelta(hours=8)
    world.fault_and_react(1, "xid.79")
    assert [page.attributes["state"] for page in pages(world)] == ["triggered"]
    lose_links(world)
    world.advance_minutes(10)
    (incident,) = incidents(world)
    opened, resolved = (page for page in pages(world) if page.key.endswith(":opened"))
    assert (opened.attributes["state"], resolved.attributes["state"]) == ("triggered", "resolved")
    assert incident.id in resolved.bodies["email"]


def test_an_expired_incident_pages_again_and_that_page_is_resolved_when_its_nodes_are_healthy():
    world = world_of(16)
    lose_links(world)
    world.advance_minutes(121)
    restore_links(world)
    world.advance_minutes(60)
    (incident,) = incidents(world)
    assert [line for line in urgent(world) if "incident" in line] == [
        f"train-a:incident:{incident.id} triggered",
        f"train-a:incident:{incident.id} resolved",
        f"train-a:incident-expired:{incident.id} triggered",
        f"train-a:incident-expired:{incident.id} resolved",
    ]


def test_the_expiry_of_an_incident_of_eight_racks_sends_one_urgent_page_for_the_breakers_of_all_racks():
    nodes = range(1, 33)
    world = world_of(32, domain=lambda number: f"rack-{(number - 1) // 4}")
    lose_links(world, nodes)
    world.advance_minutes(122)
    (incident,) = incidents(world)
    assert incident.status is IncidentStatus.EXPIRED
    breakers = [(breaker.state, breaker.incident) for breaker in world.control().breakers.values()]
    assert breakers == [(BreakerState.OPEN, incident.id)] * (1 + 8)
    world.advance_minutes(60)
    lines = [
        f"train-a:incident:{incident.id} triggered",
        f"train-a:incident:{incident.id} resolved",
        f"train-a:incident-expired:{incident.id} triggered",
    ]
    assert urgent(world) == lines
    restore_links(world, nodes)
    world.advance_minutes(120)
    assert urgent(world) == [*lines, f"train-a:incident-expired:{incident.id} resolved"]
    assert {breaker.state for breaker in world.control().breakers.values()} == {BreakerState.CLOSED}


def test_nodes_of_another_cause_that_reach_the_limits_after_an_expiry_get_the_page_of_their_breaker():
    world = world_of(64)
    lose_links(world)
    world.advance_minutes(130)
    assert not any(":breaker" in line for line in urgent(world))
    for node in (9, 17, 25, 33, 41, 49, 57, 10, 18, 26, 34, 42, 50, 58):
        world.fault(node, "xid.79")
    world.process_entries(minutes=2)
    assert [line for line in urgent(world) if ":breaker" in line] == ["train-a:breaker triggered"]


def incident_page(world: World, **settings: object) -> str:
    """Return the text of the page of an incident in a cluster with these settings."""
    Registration(world.table, world.append, world.clock).set_cluster(CLUSTER, settings)
    lose_links(world)
    world.advance_minutes()
    (page,) = (one for one in pages(world, world.table) if ":incident:" in one.key)
    return page.bodies["email"]


@pytest.mark.parametrize(
    "settings",
    [{"mode": Mode.OBSERVE}, {"mode": Mode.DRY_RUN}, {"repair_owner": RepairOwner.PROVIDER}],
    ids=["observe", "dry_run", "provider"],
)
def test_the_page_of_an_incident_says_that_faultbridge_repairs_no_node_of_the_cluster(settings: dict[str, object]):
    text = incident_page(world_of(16), **settings)
    assert "Faultbridge repairs no node of this cluster" in text
    assert ("Repairs of the provider do not wait" in text) is ("repair_owner" in settings)


def test_the_page_of_an_incident_in_a_repaired_cluster_names_no_mode_and_its_fault_once():
    text = incident_page(world_of(16), mode=Mode.ACT)
    assert "repairs no node" not in text
    assert text.count("net.link_down") == 1


def test_the_page_of_an_incident_that_joined_another_promises_no_repair_of_its_nodes():
    pager, clock = FakePager(), ManualClock()
    paging = Paging(FakeTable(clock), pager, clock)
    paging.deliver(incident("opened"))
    paging.deliver(incident("closed", 8, reason="joined inc-1: cluster train-a"))
    assert "unless another incident holds them" in pager.sent[-1].bodies["email"]


def growth_notices(world: World) -> list[PageMessage]:
    return [page for page in pages(world) if page.urgency is PageUrgency.NOTICE and ":incident:" in page.key]


def test_an_incident_that_grows_from_a_rack_to_the_cluster_sends_one_notice_with_the_present_domain_and_number():
    world = world_of(64)
    lose_links(world, range(1, 5))
    world.advance_minutes(10)
    lose_links(world, range(5, 65))
    world.advance_minutes(4)
    assert growth_notices(world) == []
    world.advance_minutes(40)
    (incident,) = incidents(world)
    (notice,) = growth_notices(world)
    assert notice.key == f"train-a:incident:{incident.id}"
    assert notice.attributes["state"] == "triggered"
    assert "64 of 64 nodes of cluster train-a have network faults" in notice.bodies["email"]
    assert urgent(world) == [f"train-a:incident:{incident.id} triggered"]


def test_the_notices_of_a_growing_incident_are_resolved_once_with_its_page():
    world = world_of(64)
    lose_links(world, range(1, 4))
    world.advance_minutes(8)
    lose_links(world, range(4, 9))
    world.advance_minutes(20)
    restore_links(world)
    world.advance_minutes(60)
    assert [page.attributes["state"] for page in growth_notices(world)] == ["triggered", "resolved"]
    assert [line.rpartition(" ")[2] for line in urgent(world)] == ["triggered", "resolved"]


def test_the_reminder_of_an_incident_that_grew_states_the_present_domain_and_number():
    pager, clock = FakePager(), ManualClock()
    table = FakeTable(clock)
    paging = Paging(table, pager, clock)
    paging.deliver(incident("opened", reason="4 of 8 nodes of rack rack-1 have network faults"))
    paging.deliver(incident("grown", 4, doubled=True, reason="64 of 64 nodes of cluster train-a have network faults"))
    (opened,), _ = OpenPages(table, clock, 10).read_all(CLUSTER, PageUrgency.URGENT)
    assert opened.page.headline.endswith("64 of 64 nodes of cluster train-a have network faults")
    paging.deliver(incident("closed", 8))
    assert [OpenPages(table, clock, 10).read_all(CLUSTER, urgency)[0] for urgency in PageUrgency] == [[], []]
