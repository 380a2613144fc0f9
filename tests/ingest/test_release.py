"""A message that is given back is delivered again within seconds, not after the visibility timeout."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from faultbridge.model.errors import Transient
from faultbridge.serve.entrypoints.ingest import MAX_SECONDS, RawMessage, ingest, pause_after, release
from faultbridge.serve.entrypoints.lambda_events import read
from tests.sim.fakes import FakeQueue
from tests.sim.fakes.seam import raise_once
from tests.world import XID_79, World


def batch(world: World) -> dict[str, Any]:
    """The event that Lambda makes of the messages in the queue."""
    return {
        "Records": [
            {
                "messageId": str(number),
                "receiptHandle": message.handle,
                "body": message.body,
                "attributes": {
                    "SentTimestamp": str(int(message.sent_at.timestamp() * 1000)),
                    "ApproximateReceiveCount": str(message.receive_count),
                    "SenderId": "x",
                },
            }
            for number, message in enumerate(world.ports.queue.receive())
        ]
    }


def test_a_message_that_the_table_could_not_take_is_delivered_again_after_five_seconds() -> None:
    world = World()
    world.ports.queue.send([("g", world.message(XID_79).text)])
    world.ports.seam.before = raise_once(("table.transact", Transient("the table is down")))
    assert ingest(batch(world), world.app)["batchItemFailures"] == [{"itemIdentifier": "0"}]
    assert world.ports.queue.receive() == ()
    world.ports.clock.advance(timedelta(seconds=5))
    assert len(world.ports.queue.receive()) == 1


def test_the_pause_doubles_and_is_never_longer_than_five_minutes() -> None:
    pauses = [pause_after(receives) for receives in range(1, 1001)]
    assert pauses[:4] == [5, 10, 20, 40]
    assert max(pauses) == pauses[-1] == MAX_SECONDS


def test_a_failed_release_is_logged_and_leaves_the_batch_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    class Down(FakeQueue):
        def release(self, pauses: object) -> None:
            raise Transient("SQS is down")

    message = {"messageId": "m", "receiptHandle": "h", "body": "", "attributes": {"SentTimestamp": "0"}}
    release(Down(), [read(message, RawMessage)], {"m"})
    assert "release_failed" in caplog.text
