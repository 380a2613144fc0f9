"""The RecordQueue port: the same tests for the fake and SQS."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.aws.messaging import SqsQueue
from faultbridge.model.storage.wire.decode_message import split_records
from faultbridge.model.storage.wire.message import MAX_MESSAGE_BYTES, join_records
from faultbridge.record.ports.messaging import ReceivedMessage, RecordQueue, RecordQueueDepth
from tests.contracts.aws import fresh
from tests.sim.fakes import FakeQueue


@pytest.fixture(params=["fake", "sqs"])
def queue(request: pytest.FixtureRequest, clients: Clients) -> RecordQueue:
    if request.param == "fake":
        return FakeQueue(visibility=timedelta(minutes=5))
    dead = clients.sqs.create_queue(QueueName=fresh("dead"))["QueueUrl"]
    url = clients.sqs.create_queue(QueueName=fresh("queue"), Attributes={"VisibilityTimeout": "300"})["QueueUrl"]
    return SqsQueue(clients, url, dead)


def drain(queue: RecordQueue) -> list[ReceivedMessage]:
    found: list[ReceivedMessage] = []
    while batch := queue.receive():
        found += batch
    return found


class TestQueue:
    def test_a_sent_message_is_received_with_its_group_and_time(self, queue: RecordQueue) -> None:
        assert queue.send([("cluster/node-1", "one"), ("cluster/node-2", "zwei ä")]) == ()
        found = drain(queue)
        assert sorted((each.group, each.body) for each in found) == [
            ("cluster/node-1", "one"),
            ("cluster/node-2", "zwei ä"),
        ]
        assert all(each.receive_count == 1 and each.sent_at.tzinfo is not None for each in found)

    def test_more_messages_than_one_call_accepts_are_sent(self, queue: RecordQueue) -> None:
        bodies = [f"body {number}" for number in range(23)]
        assert queue.send([("g", body) for body in bodies]) == ()
        assert sorted(each.body for each in drain(queue)) == sorted(bodies)

    def test_large_bodies_are_sent_separately_and_too_large_ones_are_returned(self, queue: RecordQueue) -> None:
        large, too_large = "x" * 200_000, "y" * (256 * 1024 + 1)
        assert queue.send([("g", large), ("g", too_large), ("g", large), ("g", "small")]) == (too_large,)
        assert len(drain(queue)) == 3

    def test_a_shared_message_of_the_maximum_size_arrives_unchanged(self, queue: RecordQueue) -> None:
        records = [json.dumps({"v": 1, "body": "x" * (MAX_MESSAGE_BYTES // 10 - 50)}) for _ in range(10)]
        text = join_records(records)
        assert queue.send([("cluster/node-1", text)]) == ()
        assert [split_records(each.body) for each in drain(queue)] == [
            tuple(json.dumps(json.loads(one), separators=(",", ":")) for one in records)
        ]

    def test_a_received_message_is_hidden_until_it_is_deleted(self, queue: RecordQueue) -> None:
        queue.send([("g", "one"), ("g", "two")])
        first, second = drain(queue)
        assert queue.depth() == RecordQueueDepth(waiting=0, in_flight=2, dead=0)
        queue.delete(first)
        assert queue.depth() == RecordQueueDepth(waiting=0, in_flight=1, dead=0)
        queue.delete(second)
        assert queue.depth() == RecordQueueDepth(waiting=0, in_flight=0, dead=0)

    def test_an_empty_queue_returns_no_messages(self, queue: RecordQueue) -> None:
        assert queue.receive() == ()
        assert queue.depth() == RecordQueueDepth(0, 0, 0)

    def test_a_released_message_is_delivered_again_after_its_pause(self, queue: RecordQueue) -> None:
        queue.send([("g", str(number)) for number in range(12)])
        received = drain(queue)
        queue.release({each.handle: 0 for each in received[:11]} | {received[11].handle: 300})
        again = drain(queue)
        assert sorted(each.body for each in again) == sorted(each.body for each in received[:11])
        assert {each.receive_count for each in again} == {2}

    def test_a_handle_of_an_earlier_delivery_releases_nothing(self, queue: RecordQueue) -> None:
        queue.send([("g", "one")])
        (first,) = drain(queue)
        queue.release({first.handle: 0})
        (second,) = drain(queue)
        queue.delete(second)
        queue.release({first.handle: 0})
        assert drain(queue) == []
