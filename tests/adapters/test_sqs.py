"""A queue on SQS: what was accepted is always known."""

from __future__ import annotations

from typing import Any

import pytest

from faultbridge.adapters.sqs import SqsQueue, fair_group
from faultbridge.errors import Misconfigured, Transient
from tests.adapters.stubs import stubbed

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


def test_messages_that_the_queue_refuses_come_back() -> None:
    with stubbed("sqs") as (clients, stub):
        stub.add_response("send_message_batch", accepted(10, failed=(3,)))
        stub.add_response("send_message_batch", accepted(2, failed=(0, 1)))
        assert SqsQueue(clients, URL).send(MESSAGES) == ("body 3", "body 10", "body 11")


def test_a_call_that_fails_after_others_gives_its_messages_back() -> None:
    with stubbed("sqs") as (clients, stub):
        stub.add_response("send_message_batch", accepted(10))
        stub.add_client_error("send_message_batch", "RequestThrottled", http_status_code=400)
        assert SqsQueue(clients, URL).send(MESSAGES) == ("body 10", "body 11")


def test_a_first_call_that_fails_is_raised() -> None:
    with stubbed("sqs") as (clients, stub):
        stub.add_client_error("send_message_batch", "ServiceUnavailable", http_status_code=503)
        with pytest.raises(Transient):
            SqsQueue(clients, URL).send(MESSAGES)


def test_a_queue_that_does_not_exist_needs_a_person() -> None:
    with stubbed("sqs") as (clients, stub):
        stub.add_client_error("send_message_batch", "AWS.SimpleQueueService.NonExistentQueue", http_status_code=400)
        with pytest.raises(Misconfigured):
            SqsQueue(clients, URL).send(MESSAGES)


@pytest.mark.parametrize("group", ["cluster/node-1", "a.b:c@d", "x" * 128])
def test_a_group_that_the_queue_takes_is_left_alone(group: str) -> None:
    assert fair_group(group) == group


@pytest.mark.parametrize("group", ["", "a b", "knoten-ü", "x" * 129])
def test_any_other_group_becomes_its_hash(group: str) -> None:
    assert len(fair_group(group)) == 64
    assert fair_group(group) == fair_group(group)
