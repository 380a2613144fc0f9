"""The canary: sent in every fifth minute, noted once, heard on the bus; and what is known while it is away."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from faultbridge.domain.records import Outcome
from faultbridge.entrypoints.sweep import sweep
from faultbridge.errors import Transient
from faultbridge.ingest.canary import CLUSTER, MIN_APART
from faultbridge.ingest.record_reader import Delivery
from faultbridge.ledger.timeline import Timeline, TimelineQuery
from faultbridge.ledger.verify import Verify
from faultbridge.ops.backlog import Waiting
from faultbridge.storage import keys
from faultbridge.storage.items import item
from faultbridge.storage.writes import Put
from tests.builders import NOON
from tests.world import World


@pytest.fixture
def world() -> World:
    """An installation at noon, a fifth minute."""
    return World()


def deliveries(world: World) -> list[Delivery]:
    """What lies on the queue, as ingest is handed it."""
    return [
        Delivery(f"m-{number}", message.body, world.now) for number, message in enumerate(world.ports.queue.messages)
    ]


def notes(world: World) -> list[Any]:
    """The notes on the canary's own stream, as the bus carries them."""
    lines = Timeline(world.ports.table).entries(TimelineQuery(cluster=CLUSTER))
    return [line.event for line in lines if line.event["metadata"]["event_type"] == "Node Note Recorded"]


def waiting(world: World, what: str) -> Waiting:
    """What is known of one kind of thing that waits."""
    (found,) = (one for one in world.app.ops.backlog() if one.what == what)
    return found


def test_a_canary_is_sent_in_every_fifth_minute_only(world: World) -> None:
    sent = []
    for _ in range(10):
        sent.append(world.app.ingestion.send_canary())
        world.ports.clock.advance(timedelta(minutes=1))
    assert [bool(one) for one in sent] == [True, False, False, False, False] * 2


def test_a_canary_ends_as_one_note_however_often_its_record_comes(world: World) -> None:
    record = world.app.ingestion.send_canary()
    first, again = world.app.ingestion.ingest(deliveries(world)), world.app.ingestion.ingest(deliveries(world))
    assert (first.outcomes, again.outcomes) == ({record: Outcome.RECORDED}, {record: Outcome.DUPLICATE})
    assert [note["data"]["kind"] for note in notes(world)] == ["canary"]
    assert Verify(world.ports.table, world.app.stack).cluster_stream(CLUSTER).whole


def test_a_flood_of_canaries_leaves_no_flood_of_notes(world: World) -> None:
    world.app.ingestion.send_canary()
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
    told = world.app.ingestion.ingest([one, *others])
    assert sorted(set(told.outcomes.values())) == ["recorded", "stale"]
    assert len(notes(world)) == 1


def test_a_canary_two_minutes_after_the_last_one_is_noted(world: World) -> None:
    world.app.ingestion.send_canary()
    (one,) = deliveries(world)
    world.app.ingestion.ingest([one])
    world.ports.clock.advance(MIN_APART)
    later = one.text.replace("canary-2", "canary-later-2").replace("12:00:00", "12:02:00")
    assert set(world.app.ingestion.ingest([replace(one, text=later, received_at=world.now)]).outcomes.values()) == {
        "recorded"
    }
    assert len(notes(world)) == 2


def test_a_canary_that_is_heard_on_the_bus_tells_how_long_it_was_on_its_way(world: World) -> None:
    sweep({}, world.app)
    world.app.ingestion.ingest(deliveries(world))
    (note,) = notes(world)
    world.ports.clock.advance(7)
    event = {"detail-type": "Node Note Recorded", "detail": note}
    assert sweep(event, world.app) == {"canary_seconds": 7}
    assert waiting(world, "canary") == Waiting("canary", 0, NOON, stuck=False)


def test_a_queue_that_takes_nothing_fails_one_part_of_the_round(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_messages: object) -> tuple[str, ...]:
        raise Transient("the queue is down")

    monkeypatch.setattr(world.ports.queue, "send", refuse)
    told = sweep({}, world.app)
    assert told["failures"] == ["sending the canary: Transient: the queue is down"]


def test_a_canary_that_stays_away_is_stuck_and_it_is_said_where(world: World) -> None:
    assert waiting(world, "canary") == Waiting("canary", 0, None, stuck=True, note="does not reach the table")
    world.app.ingestion.send_canary()
    world.app.ingestion.ingest(deliveries(world))
    assert waiting(world, "canary").note == "reached the table, not the bus"
    (note,) = notes(world)
    world.app.ingestion.receive_canary(note)
    world.ports.clock.advance(timedelta(minutes=15))
    assert not waiting(world, "canary").stuck
    world.ports.clock.advance(1)
    assert waiting(world, "canary") == Waiting("canary", 0, NOON, stuck=True, note="does not reach the table")


def test_a_sweep_says_when_it_ended_and_is_missed_after_five_minutes(world: World) -> None:
    assert waiting(world, "sweep").stuck
    sweep({}, world.app)
    assert waiting(world, "sweep") == Waiting("sweep", 0, NOON, stuck=False)
    world.ports.clock.advance(timedelta(minutes=5, seconds=1))
    assert waiting(world, "sweep").stuck


def test_what_waits_is_counted_with_the_time_of_the_oldest(world: World) -> None:
    now = world.now
    for number in range(3):
        due = {"gsi4pk": keys.due(str(number)), "gsi4sk": f"2026-02-03T11:5{number}:00.000Z"}
        world.ports.table.write(Put(item(keys.reject(CLUSTER, now, str(number)), now, due)))
        place = keys.reject("-", now - timedelta(hours=number), str(number))
        world.ports.table.write(Put(item(place, now, {})))
    timers, rejects = waiting(world, "timers"), waiting(world, "rejects")
    assert timers == Waiting("timers", 3, NOON - timedelta(minutes=10), stuck=True)
    assert rejects == Waiting("rejects", 3, NOON - timedelta(hours=2), stuck=False)
    assert waiting(world, "unpublished") == Waiting("unpublished", 1, NOON, stuck=False)  # the node's registration


def test_a_canary_that_the_queue_does_not_take_is_not_called_sent(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(world.ports.queue, "send", lambda messages: tuple(body for _, body in messages))
    with pytest.raises(Transient, match="did not take canary-20260203T1200"):
        world.app.ingestion.send_canary()
