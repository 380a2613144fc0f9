"""The origin of a failure that nodes share is named and repaired; the other nodes return when it is out of service."""

from __future__ import annotations

import pytest

from faultbridge.decode.registry import read
from faultbridge.model.enums import CaseStatus, IncidentStatus, NodeStatus
from faultbridge.model.faults import Fault
from faultbridge.model.values import replace
from tests.scenarios.incidents.builders import world_with_catalog
from tests.scenarios.incidents.incidents import incidents
from tests.scenarios.incidents.pages_of_incidents import pages, urgent
from tests.scenarios.world import World

NODES = range(1, 17)
ORIGIN = 5
GPUS = ("0008:01:00", "0009:01:00", "0018:01:00", "0019:01:00")
_ZEROS = "0x00000000 0x00000000 0x00000000 0x00000000"
LINK_FATAL = f"149, NETIR_LINK_EVT Fatal XC0 i0 Link 14 (0x004001c6 0x00000000 {_ZEROS})"
ENDED_BY_PEER = f"149, NETIR_LINK_EVT Fatal XC0 i0 Link 14 (0x015001c6 0x00000000 {_ZEROS})"
PEER_LOST = f"145, RLW_REMAP Nonfatal XC0 i0 Link 03 (0x00000004 0x00000004 {_ZEROS})"
UNIT_FATAL = f"145, RLW_REMAP Fatal XC0 i0 Link 03 (0x00000004 0x00000040 {_ZEROS})"
WITHOUT_STATUS = "145, RLW"


def xid(text: str, gpu: str = GPUS[0]) -> Fault:
    (found,) = read("kernel-log", f"NVRM: Xid (PCI:{gpu}): {text}\n".encode()).observations
    assert isinstance(found, Fault)
    return replace(found, observed_at=None)


def show(world: World, node: int, text: str, gpu: str = GPUS[0]) -> None:
    world.observe_fault(node, xid(text, gpu))


def fail_fabric(world: World, symptom: str = PEER_LOST, *, origin_last: bool = False) -> None:
    """One GPU of 64 has Xid 149; the 63 others, three of them on its node, report lost packets."""
    if not origin_last:
        show(world, ORIGIN, LINK_FATAL)
    for node in NODES:
        for gpu in GPUS[node == ORIGIN :]:
            show(world, node, symptom, gpu)
    if origin_last:
        world.process_entries(minutes=2)
        show(world, ORIGIN, LINK_FATAL)
    world.process_entries()


def serving(world: World) -> set[int]:
    return {node for node in NODES if world.node(node).status in {NodeStatus.HEALTHY, NodeStatus.DEGRADED}}


@pytest.mark.parametrize("origin_last", [False, True], ids=["first", "last"])
def test_one_link_error_and_63_symptoms_name_node_gpu_and_link_and_15_of_16_nodes_serve(origin_last: bool):
    world = world_with_catalog(domain=lambda _: "nvl72-1")
    fail_fabric(world, origin_last=origin_last)
    world.advance_minutes(3)
    (incident,) = incidents(world)
    assert incident.affected == 16
    assert incident.origin is not None
    assert incident.origin.text == "node-5, gpu 0008:01:00 link 14 (xid.149)"
    assert serving(world) >= set(NODES) - {ORIGIN}
    assert urgent(world) == [f"train-a:incident:{incident.id} triggered"]
    (*_, page) = [page for page in pages(world) if page.key.endswith(incident.id)]
    assert "node-5, gpu 0008:01:00 link 14 (xid.149)" in page.bodies["email"]


def test_only_the_origin_is_repaired_and_symptoms_return_after_it_is_out_of_service():
    world = world_with_catalog(domain=lambda _: "nvl72-1")
    fail_fabric(world, WITHOUT_STATUS)
    world.advance_minutes(1)
    assert {world.case(node).status for node in NODES if node != ORIGIN} == {CaseStatus.ABSORBED}
    assert world.case(ORIGIN).status is not CaseStatus.ABSORBED
    world.advance_minutes(90)
    assert world.case(ORIGIN).status is CaseStatus.RESOLVED
    assert world.node(ORIGIN).status is NodeStatus.HEALTHY
    assert serving(world) == set(NODES)
    assert [one.code for node in NODES for one in world.node(node).active()] == []
    assert {incident.status for incident in incidents(world)} == {IncidentStatus.CLOSED}

    (incident,) = incidents(world)
    assert urgent(world)[0] == f"train-a:incident:{incident.id} triggered"


def test_a_symptom_that_is_seen_after_the_origin_is_out_stays():
    world = world_with_catalog(domain=lambda _: "nvl72-1")
    fail_fabric(world)
    world.advance_minutes(15)
    for _ in range(8):
        show(world, 9, PEER_LOST, GPUS[2])
        world.advance_minutes(5)
    assert [one.component.pci for one in world.node(9).active()] == [GPUS[2]]


@pytest.mark.parametrize("text", [PEER_LOST, ENDED_BY_PEER, UNIT_FATAL], ids=["peer error", "ended by peer", "fatal"])
def test_the_origin_is_unknown_if_no_fault_explains_those_of_the_other_nodes(text: str):
    world = world_with_catalog(domain=lambda _: "nvl72-1")
    for node in NODES:
        show(world, node, text)
    world.process_entries(minutes=2)
    (incident,) = incidents(world)
    assert incident.origin is None
    (page, *_) = [page for page in pages(world) if page.key.endswith(incident.id)]
    assert "origin unknown" in page.bodies["email"]


def test_an_origin_that_is_found_after_the_page_sends_a_notice_with_the_same_key():
    world = world_with_catalog(domain=lambda _: "nvl72-1")
    fail_fabric(world, origin_last=True)
    world.advance_minutes(2)
    (incident,) = incidents(world)
    key = f"train-a:incident:{incident.id}"
    assert [page.urgency.value for page in pages(world) if page.key == key] == ["urgent", "notice"]


def test_after_the_first_origin_is_repaired_the_next_one_is_named():
    world = world_with_catalog(domain=lambda _: "nvl72-1")
    fail_fabric(world)
    world.advance_minutes(1)
    show(world, 11, LINK_FATAL, GPUS[1])
    world.process_entries(minutes=1)
    (incident,) = incidents(world)
    assert incident.origin is not None
    assert incident.origin.node == "node-5"
    assert world.case(11).status is CaseStatus.ABSORBED
    world.until(lambda: world.case(ORIGIN).status is CaseStatus.RESOLVED)
    world.advance_minutes(1)
    (incident,) = incidents(world)
    assert incident.origin is not None
    assert incident.origin.node == "node-11"
