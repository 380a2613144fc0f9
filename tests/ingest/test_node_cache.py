"""What a warm worker knows of nodes beyond what is stored, and that it believes the table rather than itself."""

from __future__ import annotations

from datetime import timedelta

from faultbridge.domain.records import Outcome
from faultbridge.ingest import caches
from tests.builders import KEY
from tests.world import XID_79, World

KEY_OF_79 = "xid.79@gpu/pci=0000:c1:00"


def broken() -> World:
    """A world whose node had Xid 79 four times, and all four are stored."""
    world = World()
    for _ in range(4):
        world.outcomes(world.message(XID_79))
        world.ports.clock.advance(timedelta(seconds=10))
    assert count(world) == 4
    return world


def count(world: World) -> int:
    return world.node().conditions[KEY_OF_79].count


def repeat(world: World) -> Outcome:
    (outcome,) = world.outcomes(world.message(XID_79))
    world.ports.clock.advance(timedelta(seconds=10))
    return outcome


def writes(world: World) -> int:
    return len(world.ports.seam.named("table.write"))


def test_a_repeat_that_is_not_written_is_counted_with_the_next_one_that_is():
    world = broken()
    before = writes(world)
    assert [repeat(world) for _ in range(3)] == [Outcome.FOLDED] * 3
    assert (writes(world), count(world)) == (before, 4)
    repeat(world)
    assert (writes(world), count(world)) == (before + 1, 8)


def test_a_repeat_that_is_not_written_is_known_when_it_comes_again():
    world = broken()
    message = world.message(XID_79)
    assert world.outcomes(message) == [Outcome.FOLDED]
    assert world.outcomes(message) == [Outcome.DUPLICATE]


def test_a_new_worker_knows_what_is_stored():
    world = broken()
    repeat(world)
    del world.app
    for _ in range(3):
        repeat(world)
    assert count(world) == 4


def test_what_somebody_else_wrote_counts_for_more_than_what_a_worker_knows():
    world = broken()
    for _ in range(3):
        repeat(world)
    one = world.app
    del world.app
    for _ in range(4):
        repeat(world)
    assert count(world) == 8
    world.app = one
    assert [repeat(world), count(world)] == [Outcome.FOLDED, 8]
    assert [repeat(world), count(world)] == [Outcome.RECORDED, 10]


def test_a_worker_that_knows_too_much_forgets(monkeypatch):
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
