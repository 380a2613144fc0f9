"""Builders of resume that several test modules use."""

from __future__ import annotations

from typing import Any

from faultbridge.repair.jobs.jobs import Jobs
from tests.scenarios.world import CLUSTER, World


def started(*nodes: int, **world: Any) -> World:
    """Return a world of two nodes in which job 1 runs on the given nodes."""
    made = World(nodes=2, **world)
    jobs(made).start(CLUSTER, "1", [made.key(node).node for node in nodes])
    return made


def jobs(world: World) -> Jobs:
    return Jobs(world.append)


def changes(world: World) -> list[str]:
    return [data["change"] for data in job_data(world)]


def job_data(world: World) -> list[dict[str, Any]]:
    return [body["data"] for body in world.bodies(None) if body["metadata"]["event_type"] == "Job Change"]


def break_and_end(world: World, node: int = 1, outcome: str = "failed") -> None:
    world.fault_and_react(node, minutes=1)
    jobs(world).end(CLUSTER, "1", outcome=outcome)
