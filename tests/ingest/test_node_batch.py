"""Node batches: many nodes are committed in few transactions, and a failure of one node affects no other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.edges import Actor, NodeStatus
from faultbridge.domain.nodes import NodeKey
from faultbridge.domain.records import Outcome
from faultbridge.errors import Transient
from faultbridge.ingest.node_batch import MAX_ENTRIES, MAX_WRITES, DraftedBatch, group_commits
from faultbridge.ledger.append import Appended
from faultbridge.simulation.fakes.seam import Call
from faultbridge.storage import keys
from faultbridge.storage.writes import Put
from tests.builders import KEY
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
        other = app.ledger.append.read(key("n3"))
        app.ledger.append(
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


drafts = st.lists(st.tuples(st.lists(st.integers(0, 400), max_size=110, unique=True), st.integers(0, 70)), max_size=20)


@given(drafts)
def test_each_group_fits_in_one_transaction_and_contains_every_draft_once(wanted: list[tuple[list[int], int]]) -> None:
    drafted = [
        DraftedBatch(cast("Any", None), cast("Appended", _Entries(count)), tuple(_write(place) for place in places))
        for places, count in wanted
    ]
    groups = list(group_commits(drafted))
    assert sorted(id(one) for group in groups for one in group) == sorted(id(one) for one in drafted)
    for group in groups:
        written = [write.key for one in group for write in one.writes]
        assert len(written) == len(set(written))
        assert len(group) == 1 or len(written) <= MAX_WRITES
        assert len(group) == 1 or sum(len(one.appended.entries) for one in group) <= MAX_ENTRIES
        assert len(group) == 1 or all(len(one.writes) > 1 for one in group)


@pytest.mark.parametrize(("writes", "entries"), [(2, 1), (MAX_WRITES // 2, 1), (2, MAX_ENTRIES // 2)])
def test_two_drafts_share_a_transaction_up_to_its_limits(writes: int, entries: int) -> None:
    drafted = [
        DraftedBatch(
            cast("Any", None),
            cast("Appended", _Entries(entries)),
            tuple(_write(1000 * draft + number) for number in range(writes)),
        )
        for draft in range(2)
    ]
    assert list(group_commits(drafted)) == [drafted]


class _Entries:
    def __init__(self, count: int) -> None:
        self.entries = (None,) * count


def _write(place: int) -> Put:
    return Put({"pk": f"P{place}", "sk": "S"})
