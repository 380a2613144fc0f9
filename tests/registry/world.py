"""Helpers for the inventory tests: read nodes, and replace or terminate instances of the fake fleet."""

from __future__ import annotations

from faultbridge.model.values import replace
from tests.builders import KEY
from tests.world import GROUP


def node_of(world, node="a"):
    return world.node(KEY._replace(node=node))


def instance(world, node="a") -> str:
    return node_of(world, node).incarnation.instance_id


def terminate(world, instance_id: str) -> None:
    fleet = world.ports.fleet
    fleet.instances[instance_id] = replace(fleet.instances[instance_id], alive=False)


def replace_externally(world, node="a") -> tuple[str, str]:
    """Replace a node's instance as another controller does; returns the old and the new instance id."""
    old = instance(world, node)
    terminate(world, old)
    return old, world.ports.fleet.launch(GROUP)
