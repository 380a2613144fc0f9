"""Many nodes in one transaction: cheaper, and nobody loses by the company."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.edges import Actor, NodeStatus
from faultbridge.domain.nodes import NodeKey
from faultbridge.domain.records import Outcome
from faultbridge.errors import Transient
from faultbridge.ingest.commit_groups import MAX_ENTRIES, MAX_WRITES, Drafted, together
from faultbridge.ledger.append import Appended
from faultbridge.rules.rulebook import rules_of
from faultbridge.simulation.fakes.seam import Call
from faultbridge.storage import keys
from faultbridge.storage.writes import Put
from tests.builders import KEY
from tests.world import XID_79, World

NODES = tuple(f"n{number}" for number in range(30))


def key(node: str) -> NodeKey:
    return KEY._replace(node=node)


def entries(world: World, node: str) -> list[int]:
    """The numbers of a node's entries."""
    rows = world.ports.table.query(keys.node_partition(key(node)), prefix=keys.ENTRY).items
    return [int(str(row["sk"]).rpartition("#")[2]) for row in rows]


def break_all(world: World) -> list[Outcome]:
    return world.outcomes(*(world.message(XID_79, node=node) for node in NODES))


def once(do: Callable[[], object]) -> Callable[[Call], None]:
    """A hook that does something before the first transaction."""
    done: list[bool] = []

    def hook(call: Call) -> None:
        if call.name == "table.transact" and not done:
            done.append(True)
            do()

    return hook


def test_nodes_that_break_at_once_are_committed_in_few_transactions() -> None:
    world = World(nodes=NODES)
    before = len(world.ports.seam.named("table.transact"))
    assert break_all(world) == [Outcome.RECORDED] * len(NODES)
    assert len(world.ports.seam.named("table.transact")) - before <= len(NODES) // 8
    for node in NODES:
        assert world.node(key(node)).status is NodeStatus.DEGRADED
        assert entries(world, node) == list(range(1, len(entries(world, node)) + 1))


def test_a_node_that_somebody_else_wrote_meanwhile_keeps_nobody_from_his_commit() -> None:
    world = World(nodes=NODES)

    def meddle() -> None:
        app = world.app
        config = rules_of(app.rules.rulebook, KEY.cluster).config
        other = app.ledger.append.read(key("n3"))
        app.ledger.append(
            other.key, lambda state, now: Transition(state, (), (_nothing(world),)), actor=Actor.CLI, config=config
        )

    world.ports.seam.before = once(meddle)
    assert break_all(world) == [Outcome.RECORDED] * len(NODES)
    told = {node: entries(world, node) for node in NODES}
    assert {tuple(numbers) for numbers in told.values()} == {tuple(range(1, len(told["n0"]) + 1))}
    assert {world.node(key(node)).status for node in NODES} == {NodeStatus.DEGRADED}


def test_a_transaction_that_was_made_but_not_acknowledged_is_not_made_again() -> None:
    world = World(nodes=NODES)
    broken: list[bool] = []

    def lose(call: Call) -> None:
        if call.name == "table.transact" and not broken:
            broken.append(True)
            raise Transient("no answer")

    world.ports.seam.after = lose
    assert set(break_all(world)) <= {Outcome.RECORDED, Outcome.DUPLICATE}
    assert broken
    counts = {len(entries(world, node)) for node in NODES}
    assert len(counts) == 1


def _nothing(world: World) -> Put:
    return Put({"pk": "ELSEWHERE", "sk": "X", "updated_at": world.now.isoformat()})


drafts = st.lists(st.tuples(st.lists(st.integers(0, 400), max_size=110, unique=True), st.integers(0, 70)), max_size=20)


@given(drafts)
def test_a_group_fits_a_transaction_and_nothing_is_left_out(wanted: list[tuple[list[int], int]]) -> None:
    drafted = [
        Drafted(cast("Any", None), cast("Appended", _Entries(count)), tuple(_write(place) for place in places))
        for places, count in wanted
    ]
    groups = list(together(drafted))
    assert sorted(id(one) for group in groups for one in group) == sorted(id(one) for one in drafted)
    for group in groups:
        written = [write.key for one in group for write in one.writes]
        assert len(written) == len(set(written))
        assert len(group) == 1 or len(written) <= MAX_WRITES
        assert len(group) == 1 or sum(len(one.appended.entries) for one in group) <= MAX_ENTRIES
        assert len(group) == 1 or all(len(one.writes) > 1 for one in group)


class _Entries:
    def __init__(self, count: int) -> None:
        self.entries = (None,) * count


def _write(place: int) -> Put:
    return Put({"pk": f"P{place}", "sk": "S"})
