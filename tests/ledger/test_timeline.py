"""What happened, when, and what was done about it, asked in every way."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from faultbridge.errors import Rejected
from faultbridge.ledger.timeline import Line, Timeline, Wanted, follow, in_order, is_late
from tests.ingest.world import LedgerFixture


def texts(lines: Iterator[Line] | tuple[Line, ...] | list[Line]) -> list[str]:
    return [line.event["data"].get("text") or line.event["metadata"]["event_type"] for line in lines]


def busy(**others: Any) -> tuple[LedgerFixture, Timeline]:
    """Six nodes, each with five notes, a minute apart."""
    world = LedgerFixture(**others)
    seats = [world.register_node(f"n-{number}") for number in range(6)]
    for minute in range(5):
        for key in seats:
            world.pass_time(seconds=10)
            world.note(key, f"{key.node} {minute}")
    return world, Timeline(world.table)


def notes_of(lines: Iterator[Line]) -> list[str]:
    return [text for text in texts(lines) if text.startswith("n-")]


@pytest.mark.parametrize("page_size", [None, 3])
@pytest.mark.parametrize("shards", [1, 4])
def test_a_cluster_is_told_in_the_order_of_recording_over_all_its_shards(shards: int, page_size: int | None) -> None:
    _, timeline = busy(shards=shards, page_size=page_size)
    expected = [f"n-{node} {minute}" for minute in range(5) for node in range(6)]
    assert notes_of(timeline.entries(Wanted("train-a"))) == expected


def test_a_node_is_told_alone() -> None:
    _, timeline = busy()
    assert notes_of(timeline.entries(Wanted("train-a", "n-3"))) == [f"n-3 {minute}" for minute in range(5)]


@pytest.mark.parametrize("node", [None, "n-3"])
def test_a_window_has_its_beginning_and_not_its_end(node: str | None) -> None:
    world, timeline = busy()
    whole = list(timeline.entries(Wanted("train-a", node)))
    recorded = [line.event["metadata"]["recorded_at"] for line in whole]
    now = world.clock.now()
    for hours in range(-1, 6):
        since, until = now - timedelta(minutes=hours), now - timedelta(minutes=hours - 2)
        window = Wanted("train-a", node, since=since, until=until)
        inside = [at for at in recorded if f"{since:%H:%M:%S}" <= at[11:19] < f"{until:%H:%M:%S}"]
        assert [line.event["metadata"]["recorded_at"] for line in timeline.entries(window)] == inside


def test_a_recent_window_of_a_long_history_is_read_without_the_history() -> None:
    world = LedgerFixture(page_size=10)
    key = world.register_node("n-1")
    for number in range(300):
        world.pass_time(minutes=1)
        world.note(key, f"{number}")
    world.table.seam.calls.clear()
    since = world.clock.now() - timedelta(minutes=2)
    found = texts(Timeline(world.table).entries(Wanted("train-a", "n-1", since=since)))
    assert found == ["297", "298", "299"]
    assert len(world.table.seam.calls) < 15


def test_filters_let_only_their_kind_through() -> None:
    world, timeline = busy()
    world.observe_faults(world.register_node("n-9"))
    types = Wanted("train-a", types=("Node Fault Detected",))
    assert texts(timeline.entries(types)) == ["Node Fault Detected"]
    severe = Wanted("train-a", severities=("fatal",))
    told = [line.event["metadata"] for line in timeline.entries(severe)]
    assert {metadata["node"] for metadata in told} == {"n-9"}


def test_a_case_is_told_whole() -> None:
    world, timeline = busy()
    case = world.observe_faults(world.register_node("n-9")).live_case
    assert case is not None
    told = texts(timeline.entries(Wanted(case=case.id)))
    assert "Node Fault Detected" in told
    assert "Case Status Change" in told
    assert notes_of(timeline.entries(Wanted(case=case.id))) == []


@pytest.mark.parametrize("node", [None, "n-3"])
def test_pages_neither_skip_nor_repeat_whatever_is_recorded_meanwhile(node: str | None) -> None:
    world, timeline = busy(shards=4)
    wanted = Wanted("train-a", node)
    whole = texts(timeline.entries(wanted))
    first, token = timeline.page(wanted, 3)
    world.pass_time(seconds=1)
    world.note(world.register_node("n-3"), "later")
    read = list(first)
    while token is not None:
        page, token = timeline.page(wanted, 3, token)
        read += page
    assert texts(read)[: len(whole)] == whole
    assert texts(read)[-1] == "later"
    assert len({line.hash for line in read}) == len(read)


def test_the_last_page_has_no_token() -> None:
    _, timeline = busy()
    lines, token = timeline.page(Wanted("train-a", "n-3"), 100)
    assert token is None
    assert len(lines) == 6


@pytest.mark.parametrize("token", ["***", "a", "\u00e9", "_w"])
def test_a_made_up_token_is_refused(token: str) -> None:
    _, timeline = busy()
    with pytest.raises(Rejected, match="bad_token"):
        timeline.page(Wanted("train-a"), 3, token)


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (Wanted(), "nothing_asked"),
        (Wanted("other"), "unknown_cluster"),
        (Wanted("train-a", "other"), "unknown_node"),
    ],
)
def test_what_does_not_exist_has_no_timeline(wanted: Wanted, reason: str) -> None:
    _, timeline = busy()
    with pytest.raises(Rejected, match=reason):
        list(timeline.entries(wanted))


def test_what_comes_late_is_marked_and_stands_where_it_happened() -> None:
    world = LedgerFixture()
    key = world.register_node("n-1")
    world.pass_time(hours=1)
    world.note(key, "first")
    world.note(key, "long ago", at=world.clock.now() - timedelta(minutes=30))
    lines = in_order(list(Timeline(world.table).entries(Wanted("train-a", "n-1"))))
    assert texts(lines) == ["Node Status Change", "long ago", "first"]
    assert [is_late(line.event) for line in lines] == [False, True, False]


def test_following_tells_each_entry_once_though_the_index_lags() -> None:
    world = LedgerFixture(index_lag=timedelta(seconds=5))
    key = world.register_node("n-1")
    pending = [f"note {number}" for number in range(8)]

    def wait() -> bool:
        world.pass_time(seconds=2)
        if pending:
            world.note(key, pending.pop(0))
            return True
        world.pass_time(seconds=2)
        return world.clock.now().minute < 7

    told = texts(follow(Timeline(world.table), Wanted("train-a"), world.clock, wait))
    assert told == ["Node Status Change", *(f"note {number}" for number in range(8))]
