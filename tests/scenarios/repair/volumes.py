"""Builders of volumes that several test modules use."""

from __future__ import annotations

from typing import Any

from faultbridge.model.enums import CaseStatus
from faultbridge.model.policy import Rule
from faultbridge.model.values import replace
from faultbridge.repair.case_orders import OperatorOrder
from tests.scenarios.world import World

OLD = "i-00000000000000001"

NEW = "i-00000000000000002"

HANDS = Rule("hands-on", release_without_capacity=True)

ORDER = OperatorOrder("arn:aws:iam::111122223333:role/operator", "by hand")

ESCALATED = CaseStatus.ESCALATED


def world_with_volumes(*names: str, moved: tuple[str, ...] = ("data",)) -> tuple[World, list[str]]:
    """A node with one volume per name; the policy moves the volumes with a name in `moved`."""
    world = World(rules=(HANDS,))
    world.policy = replace(world.policy, volumes=moved)
    return world, [world.volumes.add(OLD, name) for name in names or ("data",)]


def steps(world: World) -> list[dict[str, Any]]:
    return [body["data"] for body in world.bodies() if str(body["data"].get("step")).endswith("_volumes")]
