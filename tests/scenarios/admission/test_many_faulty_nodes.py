"""Missing capacity for hours, a node that fails again, forty faulty nodes at once, and dry run."""

from __future__ import annotations

from datetime import timedelta

from faultbridge.model.cluster.config import CapacitySource, Mode
from faultbridge.model.enums import CaseStatus, NodeStatus
from faultbridge.record.ports.compute import Capacity, CapacityEvidence
from tests.scenarios.world import World, limits

RESOLVED, IN_PROGRESS = CaseStatus.RESOLVED, CaseStatus.IN_PROGRESS


def probes(world: World) -> int:
    """Return how many times the sources of capacity were asked: each time the own reservation once."""
    return sum(call.argument[0] is CapacitySource.OWN_RESERVATION for call in world.seam.named("provider.capacity"))


def test_without_capacity_for_eight_hours_the_nodes_are_kept_and_one_case_at_a_time_retries() -> None:
    world = World(nodes=3, limits=limits(concurrent=3, per_hour=500))
    world.provider.known_capacity = Capacity(CapacityEvidence.RESERVATION, free=False, reason="the reservation is full")
    for node in range(1, 4):
        world.fault(node)
    world.process_entries()
    asked: list[int] = []
    for _ in range(8 * 60):
        before = probes(world)
        world.advance_minutes()
        asked.append(probes(world) - before)
    assert world.released_instances() == []
    assert all(instance.alive for instance in world.fleet.instances.values())
    assert {world.status(node) for node in range(1, 4)} == {NodeStatus.QUARANTINED}
    # In eight hours only one of the three cases probes for capacity, a few times an hour.
    assert max(asked) <= 1
    assert sum(asked) <= 8 * 60 // 10 + 3
    world.provider.known_capacity = Capacity(CapacityEvidence.RESERVATION)
    for node in range(1, 4):
        world.until(world.case_is(RESOLVED, node))
    assert len(world.released_instances()) == 3


def test_a_node_that_fails_again_within_an_hour_references_the_previous_case() -> None:
    world = World()
    world.fault_until_resolved()
    first = world.case().id
    world.advance_minutes(20)
    world.fault_and_react()
    assert world.case().id != first
    assert world.case().previous_case == first
    opened = [body["data"] for body in world.bodies() if body["data"].get("to") == "open"]
    assert [one["previous_case"] for one in opened] == [None, first]


def test_forty_nodes_with_fatal_faults_are_cordoned_within_a_minute_and_repaired_two_at_a_time() -> None:
    world = World(nodes=40, limits=limits(concurrent=2, per_hour=500), orchestrated=True)
    world.verifier.duration = timedelta(minutes=2)
    for node in range(1, 41):
        world.fault(node)
    world.process_entries(minutes=1)
    assert len(world.orchestrator.cordoned) == 40
    most = 0
    for _ in range(12 * 60):
        world.advance_minutes()
        most = max(most, sum(world.case(node).status is IN_PROGRESS for node in range(1, 41)))
        if all(world.case(node).status is RESOLVED for node in range(1, 41)):
            break
    assert most == 2
    assert {world.status(node) for node in range(1, 41)} == {NodeStatus.HEALTHY}
    assert len(world.released_instances()) == 40


def test_a_dry_run_makes_no_call_to_a_node() -> None:
    world = World(nodes=3, mode=Mode.DRY_RUN, orchestrated=True)
    for node, code in ((1, "xid.79"), (2, "xid.48"), (3, "xid.79")):
        world.fault(node, code=code)
    world.process_entries(minutes=10)
    outside = {"provider", "restarter", "collector", "orchestrator", "verifier", "workflow"}
    assert [call.name for call in world.seam.calls if call.port in outside] == []
    assert all("note would_have_done" in world.record_history(node) for node in (1, 2, 3))
