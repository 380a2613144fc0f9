"""Node cache: counts that a process has not written yet apply only while the stored node is unchanged."""

from __future__ import annotations

from datetime import timedelta

from faultbridge.model.records import Outcome
from faultbridge.serve.ingest import caches
from tests.builders import KEY
from tests.world import XID_79, World

CONDITION = "xid.79@gpu/pci=0000:c1:00"


def world_with_four_faults() -> World:
    """Return a world whose node had Xid 79 four times. All four are stored."""
    world = World()
    for _ in range(4):
        world.outcomes(world.message(XID_79))
        world.ports.clock.advance(timedelta(seconds=10))
    assert count(world) == 4
    return world


def count(world: World) -> int:
    return world.node().conditions[CONDITION].count


def repeat(world: World) -> Outcome:
    (outcome,) = world.outcomes(world.message(XID_79))
    world.ports.clock.advance(timedelta(seconds=10))
    return outcome


def writes(world: World) -> int:
    return len(world.ports.seam.named("table.write"))


def test_unwritten_repetitions_are_counted_with_the_next_write():
    world = world_with_four_faults()
    before = writes(world)
    assert [repeat(world) for _ in range(3)] == [Outcome.FOLDED] * 3
    assert (writes(world), count(world)) == (before, 4)
    repeat(world)
    assert (writes(world), count(world)) == (before + 1, 8)


def test_an_unwritten_repetition_delivered_again_is_a_duplicate():
    world = world_with_four_faults()
    message = world.message(XID_79)
    assert world.outcomes(message) == [Outcome.FOLDED]
    assert world.outcomes(message) == [Outcome.DUPLICATE]


def test_a_new_process_knows_only_the_stored_count():
    world = world_with_four_faults()
    repeat(world)
    del world.app
    for _ in range(3):
        repeat(world)
    assert count(world) == 4


def test_a_write_of_another_process_replaces_unwritten_counts():
    world = world_with_four_faults()
    for _ in range(3):
        repeat(world)
    first = world.app
    del world.app
    for _ in range(4):
        repeat(world)
    assert count(world) == 8
    world.app = first
    assert [repeat(world), count(world)] == [Outcome.FOLDED, 8]
    assert [repeat(world), count(world)] == [Outcome.RECORDED, 10]


def test_a_full_cache_drops_unwritten_counts(monkeypatch):
    monkeypatch.setattr(caches, "MAX_CACHED_NODES", 1)
    world = World(nodes=(KEY.node, "b"))
    for node in (KEY.node, "b"):
        for _ in range(4):
            world.outcomes(world.message(XID_79, node=node))
            world.ports.clock.advance(timedelta(seconds=10))
    repeat(world)
    world.outcomes(world.message(XID_79, node="b"))
    for _ in range(3):
        repeat(world)
    assert count(world) == 4
