"""Commit groups: many nodes are committed in few transactions, and a race about one node harms no other."""

from __future__ import annotations

import re
from collections import deque
from datetime import datetime
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultbridge.model.entries import Transition
from faultbridge.model.enums import Actor
from faultbridge.model.errors import Misconfigured, Transient
from faultbridge.model.nodes import NodeKey, NodeState
from faultbridge.model.storage import keys
from faultbridge.model.storage.writes import Put
from faultbridge.record.append import MAX_ENTRIES, MAX_WRITES, Appended, NodeDraft, append_many, group_commits
from faultbridge.repair.isolate import isolation_note
from tests.builders import KEY
from tests.races import run_before_write, writes_to
from tests.sim.fakes import Call
from tests.world import World

NODES = tuple(KEY._replace(node=f"n{number}") for number in range(30))


class _Entries:
    def __init__(self, count: int) -> None:
        self.entries = (None,) * count


def _draft(entries: int, writes: tuple[int, ...]) -> NodeDraft:
    """Return a draft with so many entries, and writes of items with these numbers."""
    return NodeDraft(
        cast("Appended", _Entries(entries)), tuple(Put({"pk": f"P{number}", "sk": "S"}) for number in writes)
    )


def note(state: NodeState, now: datetime) -> Transition:
    """Record an entry that contains the version on which it was computed."""
    return Transition(state, (isolation_note(state, f"of {state.head.version}", now),))


def world_of_many() -> World:
    return World(nodes=tuple(key.node for key in NODES))


def noted(world: World, node: NodeKey) -> list[str]:
    """Return what the entries of `note` say, the oldest first."""
    rows = world.ports.table.query(keys.node_partition(node), prefix=keys.ENTRY).items
    return [found[0] for row in rows if (found := re.findall(r"of \d+", repr(row)))]


def test_many_nodes_are_committed_in_few_transactions() -> None:
    world = world_of_many()
    before = len(world.ports.seam.calls)
    done = append_many(world.app.append, dict.fromkeys(NODES, note), actor=Actor.ISOLATE)
    assert [one.state.key for one in done] == list(NODES)
    calls = [call.name for call in world.ports.seam.calls[before:]]
    assert all(len(noted(world, node)) == 1 for node in NODES)
    assert calls.count("table.get_many") == 1
    assert calls.count("table.transact") <= len(NODES) // 8


def test_a_node_that_changed_since_it_was_read_is_computed_again_and_delays_no_other() -> None:
    world = world_of_many()
    append = world.app.append
    changed = keys.node_state(NODES[3])
    run_before_write(world.ports.seam, writes_to(changed), lambda: append(NODES[3], note, actor=Actor.ISOLATE))
    done = append_many(append, dict.fromkeys(NODES, note), actor=Actor.ISOLATE)
    assert [one.state.key for one in done] == list(NODES)
    assert [len(noted(world, node)) for node in NODES] == [2 if node == NODES[3] else 1 for node in NODES]
    assert len(set(noted(world, NODES[3]))) == 2


def test_a_table_that_is_unavailable_is_not_tried_again_for_each_node() -> None:
    world = world_of_many()

    def unavailable(call: Call) -> None:
        if call.name in {"table.transact", "table.write"}:
            raise Transient("throttled")

    world.ports.seam.calls.clear()
    world.ports.seam.before = unavailable
    with pytest.raises(Transient, match="throttled"):
        deque(append_many(world.app.append, dict.fromkeys(NODES, note), actor=Actor.ISOLATE))
    assert [call.name for call in world.ports.seam.calls] == ["table.get_many", "table.transact"]


def test_a_node_whose_change_raises_stops_no_other_and_its_error_is_raised_at_the_end() -> None:
    world = world_of_many()
    committed: list[NodeKey] = []

    def fail(_state: NodeState, _now: datetime) -> Transition:
        message = "a bug"
        raise ValueError(message)

    changes = {**dict.fromkeys(NODES, note), NODES[0]: fail}
    with pytest.raises(ValueError, match="a bug"):
        committed.extend(one.state.key for one in append_many(world.app.append, changes, actor=Actor.ISOLATE))
    assert [len(noted(world, node)) for node in NODES] == [0] + [1] * 29
    assert committed == list(NODES[1:])


def test_a_node_whose_item_cannot_be_read_stops_no_other() -> None:
    world = world_of_many()
    table = world.ports.table
    row = dict(table.get(keys.node_state(NODES[5])) or {})
    table.write(Put({**row, "state": "not a packed state"}))
    with pytest.raises(Misconfigured, match=NODES[5].node):
        deque(append_many(world.app.append, dict.fromkeys(NODES, note), actor=Actor.ISOLATE))
    assert [len(noted(world, node)) for node in NODES] == [int(node != NODES[5]) for node in NODES]


def test_a_change_that_changes_nothing_writes_nothing() -> None:
    world = world_of_many()
    before = len(world.ports.table.stream)
    unchanged = dict.fromkeys(NODES, lambda state, _now: Transition(state))
    done = append_many(world.app.append, unchanged, actor=Actor.ISOLATE)
    assert all(not appended.entries for appended in done)
    assert len(world.ports.table.stream) == before


drafts = st.lists(st.tuples(st.lists(st.integers(0, 400), max_size=110, unique=True), st.integers(0, 70)), max_size=20)


@given(drafts)
def test_each_group_fits_in_one_transaction_and_contains_every_draft_once(wanted: list[tuple[list[int], int]]) -> None:
    drafted = [_draft(count, tuple(numbers)) for numbers, count in wanted]
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
    drafted = [_draft(entries, tuple(1000 * draft + number for number in range(writes))) for draft in range(2)]
    assert list(group_commits(drafted)) == [drafted]
