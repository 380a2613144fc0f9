"""The timeline of a cluster, node or case: order, windows, filters, pages and following."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from faultbridge.model.entries import EntryMetadata
from faultbridge.model.enums import EntryType
from faultbridge.model.errors import Rejected
from faultbridge.model.recorded import as_structure
from faultbridge.model.times import to_text
from faultbridge.record import timeline as module
from faultbridge.record.timeline import Line, Timeline, TimelineQuery, follow, is_late, sort_by_occurrence
from tests.builders import NOON, fault
from tests.ingest.world import LedgerFixture


def texts(lines: Iterator[Line] | tuple[Line, ...] | list[Line]) -> list[str]:
    return [getattr(line.event.data, "text", None) or line.event.metadata.event_type for line in lines]


def timeline_of_six_nodes(**others: Any) -> tuple[LedgerFixture, Timeline]:
    """Return a timeline of six nodes with five notes each, a minute apart."""
    world = LedgerFixture(**others)
    nodes = [world.register_node(f"n-{number}") for number in range(6)]
    for minute in range(5):
        for key in nodes:
            world.pass_time(seconds=10)
            world.note(key, f"{key.node} {minute}")
    return world, Timeline(world.table)


def notes_of(lines: Iterator[Line]) -> list[str]:
    return [text for text in texts(lines) if text.startswith("n-")]


@pytest.mark.parametrize("page_size", [None, 3])
@pytest.mark.parametrize("nodes_per_shard", [800, 2])
def test_the_timeline_of_a_cluster_is_in_recording_order_over_all_shards(
    nodes_per_shard: int, page_size: int | None
) -> None:
    _, timeline = timeline_of_six_nodes(nodes_per_shard=nodes_per_shard, page_size=page_size)
    expected = [f"n-{node} {minute}" for minute in range(5) for node in range(6)]
    assert notes_of(timeline.entries(TimelineQuery("train-a"))) == expected


def test_the_timeline_of_a_node_contains_only_that_node() -> None:
    _, timeline = timeline_of_six_nodes()
    assert notes_of(timeline.entries(TimelineQuery("train-a", "n-3"))) == [f"n-3 {minute}" for minute in range(5)]


@pytest.mark.parametrize("node", [None, "n-3"])
def test_a_window_includes_its_start_and_excludes_its_end(node: str | None) -> None:
    world, timeline = timeline_of_six_nodes()
    whole = list(timeline.entries(TimelineQuery("train-a", node)))
    recorded = [line.event.metadata.recorded_at for line in whole]
    now = world.clock.now()
    for hours in range(-1, 6):
        since, until = now - timedelta(minutes=hours), now - timedelta(minutes=hours - 2)
        window = TimelineQuery("train-a", node, since=since, until=until)
        inside = [at for at in recorded if since <= at < until]
        assert [line.event.metadata.recorded_at for line in timeline.entries(window)] == inside


def test_a_recent_window_of_a_long_history_needs_fewer_requests_than_the_history() -> None:
    world = LedgerFixture(page_size=10)
    key = world.register_node("n-1")
    for number in range(300):
        world.pass_time(minutes=1)
        world.note(key, f"{number}")
    world.table.seam.calls.clear()
    since = world.clock.now() - timedelta(minutes=2)
    found = texts(Timeline(world.table).entries(TimelineQuery("train-a", "n-1", since=since)))
    assert found == ["297", "298", "299"]
    of_window = len(world.table.seam.calls)
    world.table.seam.calls.clear()
    assert len(texts(Timeline(world.table).entries(TimelineQuery("train-a", "n-1")))) >= 300
    assert len(world.table.seam.calls) > 2 * of_window


def test_filters_by_type_and_severity() -> None:
    world, timeline = timeline_of_six_nodes()
    world.observe_faults(world.register_node("n-9"))
    types = TimelineQuery("train-a", types=("Node Fault Detected",))
    assert texts(timeline.entries(types)) == ["Node Fault Detected"]
    severe = TimelineQuery("train-a", severities=("fatal",))
    found = [line.event.metadata for line in timeline.entries(severe)]
    assert {metadata.node for metadata in found} == {"n-9"}


def test_the_timeline_of_a_case_contains_all_its_entries() -> None:
    world, timeline = timeline_of_six_nodes()
    case = world.observe_faults(world.register_node("n-9")).live_case
    assert case is not None
    found = texts(timeline.entries(TimelineQuery(case=case.id)))
    assert "Node Fault Detected" in found
    assert "Case Status Change" in found
    assert notes_of(timeline.entries(TimelineQuery(case=case.id))) == []


@pytest.mark.parametrize("node", [None, "n-3"])
def test_pages_neither_skip_nor_repeat_entries_while_others_are_recorded(node: str | None) -> None:
    world, timeline = timeline_of_six_nodes(nodes_per_shard=2)
    query = TimelineQuery("train-a", node)
    whole = texts(timeline.entries(query))
    first, token = timeline.page(query, 3)
    world.pass_time(seconds=1)
    world.note(world.register_node("n-3"), "later")
    read = list(first)
    while token is not None:
        page, token = timeline.page(query, 3, token)
        read += page
    assert texts(read)[: len(whole)] == whole
    assert texts(read)[-1] == "later"
    assert len({line.hash for line in read}) == len(read)


@pytest.mark.parametrize("node", [None, "n-3"])
def test_the_newest_entries_before_an_instant_are_found_behind_later_ones(node: str | None) -> None:
    world, timeline = timeline_of_six_nodes()
    for text in ("an hour later", "even later"):
        world.pass_time(hours=1)
        world.note(world.register_node("n-3"), text)
    every = list(timeline.entries(TimelineQuery("train-a", node)))
    until = every[-2].event.metadata.recorded_at
    assert timeline.newest(TimelineQuery("train-a", node, until=until), 2) == (tuple(every[-4:-2]), True)


@pytest.mark.parametrize(("limit", "older"), [(5, True), (6, False), (7, False)])
def test_the_newest_entries_state_whether_there_are_older_ones(limit: int, older: bool) -> None:
    _, timeline = timeline_of_six_nodes()
    every = tuple(timeline.entries(TimelineQuery("train-a", "n-3")))
    assert len(every) == 6
    assert timeline.newest(TimelineQuery("train-a", "n-3"), limit) == (every[-limit:], older)


def test_a_page_ends_after_the_maximum_number_of_entries_that_it_may_read(monkeypatch: pytest.MonkeyPatch) -> None:
    world, timeline = timeline_of_six_nodes()
    world.observe_faults(world.register_node("n-3"), fault())
    query, pages, token = TimelineQuery("train-a", "n-3", codes=("xid.79",)), [], None
    monkeypatch.setattr(module, "MAX_READ", 3)
    while not pages or token is not None:
        lines, token = timeline.page(query, 10, token)
        pages.append(texts(lines))
    assert pages == [[], [], [EntryType.FAULT_DETECTED.value], []]


def test_a_page_ends_when_its_entries_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    _, timeline = timeline_of_six_nodes()
    query = TimelineQuery("train-a", "n-3")
    first, second, *_ = timeline.entries(query)
    monkeypatch.setattr(module, "MAX_BYTES", len(first.body) + len(second.body))
    lines, token = timeline.page(query, 100)
    assert lines == (first, second)
    assert token is not None


def test_the_last_page_has_no_token() -> None:
    _, timeline = timeline_of_six_nodes()
    lines, token = timeline.page(TimelineQuery("train-a", "n-3"), 100)
    assert token is None
    assert len(lines) == 6


@pytest.mark.parametrize("token", ["***", "a", "\u00e9", "_w"])
def test_an_invalid_token_is_refused(token: str) -> None:
    _, timeline = timeline_of_six_nodes()
    with pytest.raises(Rejected, match="bad_token"):
        timeline.page(TimelineQuery("train-a"), 3, token)


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        (TimelineQuery(), "nothing_asked"),
        (TimelineQuery("other"), "unknown_cluster"),
        (TimelineQuery("train-a", "other"), "unknown_node"),
    ],
)
def test_an_unknown_cluster_or_node_has_no_timeline(query: TimelineQuery, reason: str) -> None:
    _, timeline = timeline_of_six_nodes()
    with pytest.raises(Rejected, match=reason):
        list(timeline.entries(query))


def test_a_late_entry_is_marked_and_sorted_by_occurrence() -> None:
    world = LedgerFixture()
    key = world.register_node("n-1")
    world.pass_time(hours=1)
    world.note(key, "first")
    world.note(key, "long ago", at=world.clock.now() - timedelta(minutes=30))
    lines = sort_by_occurrence(list(Timeline(world.table).entries(TimelineQuery("train-a", "n-1"))))
    assert texts(lines) == ["Node Status Change", "long ago", "first"]
    assert [is_late(line.event.metadata) for line in lines] == [False, True, False]


@pytest.mark.parametrize(("milliseconds", "late"), [(120_000, False), (120_001, True)])
def test_an_entry_is_late_if_it_was_recorded_more_than_two_minutes_after_it_happened(
    milliseconds: int, late: bool
) -> None:
    times = {"occurred_at": to_text(NOON), "recorded_at": to_text(NOON + timedelta(milliseconds=milliseconds))}
    assert is_late(as_structure(EntryMetadata, times)) is late


def test_a_stream_is_read_from_an_entry_on_up_to_a_limit() -> None:
    world, timeline = timeline_of_six_nodes()
    world.rollup.update("train-a")
    assert texts(timeline.stream("train-a", "n-3", (1, 2), 2)) == ["n-3 1", "n-3 2"]
    assert texts(timeline.stream("train-a", None, (1, 0), 2)) == ["Cluster Status Change"]


def test_follow_yields_each_entry_once_although_the_index_lags() -> None:
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

    found = texts(follow(Timeline(world.table), TimelineQuery("train-a"), world.clock, wait))
    assert found == ["Node Status Change", *(f"note {number}" for number in range(8))]
