"""A queue on SQS: accepted messages, message groups, and the age of the oldest message."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from faultbridge.adapters.aws.messaging import SqsQueue, fair_group, queue_age
from faultbridge.model.errors import Misconfigured, Transient
from tests.adapters.stubs import stubbed
from tests.builders import NOON

URL = "http://127.0.0.1:1/queue"
MESSAGES = [("c/n", f"body {number}") for number in range(12)]


def accepted(count: int, failed: tuple[int, ...] = ()) -> dict[str, Any]:
    good = [
        {"Id": str(number), "MessageId": "m", "MD5OfMessageBody": "d"}
        for number in range(count)
        if number not in failed
    ]
    bad = [{"Id": str(number), "SenderFault": False, "Code": "InternalError"} for number in failed]
    return {"Successful": good, "Failed": bad}


def test_messages_that_the_queue_does_not_accept_are_returned() -> None:
    with stubbed("sqs") as (clients, stub):
        stub.add_response("send_message_batch", accepted(10, failed=(3,)))
        stub.add_response("send_message_batch", accepted(2, failed=(0, 1)))
        assert SqsQueue(clients, URL).send(MESSAGES) == ("body 3", "body 10", "body 11")


def test_a_later_call_that_fails_returns_its_messages() -> None:
    with stubbed("sqs") as (clients, stub):
        stub.add_response("send_message_batch", accepted(10))
        stub.add_client_error("send_message_batch", "RequestThrottled", http_status_code=400)
        assert SqsQueue(clients, URL).send(MESSAGES) == ("body 10", "body 11")


def test_a_failure_of_the_first_call_is_raised() -> None:
    with stubbed("sqs") as (clients, stub):
        stub.add_client_error("send_message_batch", "ServiceUnavailable", http_status_code=503)
        with pytest.raises(Transient):
            SqsQueue(clients, URL).send(MESSAGES)


def test_a_missing_queue_is_misconfigured() -> None:
    with stubbed("sqs") as (clients, stub):
        stub.add_client_error("send_message_batch", "AWS.SimpleQueueService.NonExistentQueue", http_status_code=400)
        with pytest.raises(Misconfigured):
            SqsQueue(clients, URL).send(MESSAGES)


@pytest.mark.parametrize("group", ["cluster/node-1", "a.b:c@d", "x" * 128])
def test_a_valid_message_group_is_unchanged(group: str) -> None:
    assert fair_group(group) == group


@pytest.mark.parametrize("group", ["", "a b", "knoten-ü", "x" * 129])
def test_an_invalid_message_group_becomes_its_hash(group: str) -> None:
    assert len(fair_group(group)) == 64
    assert fair_group(group) == fair_group(group)


@pytest.mark.parametrize(
    ("points", "age"),
    [
        ([], None),
        ([(-1, 30.0), (-3, 500.0), (-2, 90.0)], timedelta(seconds=30)),
    ],
)
def test_the_queue_age_is_the_newest_value(points: list[tuple[int, float]], age: timedelta | None) -> None:
    datapoints: list[Any] = [{"Timestamp": NOON + timedelta(minutes=at), "Maximum": value} for at, value in points]
    with stubbed("cloudwatch") as (clients, stub):
        stub.add_response("get_metric_statistics", {"Label": "age", "Datapoints": datapoints})
        assert queue_age(clients, "raw-records", NOON) == age
