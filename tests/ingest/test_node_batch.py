"""Node batches: many nodes are committed in few transactions, and a failure of one node affects no other."""

from __future__ import annotations

from collections.abc import Callable

from faultbridge.model.entries import Transition
from faultbridge.model.enums import Actor, NodeStatus
from faultbridge.model.errors import Transient
from faultbridge.model.nodes import NodeKey
from faultbridge.model.records import Outcome
from faultbridge.model.storage import keys
from faultbridge.model.storage.writes import Put
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
