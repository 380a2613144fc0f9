"""Shared faults that are recorded late, overlap a verification, or happen beside an older incident."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

import pytest

from faultbridge.model.cases import Phase
from faultbridge.model.enums import CaseStatus, IncidentStatus, NodeStatus, RepairAction
from faultbridge.model.errors import Misconfigured
from faultbridge.model.fault_enums import Action
from faultbridge.model.policy import Match, Rule
from faultbridge.record.append import Append
from faultbridge.record.ports.compute import Capacity, CapacityEvidence, Verdict, Verification
from tests.builders import NOON
from tests.scenarios.incidents.incidents import RACK, cases, incidents, lose_links, restore_links, world_of
from tests.scenarios.incidents.pages_of_incidents import urgent
from tests.scenarios.world import World, limits
from tests.sim.fakes.instance_commands import CUT_OFF

REPLACE = Rule("replace", Match(codes=("net.*",)), action=Action.REPLACE_NODE, wait_seconds=90)
RESET = Rule("reset", Match(codes=("xid.48",)), action=Action.RESET_GPU, release_without_capacity=True)


def world_that_replaces(nodes: int = 16, **others) -> World:
    """Return a world whose policy replaces nodes with network faults, and whose capacity is known."""
    world = world_of(nodes, **({"rules": (RESET, REPLACE)} | others))
    world.provider.known_capacity = Capacity(CapacityEvidence.OWN_RESERVATION)
    return world


def cut_off(world: World, nodes: Iterable[int]) -> None:
    """Let the verification of the instances of these nodes fail from now on, because they do not reach their peers."""
    numbers = tuple(nodes)

    def has_no_peers(instance: str) -> bool:
        found = (world.node(number).incarnation for number in numbers)
        return instance in {one.instance_id for one in found if one is not None}

    world.verifier.cut_off = has_no_peers


def test_recovered_nodes_are_verified_without_the_approval_that_their_replacement_requires() -> None:
    asking = Rule("ask", Match(codes=("net.*",)), action=Action.REPLACE_NODE, approval=(RepairAction.REPLACE_NODE,))
    world = world_that_replaces(rules=(asking,))
    lose_links(world)
    world.advance_minutes(10)
    restore_links(world)
    world.advance_minutes(60)
    assert cases(world) == {CaseStatus.RESOLVED}
    assert not any("approval" in page for page in urgent(world))


def test_nodes_whose_records_arrive_late_wait_for_the_incident_after_the_others_recovered() -> None:
    world = world_that_replaces()
    world.advance_minutes(30)
    cut_off(world, RACK)
    lose_links(world, (1, 2, 3))
    world.clock.advance(timedelta(seconds=20))
    for node in range(4, 9):
        world.fault(node, "net.link_down", source="link-state", seen=world.clock.now() - timedelta(minutes=15))
    world.process_entries()
    cut_off(world, range(4, 9))
    restore_links(world, (1, 2, 3))
    world.advance_minutes(60)
    assert cases(world, range(4, 9)) == {CaseStatus.ABSORBED}
    assert world.released_instances() == []
    assert len(urgent(world)) == 1


def test_a_second_shared_fault_in_the_cluster_is_an_incident_beside_that_of_a_large_rack() -> None:
    small = range(21, 33)
    world = world_that_replaces(
        32, domain=lambda number: "big" if number <= 20 else f"small-{(number - 21) // 2}", breakers=()
    )
    lose_links(world, range(1, 21))
    world.advance_minutes(40)
    lose_links(world, small)
    world.advance_minutes(30)
    assert [one.domain.kind.value for one in incidents(world)] == ["rack", "cluster"]
    assert cases(world, small) == {CaseStatus.ABSORBED}
    assert world.released_instances() == []


def test_a_rack_that_fails_late_in_an_older_incident_waits_for_the_whole_maximum_age() -> None:
    world = world_that_replaces()
    lose_links(world, (1, 2, 3))
    world.advance_minutes(20)
    restore_links(world, (1, 2))
    cut_off(world, RACK)
    world.advance_minutes(95)
    others = (1, 2, 4, 5, 6, 7, 8)
    lose_links(world, others)
    world.advance_minutes(100)
    older, newer = incidents(world)
    assert (older.status, older.nodes) == (IncidentStatus.EXPIRED, ("node-3",))
    assert (newer.status, len(newer.nodes)) == (IncidentStatus.OPEN, len(others))
    assert cases(world, others) == {CaseStatus.ABSORBED}
    assert set(world.released_instances()) <= {"i-00000000000000003"}


def test_a_wide_fault_late_in_an_incident_is_not_freed_with_the_nodes_of_that_incident() -> None:
    world = world_that_replaces(64)
    lose_links(world)
    world.advance_minutes(110)
    wide = range(9, 33)
    lose_links(world, wide)
    world.advance_minutes(60)
    older, newer = incidents(world)
    assert (older.status, older.domain.text) == (IncidentStatus.EXPIRED, "rack rack-1")
    assert (newer.status, newer.domain.text, len(newer.nodes)) == (IncidentStatus.OPEN, "cluster train-a", len(wide))
    assert cases(world, wide) == {CaseStatus.ABSORBED}


def disturb_the_verification(world: World) -> None:
    """Replace the first node; while its new instance is verified, the rest of its rack loses its links for a while."""
    world.fault_and_react(1, "xid.79")
    world.until(lambda: Phase.VERIFYING in world.case(1).marks)
    instance = world.instance(1)
    lose_links(world, range(2, 9))
    world.verifier.results[instance] = CUT_OFF
    world.advance_minutes(3)
    restore_links(world, range(2, 9))


def test_a_verification_is_repeated_if_an_incident_was_closed_before_its_result() -> None:
    world = world_that_replaces()
    world.verifier.duration = timedelta(minutes=45)
    disturb_the_verification(world)
    world.until(lambda: world.case(1).attempts == 2)
    assert incidents(world)[0].status is IncidentStatus.CLOSED
    assert world.case(1).repair_action is RepairAction.VERIFY
    world.verifier.results.clear()
    world.until(lambda: world.case(1).status is CaseStatus.RESOLVED)
    assert world.released_instances() == ["i-00000000000000001"]


def test_a_verification_that_an_incident_disturbed_is_repeated_at_once_and_costs_no_attempt() -> None:
    world = world_that_replaces()
    world.verifier.duration = timedelta(minutes=45)
    disturb_the_verification(world)
    world.until(lambda: "verify failed" in world.record_history())
    assert (world.case(1).attempts, world.case(1).counted_attempts) == (2, 1)


def test_a_verification_of_many_hours_is_repeated_if_an_incident_disturbed_its_start() -> None:
    world = world_that_replaces(24, limits=limits(concurrent=2, verify_deadline=timedelta(hours=8)))
    world.verifier.duration = timedelta(hours=6)
    disturb_the_verification(world)
    world.advance_minutes(4 * 60)
    lose_links(world, range(9, 17))
    world.advance_minutes(3)
    restore_links(world, range(9, 17))
    assert [one.domain.text for one in incidents(world)] == ["rack rack-1", "rack rack-2"]
    world.until(lambda: world.case(1).attempts == 2)
    assert world.case(1).repair_action is RepairAction.VERIFY
    world.verifier.results.clear()
    world.until(lambda: world.case(1).status is CaseStatus.RESOLVED)
    assert world.released_instances() == ["i-00000000000000001"]


def test_a_verification_without_a_result_before_its_deadline_waits_for_the_open_incident() -> None:
    world = world_that_replaces(
        limits=limits(concurrent=8, verify_deadline=timedelta(minutes=30), isolation_percent=100)
    )
    world.verifier.duration = timedelta(minutes=20)
    for node in RACK:
        world.fault(node)
    world.process_entries(minutes=5)
    for node in RACK:
        world.clear(node)
    world.process_entries(minutes=8)
    assert {world.status(node) for node in RACK} == {NodeStatus.VALIDATING}
    before = len(urgent(world))
    lose_links(world)
    world.verifier.result = Verification(Verdict.UNKNOWN, ("the agent does not answer",))
    world.advance_minutes(40)
    assert cases(world) == {CaseStatus.ABSORBED}
    (page,) = urgent(world)[before:]
    assert ":incident:" in page


def test_a_repair_waits_for_the_incident_of_its_rack_beside_an_older_expired_one() -> None:
    world = world_that_replaces()
    for node in (6, 7, 8):
        lose_links(world, (node,))
    world.advance_minutes(20)
    restore_links(world, (6, 7))
    cut_off(world, (8,))
    world.advance_minutes(24 * 60)
    assert incidents(world)[0].status is IncidentStatus.EXPIRED
    world.fault_and_react(1, "xid.48")
    world.until(lambda: Phase.INTENT in world.case(1).marks)
    cut_off(world, RACK)
    lose_links(world, range(2, 8))
    world.advance_minutes(100)
    assert cases(world, range(1, 8)) == {CaseStatus.ABSORBED}
    assert "i-00000000000000001" not in world.released_instances()


def test_a_node_that_cannot_be_read_does_not_keep_the_other_cases_from_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, read = world_that_replaces(24), Append.read

    def read_all_but_one(append: Append, key):
        if key.node == "node-1":
            raise Misconfigured("the item of node-1 cannot be read")
        return read(append, key)

    for node in RACK:
        world.fault(node, "net.link_down", source="link-state")
    monkeypatch.setattr(Append, "read", read_all_but_one)
    for _ in range(5):
        world.clock.advance(timedelta(minutes=1))
        world.sweep.run()
    assert cases(world, range(2, 9)) == {CaseStatus.ABSORBED}
    assert incidents(world)[0].opened_at > NOON
