"""Recorded histories as documents, from complete installations on fakes."""

from __future__ import annotations

from typing import Any

from faultbridge.record.timeline import Timeline
from faultbridge.repair.registry.views import Views
from faultbridge.serve.console.facts import Facts
from faultbridge.serve.presentation.case_answers import CaseFacts
from tests.scenarios.world import CLUSTER, World


def facts_of(world: World) -> Facts:
    """Return the reader of pages for a world."""
    return Facts(Views(world.table), Timeline(world.table), world.clock, lambda _: world.policy)


def case_of(world: World, node: int = 1) -> CaseFacts:
    """Return the documents of the case of a node."""
    return facts_of(world).case(CLUSTER, world.case(node).id)


def replaced(**others: Any) -> World:
    """Return a world in which a node was replaced."""
    world = World(nodes=3, **others)
    world.fault_until_resolved()
    return world
