"""Canary: sent every five minutes, recorded once, received from the bus; the backlog reports a missing one."""

from __future__ import annotations

import json
import logging
from datetime import timedelta
from typing import Any

import pytest

from faultbridge.model.errors import Transient
from faultbridge.model.recorded import read_event
from faultbridge.model.records import Outcome
from faultbridge.model.storage import keys
from faultbridge.model.storage.items import item
from faultbridge.model.storage.writes import Put, Work
from faultbridge.model.values import replace
from faultbridge.record.timeline import Timeline, TimelineQuery
from faultbridge.record.verify import Verify
from faultbridge.serve.entrypoints.ingest import wire_ingest
from faultbridge.serve.entrypoints.sweep import sweep, wire_receive_canary, wire_send_canary
from faultbridge.serve.ingest.canary import CLUSTER, MIN_INTERVAL
from faultbridge.serve.ingest.record_reader import Delivery
from faultbridge.serve.ops.backlog import BacklogItem
from faultbridge.serve.wiring.services import wire_backlog
from tests.builders import NOON
from tests.races import run_before_write, writes_to
from tests.world import World


@pytest.fixture
def world() -> World:
    """Return an installation at noon, when a canary is due."""
    return World()


def deliveries(world: World) -> list[Delivery]:
    """Return the messages on the queue as deliveries."""
    return [
        Delivery(f"m-{number}", message.body, world.now) for number, message in enumerate(world.ports.queue.messages)
    ]


def notes(world: World) -> list[Any]:
    """Return the canary notes as events of the bus."""
    lines = Timeline(world.ports.table).entries(TimelineQuery(cluster=CLUSTER))
    return [json.loads(line.body) for line in lines if line.event.metadata.event_type == "Node Note Recorded"]


def waiting(world: World, what: str) -> BacklogItem:
    """Return one row of the backlog."""
    (found,) = (one for one in wire_backlog(world.app).list() if one.what == what)
    return found


def test_a_canary_is_sent_every_five_minutes(world: World) -> None:
    sent = []
    for _ in range(10):
        sent.append(wire_send_canary(world.app).send())
        world.ports.clock.advance(timedelta(minutes=1))
    assert [bool(one) for one in sent] == [True, False, False, False, False] * 2


def test_a_canary_becomes_one_note_however_often_it_is_delivered(world: World) -> None:
    record = wire_send_canary(world.app).send()
    first, again = wire_ingest(world.app).ingest(deliveries(world)), wire_ingest(world.app).ingest(deliveries(world))
    assert (first.outcomes, again.outcomes) == ({record: Outcome.RECORDED}, {record: Outcome.DUPLICATE})
    assert [note["data"]["kind"] for note in notes(world)] == ["canary"]
    assert Verify(world.ports.table, world.app.stack).cluster_stream(CLUSTER).whole


def test_many_canaries_within_a_minute_become_one_note(world: World) -> None:
    wire_send_canary(world.app).send()
    (one,) = deliveries(world)
    others = [
        replace(
            one,
            id=f"m-{second}",
            text=one.text.replace("canary-2", f"canary-{second}-2").replace("12:00:00", f"12:00:{second}"),
            received_at=NOON + timedelta(seconds=second),
        )
        for second in range(10, 60)
    ]
    ingested = wire_ingest(world.app).ingest([one, *others])
    assert sorted(set(ingested.outcomes.values())) == ["recorded", "stale"]
    assert len(notes(world)) == 1


def test_a_canary_two_minutes_after_the_last_one_is_recorded(world: World) -> None:
    wire_send_canary(world.app).send()
    (one,) = deliveries(world)
    wire_ingest(world.app).ingest([one])
    world.ports.clock.advance(MIN_INTERVAL)
    later = one.text.replace("canary-2", "canary-later-2").replace("12:00:00", "12:02:00")
    assert set(wire_ingest(world.app).ingest([replace(one, text=later, received_at=world.now)]).outcomes.values()) == {
        "recorded"
    }
    assert len(notes(world)) == 2


def test_a_canary_from_the_bus_measures_its_travel_time(world: World) -> None:
    sweep({}, world.app)
    wire_ingest(world.app).ingest(deliveries(world))
    (note,) = notes(world)
    world.ports.clock.advance(7)
    event = {"detail-type": "Node Note Recorded", "detail": note}
    assert sweep(event, world.app).canary_seconds == 7
    assert waiting(world, "canary") == BacklogItem("canary", 0, NOON, stuck=False)


def test_a_failing_queue_is_one_failure_of_the_sweep(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_messages: object) -> tuple[str, ...]:
        raise Transient("the queue is down")

    monkeypatch.setattr(world.ports.queue, "send", refuse)
    swept = sweep({}, world.app)
    assert swept.failures == ["sending the canary: Transient: the queue is down"]


def test_a_missing_canary_is_stuck_and_the_backlog_names_the_place(world: World) -> None:
    assert waiting(world, "canary") == BacklogItem("canary", 0, None, stuck=True, note="does not reach the table")
    wire_send_canary(world.app).send()
    wire_ingest(world.app).ingest(deliveries(world))
    assert waiting(world, "canary").note == "reached the table, not the bus"
    (note,) = notes(world)
    wire_receive_canary(world.app).receive(read_event(note))
    world.ports.clock.advance(timedelta(minutes=15))
    assert not waiting(world, "canary").stuck
    world.ports.clock.advance(1)
    assert waiting(world, "canary") == BacklogItem("canary", 0, NOON, stuck=True, note="does not reach the table")


def test_a_sweep_is_reported_as_missed_five_minutes_after_its_end(world: World) -> None:
    assert waiting(world, "sweep").stuck
    sweep({}, world.app)
    assert waiting(world, "sweep") == BacklogItem("sweep", 0, NOON, stuck=False)
    world.ports.clock.advance(timedelta(minutes=5, seconds=1))
    assert waiting(world, "sweep").stuck


def test_the_backlog_counts_waiting_items_with_the_time_of_the_oldest(world: World) -> None:
    now = world.now
    for number in range(3):
        due = Work.TIMER.row("train-a", 0, str(number), f"2026-02-03T11:5{number}:00.000Z")
        world.ports.table.write(Put(item(keys.reject(CLUSTER, now, str(number)), now, due)))
        key = keys.reject("-", now - timedelta(hours=number), str(number))
        world.ports.table.write(Put(item(key, now, {})))
    timers, rejects = waiting(world, "timers"), waiting(world, "rejects")
    assert timers == BacklogItem("timers", 3, NOON - timedelta(minutes=10), stuck=True)
    assert rejects == BacklogItem("rejects", 3, NOON - timedelta(hours=2), stuck=False)
    assert waiting(world, "unpublished") == BacklogItem("unpublished", 1, NOON, stuck=False)  # the node's registration


def test_a_canary_that_the_queue_refuses_raises(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world.ports.queue, "send", lambda messages: tuple(body for _, body in messages))
    with pytest.raises(Transient, match="refused the canary: canary-20260203T1200"):
        wire_send_canary(world.app).send()


def test_a_cluster_of_canaries_that_another_sweep_added_first_is_logged(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    run_before_write(world.ports.seam, writes_to(keys.cluster_config(CLUSTER)), wire_send_canary(world.app).send)
    assert wire_send_canary(world.app).send() is not None
    (line,) = [vars(record) for record in caplog.records]
    assert (line["message"], line["reason"]) == ("canary_cluster_not_added", "cluster_exists")
