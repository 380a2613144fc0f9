"""Recurrence: the same failure mode on three nodes of a group or failure domain within a week is one finding."""

from __future__ import annotations

from datetime import timedelta

import pytest

from faultbridge.model.findings import Finding
from faultbridge.model.recorded import read_event
from faultbridge.repair.findings.compare_peers import ComparePeers
from faultbridge.repair.findings.judgments import Judgments
from faultbridge.repair.findings.recurrence import PREFIX, Recurrence, find_recurrences
from faultbridge.serve.pager.rules import rules_for
from tests.scenarios.world import CLUSTER, GROUP, World

DAY = timedelta(days=1)


def racked(nodes: int = 8) -> World:
    """Return a cluster whose first four nodes are in the rack r-1, and the others in r-2."""
    return World(nodes=nodes, domain=lambda number: f"r-{1 if number <= 4 else 2}")


def fail(world: World, *nodes: int, code: str = "xid.79", apart: timedelta = DAY) -> None:
    """Let nodes fail and be repaired one after the other."""
    for node in nodes:
        world.fault_and_react(node, code)
        world.until(lambda node=node: not world.case(node).status.live)  # type: ignore[misc]
        world.clock.advance(apart)


def compare(world: World) -> list[Finding]:
    """Run the hourly comparison, and return the live findings of recurrences."""
    world.clock.advance(timedelta(hours=1, minutes=1))
    ComparePeers(world.append, world.rulebook, ()).compare(CLUSTER)
    return [one for one in Judgments(world.append).list([CLUSTER]) if one.detector.startswith(PREFIX)]


def found(world: World) -> list[Recurrence]:
    states = [world.node(number) for number in range(1, 9)]
    config = world.rulebook.config(CLUSTER)
    assert config is not None
    return list(find_recurrences(config, states, world.clock.now()))


def pages(world: World) -> list[tuple[str, str]]:
    rules = [rule for node in range(1, 9) for body in world.bodies(node) for rule in rules_for(read_event(body))]
    return [(rule.kind, rule.state.value) for rule in rules if rule.kind == "recurrence"]


def test_three_nodes_of_a_rack_with_one_failure_mode_in_a_week_are_one_finding_with_one_page() -> None:
    world = racked()
    fail(world, 1, 2)
    assert (compare(world), pages(world)) == ([], [])
    fail(world, 3)
    (finding,) = compare(world)
    assert (finding.detector, finding.value, finding.peers) == (f"{PREFIX}{world.case(1).mode} rack r-1", 3, 4)
    assert pages(world) == [("recurrence", "triggered")]
    assert compare(world) == [finding]
    fail(world, 4)
    assert compare(world) == [finding]
    assert pages(world) == [("recurrence", "triggered")]


def test_nodes_of_several_racks_are_a_finding_about_their_group() -> None:
    world = racked()
    fail(world, 1, 2, 5)
    (one,) = found(world)
    assert (one.place, one.nodes, one.total) == (f"group {GROUP}", ("node-1", "node-2", "node-5"), 8)
    assert one.text.endswith("3 of 8 nodes of group gpu-workers failed within 7 days (node-1, node-2, node-5)")


@pytest.mark.parametrize(("nodes", "apart"), [((1, 2), DAY), ((1, 2, 3), 4 * DAY)])
def test_two_nodes_or_failures_of_more_than_a_week_are_no_recurrence(nodes: tuple[int, ...], apart: timedelta) -> None:
    world = racked()
    fail(world, *nodes, apart=apart)
    assert found(world) == []


def test_one_node_that_fails_three_times_is_no_recurrence_of_its_group() -> None:
    world = racked()
    fail(world, 1, 1, 1)
    assert found(world) == []


def test_a_recurrence_ends_with_its_page_when_the_week_is_over() -> None:
    world = racked()
    fail(world, 1, 2, 3)
    (finding,) = compare(world)
    world.clock.advance(7 * DAY)
    assert compare(world) == []
    assert Judgments(world.append).show(finding.id).ended_at is not None
    assert pages(world) == [("recurrence", "triggered"), ("recurrence", "resolved")]


def test_a_few_nodes_of_a_large_group_are_no_recurrence() -> None:
    world = World(nodes=8)
    fail(world, 1, 2, 3)
    config = world.rulebook.config(CLUSTER)
    assert config is not None
    few = [world.node(number) for number in range(1, 9)]
    many = [*few, *(few[7] for _ in range(200))]
    assert len(find_recurrences(config, few, world.clock.now())) == 1
    assert find_recurrences(config, many, world.clock.now()) == ()


def test_instances_that_another_controller_ended_are_no_recurrence() -> None:
    world = racked()
    for node in (1, 2, 3):
        world.fleet.terminate(world.instance(node))
        world.fault_and_react(node, "cloud.instance_gone", source="ec2-event")
        world.until(lambda node=node: not world.case(node).status.live)  # type: ignore[misc]
    assert {world.case(node).code for node in (1, 2, 3)} == {"cloud.instance_gone"}
    assert found(world) == []
