"""The entries of volumes that move name the instances that the volumes leave and reach."""

from __future__ import annotations

from typing import Any

from faultbridge.model.enums import CaseStatus, ProviderFailure
from tests.scenarios.repair.volumes import ESCALATED, NEW, OLD, ORDER, steps, world_with_volumes
from tests.scenarios.world import World


def instances(world: World) -> list[tuple[str, Any, Any]]:
    """Return outcome, old instance and new instance of each entry about volumes."""
    return [(one["outcome"], one.get("old_instance"), one.get("new_instance")) for one in steps(world)]


def test_the_detachment_is_recorded_with_the_instance_that_the_volumes_leave() -> None:
    world, _ = world_with_volumes("data", "data")
    world.fault_until_resolved()
    assert instances(world) == [("begun", OLD, None), ("detached", OLD, None), ("attached", OLD, NEW)]


def test_a_refused_detachment_is_recorded_with_the_instance_that_keeps_the_volume() -> None:
    world, (volume,) = world_with_volumes()
    world.volumes.fail_next(ProviderFailure.PERMISSION_DENIED)
    world.fault_until(ESCALATED)
    assert instances(world) == [("begun", OLD, None), ("refused", OLD, None)]
    refused = steps(world)[-1]
    assert refused["failure"] == "PROVIDER_ERROR"
    assert [one["volume"] for one in refused["facts"]["volumes"]] == [volume]


def test_a_refused_attachment_is_recorded_with_the_instance_that_lacks_the_volume() -> None:
    world, (volume,) = world_with_volumes()
    world.fault_and_react()
    world.until(lambda: bool(world.volumes.detached))
    world.volumes.fail_next(ProviderFailure.PERMISSION_DENIED)
    world.until(world.case_is(ESCALATED))
    assert instances(world)[2:] == [("failed", None, NEW)]
    assert [one.volume_id for one in world.node().moving_volumes] == [volume]
    world.node_orders.return_node(world.key(), ORDER)
    world.until_case(CaseStatus.RESOLVED)
    assert instances(world)[3:] == [("attached", OLD, NEW)]
