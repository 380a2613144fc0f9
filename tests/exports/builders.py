"""Builders that several tests of this folder use."""

from __future__ import annotations

from faultbridge.serve.entrypoints.ingest import wire_ingest
from faultbridge.serve.entrypoints.react import wire_react
from tests.world import World


def break_a_gpu(world: World) -> None:
    """Let node n-1 report Xid 79, which opens a case."""
    wire_ingest(world.app).ingest([world.message(node="n-1")])
    wire_react(world.app).run([("train-a", "n-1")])
