"""One correlation of a cluster: what caused an incident, when its evidence begins, and which faults become history."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from faultbridge.model.cluster.incidents import CorrelationLimits
from faultbridge.model.enums import CaseStatus
from faultbridge.repair.case_orders import OperatorOrder
from faultbridge.repair.incidents import IncidentOrders, Intake
from tests.builders import NOON
from tests.scenarios.incidents.incidents import cases, incidents, world_of
from tests.scenarios.world import CLUSTER, World

WINDOW = CorrelationLimits().window


def cut_off(*nodes: int) -> World:
    """Return a world of two racks in which these nodes lost their links, before any correlation."""
    world = world_of(16)
    for node in nodes:
        world.fault(node, "net.link_down", source="link-state")
    return world


def causes(world: World) -> dict[str, str | None]:
    """Return the causes of the entries of the cluster's own stream, by event type."""
    return {body["metadata"]["event_type"]: body["metadata"]["causation_id"] for body in world.bodies(None)}


def test_an_incident_is_caused_by_the_event_that_triggered_the_correlation() -> None:
    world = cut_off(1, 2, 3)
    world.correlate.update_incidents(CLUSTER, "the-event")
    assert causes(world)["Cluster Safety Change"] == "the-event"


def test_an_incident_of_a_sweep_is_caused_by_the_last_status_change_of_a_node() -> None:
    world = cut_off(1, 2)
    world.clock.advance(timedelta(seconds=1))
    world.fault(3, "net.link_down", source="link-state")
    world.correlate.update_incidents(CLUSTER)
    changes = [body for body in world.bodies(3) if body["metadata"]["event_type"] == "Node Status Change"]
    assert causes(world)["Cluster Safety Change"] == changes[-1]["metadata"]["event_id"]


def test_the_same_run_that_sees_an_incident_open_or_closed_holds_or_releases_its_cases() -> None:
    world = cut_off(1, 2, 3)
    world.correlate.update_incidents(CLUSTER)
    assert cases(world, (1, 2, 3)) == {CaseStatus.ABSORBED}
    (incident,) = incidents(world)
    IncidentOrders(world.incident_changes, world.rulebook).close(CLUSTER, incident.id, OperatorOrder("ada"))
    world.correlate.update_incidents(CLUSTER)
    assert cases(world, (1, 2, 3)) == {CaseStatus.QUEUED}


def test_a_fault_of_a_single_node_becomes_history_after_the_window() -> None:
    world = cut_off(1)
    for minutes, counted in ((0, False), (9, False), (11, True)):
        world.clock.advance_to(NOON + timedelta(minutes=minutes))
        world.correlate.update_incidents(CLUSTER)
        assert bool(world.correlate.onsets.read(CLUSTER).counts) is counted
    assert incidents(world) == []


@pytest.mark.parametrize(
    ("last_arrival", "since"),
    [(NOON + timedelta(minutes=20), NOON + timedelta(minutes=20)), (None, NOON + timedelta(minutes=30))],
)
def test_a_failed_intake_began_when_the_last_record_arrived(last_arrival: datetime | None, since: datetime) -> None:
    world = cut_off()
    world.clock.advance_to(NOON + timedelta(minutes=30))
    world.correlate.update_incidents(CLUSTER, intake=Intake(failed=True, last_arrival=last_arrival))
    (incident,) = incidents(world)
    assert (incident.affected, incident.evidence_since) == (16, since - WINDOW)


def test_an_intake_that_works_opens_no_incident() -> None:
    world = cut_off()
    world.correlate.update_incidents(CLUSTER, intake=Intake(failed=False, last_arrival=NOON))
    world.correlate.update_incidents(CLUSTER, intake=None)
    assert incidents(world) == []
