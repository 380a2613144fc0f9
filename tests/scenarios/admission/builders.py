"""Builders and constants that several tests of this folder use."""

from __future__ import annotations

from faultbridge.model.cluster.state import BreakerLimit, BreakerState
from tests.scenarios.world import World

CLUSTER_LIMIT = BreakerLimit(nodes=5, percent=20)


def fail(world: World, *nodes: int) -> None:
    for node in nodes:
        world.fault(node)
    world.process_entries()


def states(world: World) -> dict[str, BreakerState]:
    return {name: breaker.state for name, breaker in world.control().breakers.items()}
