"""Reads and writes of the nodes of a batch."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from faultbridge.model.entries import Transition
from faultbridge.model.enums import Actor, NodeStatus
from faultbridge.model.errors import Transient
from faultbridge.model.nodes import NodeKey
from faultbridge.model.records import Outcome
from faultbridge.model.storage import keys
from faultbridge.model.storage.writes import Put
from faultbridge.serve.ingest import caches
from tests.builders import KEY
from tests.sim.fakes.seam import Call
from tests.world import XID_79, World

NODES = tuple(f"n{number}" for number in range(30))


def key(node: str) -> NodeKey:
    return KEY._replace(node=node)


def entries(world: World, node: str) -> list[int]:
    """Return the numbers of a node's entries."""
    rows = world.ports.table.query(keys.node_partition(key(node)), prefix=keys.ENTRY).items
    return [int(str(row["sk"]).rpartition("#")[2]) for row in rows]


def report_faults(world: World) -> list[Outcome]:
    return world.outcomes(*(world.message(XID_79, node=node) for node in NODES))


def once(do: Callable[[], object]) -> Callable[[Call], None]:
    """Return a hook that runs a function before the first transaction."""
    done: list[bool] = []

    def hook(call: Call) -> None:
        if call.name == "table.transact" and not done:
            done.append(True)
            do()

    return hook


def test_nodes_with_simultaneous_faults_are_committed_in_few_transactions() -> None:
    world = World(nodes=NODES)
    before = len(world.ports.seam.named("table.transact"))
    assert report_faults(world) == [Outcome.RECORDED] * len(NODES)
    assert len(world.ports.seam.named("table.transact")) - before <= len(NODES) // 8
    for node in NODES:
        assert world.node(key(node)).status is NodeStatus.DEGRADED
        assert entries(world, node) == list(range(1, len(entries(world, node)) + 1))


def test_a_conflict_of_one_node_does_not_prevent_the_commits_of_the_others() -> None:
    world = World(nodes=NODES)

    def write_concurrently() -> None:
        app = world.app
        other = app.append.read(key("n3"))
        app.append(
            other.key,
            lambda state, now: Transition(state, (), (_unrelated_write(world),)),
            actor=Actor.CLI,
        )

    world.ports.seam.before = once(write_concurrently)
    assert report_faults(world) == [Outcome.RECORDED] * len(NODES)
    found = {node: entries(world, node) for node in NODES}
    assert {tuple(numbers) for numbers in found.values()} == {tuple(range(1, len(found["n0"]) + 1))}
    assert {world.node(key(node)).status for node in NODES} == {NodeStatus.DEGRADED}


def test_a_transaction_whose_response_was_lost_is_not_repeated() -> None:
    world = World(nodes=NODES)
    lost: list[bool] = []

    def lose_response(call: Call) -> None:
        if call.name == "table.transact" and not lost:
            lost.append(True)
            raise Transient("no response")

    world.ports.seam.after = lose_response
    assert set(report_faults(world)) <= {Outcome.RECORDED, Outcome.DUPLICATE}
    assert lost
    counts = {len(entries(world, node)) for node in NODES}
    assert len(counts) == 1


def _unrelated_write(world: World) -> Put:
    return Put({"pk": "OTHER", "sk": "X", "updated_at": world.now.isoformat()})


CONDITION = "gpu.lost@gpu/pci=0000:c1:00"


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
