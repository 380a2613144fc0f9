"""Values: times, safe texts, and the edges of a topology."""

from __future__ import annotations

import json
import unicodedata
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultbridge.model.edges import CASE_EDGES, NODE_EDGES, allowed
from faultbridge.model.enums import Actor, CaseStatus, NodeStatus
from faultbridge.model.safe_text import visible, visible_line
from faultbridge.model.times import earliest, from_milliseconds, from_text, latest, to_milliseconds, to_text, truncate


def test_a_time_with_an_offset_is_converted_to_utc() -> None:
    assert from_text("2026-02-03T05:05:06+01:00") == datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC)


@pytest.mark.parametrize("text", ["", "yesterday", "2026-02-03T04:05:06", "0001-01-01T00:00:00+14:00"])
def test_an_invalid_time_raises_value_error(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the caller writes its own text
        from_text(text)


def test_a_fraction_is_cut_to_milliseconds() -> None:
    assert to_text(datetime(2026, 2, 3, 4, 5, 6, 999_999, tzinfo=UTC)) == "2026-02-03T04:05:06.999Z"


def test_a_time_of_another_zone_is_written_in_utc() -> None:
    berlin = timezone(timedelta(hours=1))
    assert to_text(datetime(2026, 2, 3, 5, 5, 6, tzinfo=berlin)) == "2026-02-03T04:05:06.000Z"


def test_a_timestamp_in_milliseconds_is_the_same_time() -> None:
    at = datetime(2026, 2, 3, 4, 5, 6, 789_000, tzinfo=UTC)
    assert from_milliseconds(to_milliseconds(at)) == at
    assert to_milliseconds(datetime(1970, 1, 1, 0, 0, 1, 2_999, tzinfo=UTC)) == 1_002


@pytest.mark.parametrize(("microsecond", "stored"), [(0, 0), (999, 0), (1_000, 1_000), (1_999, 1_000)])
def test_a_time_is_stored_in_whole_milliseconds(microsecond: int, stored: int) -> None:
    at = datetime(2026, 2, 3, 4, 5, 6, microsecond, tzinfo=UTC)
    assert truncate(at) == at.replace(microsecond=stored)


def test_the_earliest_and_the_latest_time_leave_unknown_ones_out() -> None:
    first, last = (datetime(2026, 2, day, tzinfo=UTC) for day in (3, 4))
    assert (earliest(None, last, first), latest(last, None, first)) == (first, last)
    assert earliest(None) is latest() is None


ANY_TEXT = st.text(st.characters(exclude_categories=()) | st.sampled_from("\x1b\x07\x9b\u202e\u2066\u200f\x7f\r"))


@given(ANY_TEXT)
def test_no_control_or_format_character_is_left_but_tab_and_newline(text: str) -> None:
    shown = visible(text)
    left = {character for character in shown if unicodedata.category(character) in {"Cc", "Cs", "Zl", "Zp"}}
    assert left <= {"\n", "\t"}
    assert not any(unicodedata.bidirectional(character) in BIDIRECTIONAL for character in shown)
    assert visible(shown) == shown


BIDIRECTIONAL = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


@pytest.mark.slow
@given(st.recursive(ANY_TEXT | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(ANY_TEXT, inner)))
def test_json_keeps_its_meaning(value: object) -> None:
    assert json.loads(visible(json.dumps(value, ensure_ascii=False))) == value


@given(st.text(st.characters(categories=["L", "N", "P", "S"]) | st.just(" ")))
def test_ordinary_text_of_any_language_is_unchanged(text: str) -> None:
    assert visible(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J", r"\u001b[2J"),
        ("\x9b31m", r"\u009b31m"),
        ("gpu\u202ek0", r"gpu\u202ek0"),
        ("a\x7fb", r"a\u007fb"),
        ("a\rb", r"a\rb"),
        ("one\n\ttwo", "one two"),
    ],
)
def test_the_escape_of_a_character_is_shown_in_its_place(text: str, shown: str) -> None:
    assert visible_line(text) == shown


OUT_OF_SERVICE = [status for status in NodeStatus if not status.in_service and status is not NodeStatus.RETIRED]


def test_a_node_enters_service_only_by_validation_or_by_an_import() -> None:
    transitions = {
        (edge.source, edge.target)
        for edge in NODE_EDGES
        if edge.target in {"healthy", "degraded"} and edge.source not in {"healthy", "degraded"}
    }
    assert transitions == {("validating", "healthy"), ("validating", "degraded"), (None, "healthy")}


def test_only_admission_starts_an_attempt() -> None:
    actors = {actor for edge in CASE_EDGES if edge.target == "in_progress" for actor in edge.actors}
    assert actors == {Actor.DISPATCH}


def test_a_closed_case_stays_closed() -> None:
    assert not [edge for edge in CASE_EDGES if edge.source in {"resolved", "expired"}]


def test_ingest_neither_creates_nor_drains_a_node() -> None:
    assert not [edge for edge in NODE_EDGES if edge.source is None and Actor.INGEST in edge.actors]
    assert not allowed(NODE_EDGES, "quarantined", "draining", Actor.INGEST)


def test_every_status_can_be_left_or_is_final() -> None:
    sources = {edge.source for edge in NODE_EDGES}
    assert {status.value for status in NodeStatus} <= sources
    assert {status.value for status in CaseStatus if status.live} <= {edge.source for edge in CASE_EDGES}


def test_a_case_in_progress_is_never_absorbed() -> None:
    assert not any(allowed(CASE_EDGES, "in_progress", "absorbed", actor) for actor in Actor)


def test_a_case_is_live_until_it_is_resolved_or_expired() -> None:
    assert {status for status in CaseStatus if not status.live} == {CaseStatus.RESOLVED, CaseStatus.EXPIRED}
