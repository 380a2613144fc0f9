"""The bus on EventBridge: limits and partial failures that emulators do not show."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError
from moto import mock_aws

from faultbridge.adapters.clients import Clients
from faultbridge.adapters.eventbridge import CALL_BYTES, EVENT_BYTES, EventBridgeBus
from faultbridge.errors import Misconfigured
from faultbridge.ports import BusEvent
from tests.adapters.stubs import ENVIRONMENT, answering, failing, stubbed

EVENTS = [BusEvent(f"e-{number}", "Node Status Change", '{"a": 1}') for number in range(3)]


def detail(size: int) -> str:
    return json.dumps({"x": "y" * (size - len('{"x": ""}'))})


def test_a_source_that_aws_keeps_for_itself_needs_a_person() -> None:
    with pytest.raises(Misconfigured, match=r"aws\.ec2"):
        EventBridgeBus(Clients(), "bus", "aws.ec2")


def test_an_event_is_sent_whole() -> None:
    with stubbed("events") as (clients, stub):
        entry = {
            "EventBusName": "bus", "Source": "faultbridge", "DetailType": "Node Status Change",
            "Detail": '{"a": 1}', "Resources": ["arn:1"],
        }  # fmt: skip
        stub.add_response("put_events", {"FailedEntryCount": 0, "Entries": [{"EventId": "1"}]}, {"Entries": [entry]})
        bus = EventBridgeBus(clients, "bus", "faultbridge")
        assert bus.put([BusEvent("e-1", "Node Status Change", '{"a": 1}', ("arn:1",))]) == ()


def test_an_events_size_is_counted_in_bytes_as_the_service_counts() -> None:
    bus = EventBridgeBus(Clients(), "bus", "faultbridge")
    assert bus.size_of(BusEvent("e", "Type", '{"ä": 1}', ("arn:1", "arn:2"))) == 11 + 4 + 9 + 10


def test_calls_stay_within_ten_entries_and_the_size_of_a_call() -> None:
    requests: list[Any] = []
    body = json.dumps({"FailedEntryCount": 0, "Entries": [{"EventId": "1"}] * 3}).encode()
    size = EVENT_BYTES - 100
    large = [BusEvent(f"e-{number}", "T", detail(size)) for number in range(6)]
    with answering("events", 200, body, requests) as clients:
        EventBridgeBus(clients, "bus", "faultbridge").put(large)
    sent = [len(json.loads(request.body)["Entries"]) for request in requests]
    assert sent == [3, 3]
    assert max(sent) * size < CALL_BYTES


class TestPartialFailures:
    def put(self, *codes: str | None) -> list[tuple[str, bool]]:
        results: list[Any] = [
            {"EventId": "1"} if code is None else {"ErrorCode": code, "ErrorMessage": "words"} for code in codes
        ]
        with stubbed("events") as (clients, stub):
            stub.add_response("put_events", {"FailedEntryCount": 1, "Entries": results})
            refusals = EventBridgeBus(clients, "bus", "faultbridge").put(EVENTS[: len(codes)])
        return [(refusal.event_id, refusal.permanent) for refusal in refusals]

    def test_only_what_was_refused_is_in_the_answer(self) -> None:
        assert self.put(None, "InternalFailure", None) == [("e-1", False)]

    @pytest.mark.parametrize("code", ["MalformedDetail", "InvalidArgument"])
    def test_content_is_refused_for_good(self, code: str) -> None:
        assert self.put(code) == [("e-0", True)]

    @pytest.mark.parametrize("code", ["ThrottlingException", "InternalFailure", "InternalException", "SomethingNew"])
    def test_everything_else_may_be_tried_again(self, code: str) -> None:
        assert self.put(code) == [("e-0", False)]

    @pytest.mark.parametrize("code", ["AccessDeniedException", "NotAuthorizedForSourceException"])
    def test_a_bus_that_refuses_us_needs_a_person(self, code: str) -> None:
        with pytest.raises(Misconfigured, match=code):
            self.put(code)


def test_an_unreachable_bus_refuses_everything_for_now() -> None:
    with failing("events", EndpointConnectionError(endpoint_url="http://127.0.0.1:1")) as clients:
        refusals = EventBridgeBus(clients, "bus", "faultbridge").put(EVENTS)
    assert [(refusal.event_id, refusal.permanent) for refusal in refusals] == [(e.event_id, False) for e in EVENTS]


def test_a_refused_call_needs_a_person() -> None:
    with stubbed("events") as (clients, stub):
        stub.add_client_error("put_events", "AccessDeniedException", http_status_code=400)
        with pytest.raises(Misconfigured):
            EventBridgeBus(clients, "bus", "faultbridge").put(EVENTS)


@mock_aws
def test_what_was_put_reaches_a_rules_target(monkeypatch: pytest.MonkeyPatch) -> None:
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
