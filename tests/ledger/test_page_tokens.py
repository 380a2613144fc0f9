"""Pages of a timeline: their tokens, and the windows of its streams."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from faultbridge.model.errors import Rejected
from faultbridge.model.nodes import Head, NodeKey
from faultbridge.model.storage import keys
from faultbridge.model.storage.writes import Put
from faultbridge.model.values import replace
from faultbridge.record.queries import end_before, last_before, node_head
from faultbridge.record.timeline import MAX_CHARACTERS, TAG_BYTES, Timeline, Tokens, make_token, read_token
from tests.builders import NOON
from tests.ledger.bulk import CLUSTER, rows
from tests.sim.fakes import FakeTable, ManualClock

TOKENS = Tokens(lambda: b"secret")
LONGEST = MAX_CHARACTERS * 3 // 4 - TAG_BYTES
"""The most bytes of a position whose signed token has no more than the maximum number of characters."""


@pytest.mark.parametrize("position", ["", "a", "ab", "abc", "2026-02-03T12:00:00.000Z#n-\u00e9"])
def test_a_position_is_read_back_from_its_token(position: str) -> None:
    assert read_token(make_token(position)) == position
    assert TOKENS.read("scope", TOKENS.sign("scope", position)) == position


@pytest.mark.parametrize(("scope", "secret"), [("other", b"secret"), ("scope", b"another secret")])
def test_a_token_of_another_request_or_installation_is_refused(scope: str, secret: bytes) -> None:
    token = TOKENS.sign("scope", "position")
    with pytest.raises(Rejected, match="bad_token"):
        Tokens(lambda: secret).read(scope, token)


def test_a_token_that_was_signed_before_stays_valid() -> None:
    assert TOKENS.read("scope", "XItceGG0WxyWuWMGN1zn8HBvc2l0aW9u") == "position"


def test_the_end_of_a_scope_is_not_taken_for_the_start_of_a_position() -> None:
    assert TOKENS.sign("ab", "c")[:TAG_BYTES] != TOKENS.sign("a", "bc")[:TAG_BYTES]


@pytest.mark.parametrize("token", ["", "***", "a", "AAAA", make_token("unsigned position")])
def test_a_text_that_was_never_signed_is_refused(token: str) -> None:
    with pytest.raises(Rejected, match="bad_token"):
        TOKENS.read("scope", token)


def test_a_signed_token_has_a_maximum_length() -> None:
    longest = TOKENS.sign("scope", "x" * LONGEST)
    assert len(longest) == MAX_CHARACTERS
    assert TOKENS.read("scope", longest) == "x" * LONGEST
    with pytest.raises(Rejected, match="bad_token"):
        TOKENS.read("scope", TOKENS.sign("scope", "x" * (LONGEST + 1)))


NODE = "n-0000"
PARTITION = keys.node_partition(NodeKey(CLUSTER, NODE))


def timeline_of(entries: int) -> tuple[Timeline, Head]:
    """Return a timeline of one node with one entry a minute from noon on, and the head of its stream."""
    table = FakeTable(ManualClock(NOON))
    for row in rows(entries, 1, 1):
        table.write(Put(row))
    return Timeline(table), node_head(table, NodeKey(CLUSTER, NODE))


TIMELINE, HEAD = timeline_of(60)


@given(st.integers(-5, 65), st.integers(-5, 65), st.integers(1, 70))
@example(-5, -5, 1)
def test_a_window_holds_the_newest_entries_of_its_span_and_states_whether_there_are_older_ones(
    since: int, until: int, limit: int
) -> None:
    span = NOON + timedelta(minutes=since), NOON + timedelta(minutes=until)
    lines, older = TIMELINE.window(CLUSTER, NODE, HEAD, span, limit)
    expected = [number + 1 for number in range(60) if since <= number < until]
    assert [line.event.metadata.sequence for line in lines] == expected[-limit:]
    assert older is (len(expected) > limit)


@pytest.mark.parametrize("span", [(None, None), (NOON - timedelta(days=1), None)])
def test_a_window_without_limits_ends_with_the_last_entry(span: tuple[datetime | None, datetime | None]) -> None:
    lines, older = TIMELINE.window(CLUSTER, NODE, HEAD, span, 10)
    assert [line.event.metadata.sequence for line in lines] == list(range(51, 61))
    assert older


def test_the_last_entry_before_any_time_is_found() -> None:
    found = [last_before(TIMELINE.table, PARTITION, HEAD, NOON + timedelta(minutes=minute)) for minute in range(63)]
    sequences = [*range(1, 61), 60, 60]
    assert found == [None, *(keys.entry(PARTITION, 1, sequence).sk for sequence in sequences)]


@pytest.mark.parametrize(
    ("epoch", "sequence", "minute", "end"),
    [(1, 60, 0, None), (1, 60, 1, (1, 1)), (2, 0, 0, (2, 0)), (2, 3, 0, (2, 3))],
    ids=["no earlier entry", "one earlier entry", "entries of earlier epochs", "expired entries"],
)
def test_the_end_of_a_window_is_in_an_earlier_epoch_only_if_the_current_one_begins_later(
    epoch: int, sequence: int, minute: int, end: tuple[int, int] | None
) -> None:
    head = replace(HEAD, epoch=epoch, sequence=sequence)
    found = end_before(TIMELINE.table, PARTITION, head, NOON + timedelta(minutes=minute))
    assert found == (end and keys.entry(PARTITION, *end).sk)
