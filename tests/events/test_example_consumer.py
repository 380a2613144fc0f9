"""The example consumer returns complete streams despite duplicates, reordering, loss and unknown events."""

from __future__ import annotations

import json
from collections.abc import Iterable
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.consumer.handler import handler
from examples.consumer.stream import BrokenStreamError, Reader
from faultbridge.decide.entry_builder import note, status_change
from faultbridge.model.entries import Draft, Stream, seal
from faultbridge.model.enums import Actor, EntryType, NodeStatus, NoteKind
from faultbridge.model.events import UntypedEvent
from faultbridge.model.events.wire import detail_of, stub_of
from faultbridge.model.nodes import Head
from tests.builders import NOON, STACK_ID, fault, node
from tests.events.patterns import envelope
from tests.events.samples import FILES, label

NODE = Stream(STACK_ID, "faultbridge", "train-a", "ip-10-0-0-7")
CLUSTER = Stream(STACK_ID, "faultbridge", "train-a")


def recorded(stream: Stream, count: int, epoch: int = 1) -> list[str]:
    """Return the details of a published stream of some drafts."""
    kinds = (
        note(kind=NoteKind.INFORMATION, text="seen", at=NOON, fault=fault()),
        status_change(node(), NodeStatus.DEGRADED, NOON, "xid.79"),
        note(kind=NoteKind.OPERATOR, text="keep it", at=NOON),
    )
    if stream.node is None:
        kinds = (kinds[0], kinds[2], kinds[0])
    drafts: Iterable[Draft] = [kinds[number % 3] for number in range(count)]
    sealed, _ = seal(stream, Head(epoch=epoch), drafts, actor=Actor.INGEST, severity=None, recorded_at=NOON)
    return [detail_of(entry.body, entry.evidence) for entry in sealed]


class Timeline:
    """A fake of the timeline's response to `after=N`."""

    def __init__(self, *streams: list[str]) -> None:
        self.streams = streams
        self.requests: list[tuple[str, int, int]] = []

    def __call__(self, name: str, epoch: int, after: int) -> list[str]:
        self.requests.append((name, epoch, after))
        heads = ((json.loads(detail)["metadata"], detail) for stream in self.streams for detail in stream)
        return [d for m, d in heads if (m["stream"], m["epoch"]) == (name, epoch) and m["sequence"] > after]


@given(seed=st.integers(), count=st.integers(1, 12), lost=st.sets(st.integers(0, 23)), twice=st.integers(1, 3))
def test_every_event_is_returned_once_and_in_order_for_any_delivery(
    seed: int, count: int, lost: set[int], twice: int
) -> None:
    streams = (recorded(NODE, count), recorded(CLUSTER, count), recorded(NODE, count, epoch=2))
    published = [detail for stream in streams for detail in stream]
    delivered = [detail for number, detail in enumerate(published) if number not in lost] * twice
    Random(seed).shuffle(delivered)
    reader = Reader(Timeline(*streams))
    out = [event for detail in delivered for event in reader.take(detail)] + reader.complete()
    places = {(event.metadata.stream, event.metadata.epoch) for event in out}
    for place in places:
        inside = [event for event in out if (event.metadata.stream, event.metadata.epoch) == place]
        assert [event.metadata.sequence for event in inside] == list(range(1, count + 1))
    assert reader.missing() == {}
    assert {
        (json.loads(one)["metadata"]["stream"], json.loads(one)["metadata"]["epoch"]) for one in delivered
    } == places


def test_a_gap_is_reported_before_the_timeline_is_read() -> None:
    stream = recorded(NODE, 4)
    timeline = Timeline(stream)
    reader = Reader(timeline)
    assert [event.metadata.sequence for event in reader.take(stream[0])] == [1]
    assert reader.take(stream[3]) == []
    assert reader.missing() == {(NODE.name, 1): range(2, 4)}
    assert [event.metadata.sequence for event in reader.complete()] == [2, 3, 4]
    assert timeline.requests == [(NODE.name, 1, 1)]


def test_a_missing_newest_event_is_found_in_the_timeline() -> None:
    stream = recorded(NODE, 3)
    reader = Reader(Timeline(stream))
    reader.take(stream[0])
    reader.take(stream[1])
    assert reader.missing() == {}
    assert [event.metadata.sequence for event in reader.complete()] == [3]


def as_unknown_type(detail: str) -> str:
    """Return the same entry with an unknown event type."""
    event = json.loads(detail)
    event["metadata"]["event_type"] = "Node Firmware Change"
    event["data"] = {"version": {"from": 1, "to": 2}}
    return json.dumps(event)


@pytest.mark.parametrize("change", [as_unknown_type, stub_of])
def test_an_unreadable_event_keeps_its_position(change: Any) -> None:
    first, second, third = recorded(NODE, 3)
    reader = Reader(Timeline())
    out = [event for detail in (third, change(second), first) for event in reader.take(detail)]
    assert [event.metadata.sequence for event in out] == [1, 2, 3]
    assert isinstance(out[1], UntypedEvent)


def test_two_events_with_one_sequence_are_refused() -> None:
    other = Stream("another-stack", "faultbridge", "train-a", "ip-10-0-0-7")
    reader = Reader(Timeline())
    reader.take(recorded(NODE, 3)[2])
    with pytest.raises(BrokenStreamError, match=r"two events with one sequence in .*: 3"):
        reader.take(recorded(other, 3)[2])


def test_an_event_with_a_wrong_predecessor_is_refused() -> None:
    other = Stream("another-stack", "faultbridge", "train-a", "ip-10-0-0-7")
    reader = Reader(Timeline())
    reader.take(recorded(NODE, 1)[0])
    with pytest.raises(BrokenStreamError, match=r"wrong predecessor of .* 2:"):
        reader.take(recorded(other, 2)[1])


def test_the_function_returns_a_text_for_closed_cases_only() -> None:
    texts = {label(path): handler(envelope(path), None) for path in FILES}
    assert {name: text for name, text in texts.items() if text} == {
        "case-status-change-closed": "llm-train-1/gpu-0042: xid.79 replaced after 47 min",
        "case-status-change-largest": "llm-train-1/gpu-0042: xid.74 repaired after 47 min",
    }


def test_the_test_streams_contain_notes_and_status_changes() -> None:
    kinds = {json.loads(detail)["metadata"]["event_type"] for detail in recorded(NODE, 3)}
    assert kinds == {EntryType.NOTE.value, EntryType.NODE_STATUS.value}
