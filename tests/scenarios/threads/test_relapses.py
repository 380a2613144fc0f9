"""What peers' users reported about repairs that did not last: each scenario is named after what must happen."""

from __future__ import annotations

from datetime import timedelta

from faultbridge.model.enums import CaseStatus, NodeStatus, RepairAction, Resolution
from faultbridge.model.fault_enums import Action
from faultbridge.model.policy import Match, Rule
from tests.builders import GPU, OTHER_GPU
from tests.scenarios.threads.relapses import RESET
from tests.scenarios.world import World, limits

FIRST = "i-00000000000000001"


def reset_node(**others: object) -> World:
    """Return a cluster with a node whose GPU was just reset and passed its verification."""
    world = World(rules=(RESET,), **others)  # type: ignore[arg-type]
    relapse(world)
    world.until(world.case_is(CaseStatus.RESOLVED))
    assert (world.status(), world.case().resolution) == (NodeStatus.HEALTHY, Resolution.REPAIRED)
    return world


def relapse(world: World) -> None:
    """Report the fault again, half an hour later."""
    world.advance_minutes(30)
    world.fault_and_react(code="xid.48")


def levels(world: World) -> list[int | None]:
    """Return the levels of the verifications that were started, in order."""
    return [call.argument[2] for call in world.seam.named("verifier.start")]


def test_a_relapse_within_hours_raises_the_repair_action_and_keeps_the_node_out() -> None:
    """NVIDIA/NVSentinel#1427."""
    world = reset_node()
    repaired = world.case()
    world.advance_minutes(180)
    world.fault_and_react(code="xid.48")
    relapse = world.case()
    assert (relapse.relapse_of, relapse.repair_action) == (repaired.id, RepairAction.REBOOT_NODE)
    world.clear(code="xid.48")
    world.process_entries()
    status = world.status()
    assert status is not None
    assert not status.in_service
    world.until(world.case_is(CaseStatus.RESOLVED))
    assert (world.status(), world.released_instances()) == (NodeStatus.HEALTHY, [])


def test_a_node_with_a_relapse_returns_only_after_a_deeper_verification() -> None:
    """NVIDIA/NVSentinel#1427."""
    world = reset_node()
    relapse(world)
    world.until(world.case_is(CaseStatus.RESOLVED))
    assert levels(world) == [None, 4]


def test_a_relapse_that_ends_before_the_isolation_is_verified_all_the_same() -> None:
    """NVIDIA/NVSentinel#1427."""
    world = reset_node(orchestrated=True)
    world.advance_minutes(30)
    world.fault(code="xid.48")
    world.clock.advance(timedelta(seconds=1))
    world.clear(code="xid.48")
    assert world.case().status is not CaseStatus.RESOLVED
    world.until_case(CaseStatus.RESOLVED)
    assert levels(world) == [None, 4]


def test_each_further_relapse_needs_the_next_stronger_action_and_the_last_one_an_operator() -> None:
    """NVIDIA/NVSentinel#1427."""
    world = reset_node()
    for expected in (RepairAction.REBOOT_NODE, RepairAction.REPLACE_NODE):
        relapse(world)
        assert world.case().repair_action is expected
        world.until(world.case_is(CaseStatus.RESOLVED))
    relapse(world)
    world.advance_minutes(60)
    assert (world.case().status, world.status()) == (CaseStatus.ESCALATED, NodeStatus.QUARANTINED)
    assert "relapse after replace_node" in world.case().reason
    assert world.released_instances() == [FIRST]


def test_another_fault_of_the_same_gpu_is_a_relapse_and_one_of_another_gpu_is_none() -> None:
    """NVIDIA/NVSentinel#1427."""
    reset = Rule("reset-all", Match(codes=("xid.*",)), action=Action.RESET_GPU)
    for component, expected in ((GPU, RepairAction.REBOOT_NODE), (OTHER_GPU, RepairAction.RESET_GPU)):
        world = World(rules=(reset,))
        world.fault_until_resolved(code="xid.48")
        world.fault_and_react(code="xid.79", component=component)
        assert world.case().repair_action is expected


def test_a_fault_after_the_probation_is_repaired_like_a_first_one() -> None:
    """NVIDIA/NVSentinel#1427."""
    world = reset_node(limits=limits(probation=timedelta(hours=2)))
    world.advance_minutes(121)
    world.fault_and_react(code="xid.48")
    assert (world.case().relapse_of, world.case().repair_action) == (None, RepairAction.RESET_GPU)
