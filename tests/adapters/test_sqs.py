"""SQS, SNS and EventBridge: messages, pages and events, and the errors of each answer."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError
from botocore.stub import ANY
from hypothesis import given
from hypothesis import strategies as st
from moto import mock_aws

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.aws.messaging import (
    EVENTS_CALL_BYTES,
    EventBridgeBus,
    SqsQueue,
    fair_group,
    queue_age,
)
from faultbridge.adapters.paging import SnsPager, subject_line
from faultbridge.model.errors import Misconfigured, Transient
from faultbridge.record.ports.messaging import BusEvent, PageMessage, PageUrgency
from tests.adapters.stubs import ENVIRONMENT, answering, failing, stubbed
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


def page(**changes: Any) -> PageMessage:
    fields: dict[str, Any] = {
        "key": "k", "urgency": PageUrgency.URGENT, "subject": "subject",
        "bodies": {"default": "text", "email": "mail"}, "attributes": {"cluster": "c", "empty": ""},
    }  # fmt: skip
    return PageMessage(**(fields | changes))


@pytest.mark.parametrize(("urgency", "topic"), [(PageUrgency.URGENT, "arn:urgent"), (PageUrgency.NOTICE, "arn:notice")])
def test_a_page_goes_to_the_topic_of_its_urgency_with_a_body_per_protocol(urgency: PageUrgency, topic: str) -> None:
    with stubbed("sns") as (clients, stub):
        expected = {
            "TopicArn": topic,
            "Subject": "subject",
            "Message": json.dumps({"default": "text", "email": "mail"}),
            "MessageStructure": "json",
            "MessageAttributes": {"cluster": {"DataType": "String", "StringValue": "c"}},
        }
        stub.add_response("publish", {"MessageId": "m-1"}, expected)
        pager = SnsPager(clients, urgent_topic="arn:urgent", notice_topic="arn:notice")
        assert pager.send(page(urgency=urgency)) == "m-1"


def test_ten_attributes_are_allowed_and_eleven_are_an_error() -> None:
    with stubbed("sns") as (clients, stub):
        stub.add_response("publish", {"MessageId": "m"}, dict.fromkeys(
            ["TopicArn", "Subject", "Message", "MessageStructure", "MessageAttributes"], ANY
        ))  # fmt: skip
        pager = SnsPager(clients, urgent_topic="u", notice_topic="n")
        pager.send(page(attributes={str(number): "v" for number in range(10)}))
        with pytest.raises(ValueError, match="attributes"):
            pager.send(page(attributes={str(number): "v" for number in range(11)}))


@pytest.mark.parametrize(
    ("text", "subject"),
    [
        ("plain", "plain"),
        ("two\nlines\tand  gaps ", "two lines and gaps"),
        ("süß", "s??"),
        ("x" * 100, "x" * 100),
        ("x" * 101, "x" * 97 + "..."),
        ("", "(no subject)"),
        ("\x07bell", "bell"),
    ],
)
def test_any_text_becomes_a_valid_subject(text: str, subject: str) -> None:
    assert subject_line(text) == subject


@given(st.text(max_size=300))
def test_a_subject_is_always_one_line_of_printable_ascii_of_at_most_a_hundred_characters(text: str) -> None:
    subject = subject_line(text)
    assert 0 < len(subject) <= 100
    assert subject.isascii()
    assert subject.isprintable()
    assert not subject.startswith(" ")


EVENTS = [BusEvent(f"e-{number}", "Node Status Change", '{"a": 1}') for number in range(3)]


def detail(size: int) -> str:
    return json.dumps({"x": "y" * (size - len('{"x": ""}'))})


def test_a_source_reserved_by_aws_is_misconfigured() -> None:
    with pytest.raises(Misconfigured, match=r"aws\.ec2"):
        EventBridgeBus(Clients(), "bus", "aws.ec2")


def test_an_event_is_sent_with_all_its_fields() -> None:
    with stubbed("events") as (clients, stub):
        entry = {
            "EventBusName": "bus", "Source": "faultbridge", "DetailType": "Node Status Change",
            "Detail": '{"a": 1}', "Resources": ["arn:1"],
        }  # fmt: skip
        stub.add_response("put_events", {"FailedEntryCount": 0, "Entries": [{"EventId": "1"}]}, {"Entries": [entry]})
        bus = EventBridgeBus(clients, "bus", "faultbridge")
        assert bus.put([BusEvent("e-1", "Node Status Change", '{"a": 1}', ("arn:1",))]) == ()


def test_the_size_of_an_event_is_counted_as_the_service_counts_it() -> None:
    bus = EventBridgeBus(Clients(), "bus", "faultbridge")
    assert bus.size_of(BusEvent("e", "Type", '{"ä": 1}', ("arn:1", "arn:2"))) == 11 + 4 + 9 + 10


def test_calls_stay_within_ten_entries_and_the_size_of_a_call() -> None:
    requests: list[Any] = []
    body = json.dumps({"FailedEntryCount": 0, "Entries": [{"EventId": "1"}] * 3}).encode()
    size = EVENTS_CALL_BYTES // 3 - 200
    large = [BusEvent(f"e-{number}", "T", detail(size)) for number in range(6)]
    with answering("events", 200, body, requests) as clients:
        EventBridgeBus(clients, "bus", "faultbridge").put(large)
    sent = [len(json.loads(request.body)["Entries"]) for request in requests]
    assert sent == [3, 3]
    assert max(sent) * size < EVENTS_CALL_BYTES


class TestPartialFailures:
    def put(self, *codes: str | None) -> list[tuple[str, bool]]:
        results: list[Any] = [
            {"EventId": "1"} if code is None else {"ErrorCode": code, "ErrorMessage": "words"} for code in codes
        ]
        with stubbed("events") as (clients, stub):
            stub.add_response("put_events", {"FailedEntryCount": 1, "Entries": results})
            failures = EventBridgeBus(clients, "bus", "faultbridge").put(EVENTS[: len(codes)])
        return [(failure.event_id, failure.permanent) for failure in failures]

    def test_only_failed_events_are_returned(self) -> None:
        assert self.put(None, "InternalFailure", None) == [("e-1", False)]

    @pytest.mark.parametrize("code", ["MalformedDetail", "InvalidArgument"])
    def test_invalid_content_fails_permanently(self, code: str) -> None:
        assert self.put(code) == [("e-0", True)]

    @pytest.mark.parametrize("code", ["ThrottlingException", "InternalFailure", "InternalException", "SomethingNew"])
    def test_any_other_code_is_not_permanent(self, code: str) -> None:
        assert self.put(code) == [("e-0", False)]

    @pytest.mark.parametrize("code", ["AccessDeniedException", "NotAuthorizedForSourceException"])
    def test_a_bus_that_denies_access_is_misconfigured(self, code: str) -> None:
        with pytest.raises(Misconfigured, match=code):
            self.put(code)


def test_with_an_unreachable_bus_every_event_fails_temporarily() -> None:
    with failing("events", EndpointConnectionError(endpoint_url="http://127.0.0.1:1")) as clients:
        failures = EventBridgeBus(clients, "bus", "faultbridge").put(EVENTS)
    assert [(failure.event_id, failure.permanent) for failure in failures] == [(e.event_id, False) for e in EVENTS]


def test_a_denied_call_is_misconfigured() -> None:
    with stubbed("events") as (clients, stub):
        stub.add_client_error("put_events", "AccessDeniedException", http_status_code=400)
        with pytest.raises(Misconfigured):
            EventBridgeBus(clients, "bus", "faultbridge").put(EVENTS)


@mock_aws
def test_published_events_reach_the_target_of_a_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    clients = Clients()
    clients.events.create_event_bus(Name="bus")
    url = clients.sqs.create_queue(QueueName="seen")["QueueUrl"]
    clients.events.put_rule(Name="all", EventBusName="bus", EventPattern='{"source": ["faultbridge"]}')
    target: Any = {"Id": "1", "Arn": "arn:aws:sqs:us-east-1:123456789012:seen"}
    clients.events.put_targets(Rule="all", EventBusName="bus", Targets=[target])
    assert EventBridgeBus(clients, "bus", "faultbridge").put(EVENTS) == ()
    seen: list[Any] = []
    while messages := clients.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
        seen += [json.loads(message["Body"]) for message in messages]
    assert [each["detail"] for each in seen] == [{"a": 1}] * 3
    assert {each["detail-type"] for each in seen} == {"Node Status Change"}
