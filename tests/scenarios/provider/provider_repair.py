"""Builders of provider repair that several test modules use."""

from __future__ import annotations

from collections.abc import Callable

from faultbridge.model.cluster.config import RepairOwner
from faultbridge.model.enums import CaseStatus
from faultbridge.repair.registry.registration import Registration
from tests.scenarios.provider.external_replacement import ExternalReplacement
from tests.scenarios.world import CLUSTER, World

RESOLVED, ESCALATED = CaseStatus.RESOLVED, CaseStatus.ESCALATED

FIRST = "i-00000000000000001"

REPAIR_OPERATIONS = {"replace", "restart", "cordon", "uncordon", "drain"}


def followed_world(world: World | None = None, *, code: str = "xid.79", **others: object) -> World:
    world = world or World(**others)  # type: ignore[arg-type]  # the arguments of a world
    registration = Registration(world.table, world.append, world.clock)
    registration.set_cluster(CLUSTER, {"repair_owner": RepairOwner.PROVIDER})
    world.fault_and_react(code=code)
    return world


def repair_calls(world: World) -> list[str]:
    return [call.name for call in world.seam.calls if call.operation in REPAIR_OPERATIONS]


def run_inventory_until(world: World, external: ExternalReplacement, condition: Callable[[], bool]) -> None:
    """Run the inventory every minute until a condition holds."""
    for _ in range(120):
        if condition():
            return
        external.run_inventory()
        world.advance_minutes()
    raise AssertionError("not within two hours")
