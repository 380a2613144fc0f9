"""Redrive: dead letters return to the queue unchanged, with their first arrival time."""

from __future__ import annotations

import logging
from datetime import timedelta

import pytest

from faultbridge.model.errors import Transient
from faultbridge.model.storage.wire.decode_message import decode_message
from faultbridge.model.storage.wire.message import Message, encode_message, join_records
from faultbridge.serve.ingest.send import Redrive
from tests.sim.fakes import FakeQueue, ManualClock, raise_once


def setup(*bodies: str) -> tuple[Redrive, FakeQueue, FakeQueue, ManualClock]:
    clock = ManualClock()
    dead, queue = FakeQueue(clock), FakeQueue(clock)
    dead.send([("train-a/n-1", body) for body in bodies])
    clock.advance(timedelta(hours=3))
    return Redrive(dead, queue), dead, queue, clock


def record(clock: ManualClock, number: int) -> str:
    return encode_message(Message(f"r-{number}", "kernel-log", "train-a", clock.now(), node="n-1", body=b"line"))


def test_every_dead_letter_is_moved_once() -> None:
    redrive, dead, queue, _ = setup(*(record(ManualClock(), number) for number in range(25)))
    assert redrive.redrive() == 25
    assert dead.messages == []
    assert sorted(decode_message(one.body).record_id for one in queue.messages) == sorted(f"r-{n}" for n in range(25))
    assert redrive.redrive() == 0


def test_a_record_keeps_the_time_of_its_first_arrival() -> None:
    redrive, dead, queue, _ = setup(record(ManualClock(), 1))
    first = dead.messages[0].sent_at
    redrive.redrive()
    assert decode_message(queue.messages[0].body).received_at == first
    again = Redrive(queue, dead)
    again.redrive()
    assert decode_message(dead.messages[0].body).received_at == first


def test_the_records_of_one_message_become_a_message_each_with_its_first_arrival() -> None:
    texts = [record(ManualClock(), number) for number in (1, 2)]
    redrive, dead, queue, _ = setup(join_records(texts))
    first = dead.messages[0].sent_at
    assert redrive.redrive() == 1
    found = [decode_message(one.body) for one in queue.messages]
    assert [(one.record_id, one.received_at) for one in found] == [("r-1", first), ("r-2", first)]
    assert dead.messages == []


def test_a_cloud_event_is_moved_unchanged() -> None:
    event = '{"detail-type": "EC2 Instance State-change Notification", "detail": {}}'
    _, dead, queue, _ = setup(event)
    assert Redrive(dead, queue, dated=False).redrive() == 1
    assert [one.body for one in queue.messages] == [event]
    assert dead.messages == []


def test_a_message_without_the_record_format_is_moved_unchanged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    redrive, _, queue, _ = setup("nonsense")
    assert redrive.redrive() == 1
    assert queue.messages[0].body == "nonsense"
    assert [record.message for record in caplog.records] == ["dead_letter_moved_unchanged"]


def test_a_refused_message_stays_a_dead_letter() -> None:
    redrive, dead, queue, _ = setup(record(ManualClock(), 1))
    queue.send = lambda messages: tuple(body for _, body in messages)  # type: ignore[method-assign] # refuses every message
    with pytest.raises(Transient):
        redrive.redrive()
    assert len(dead.messages) == 1


def test_a_crash_during_a_move_leaves_the_record_in_both_queues() -> None:
    redrive, dead, queue, _ = setup(record(ManualClock(), 1))
    dead.seam.before = raise_once(("queue.delete", Transient("lost")))
    with pytest.raises(Transient):
        redrive.redrive()
    assert (len(dead.messages), len(queue.messages)) == (1, 1)
