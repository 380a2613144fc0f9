"""The bus on EventBridge: limits and partial failures that emulators do not have."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError
from moto import mock_aws

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.aws.messaging import EVENT_BYTES, EVENTS_CALL_BYTES, EventBridgeBus
from faultbridge.model.errors import Misconfigured
from faultbridge.record.ports import BusEvent
from tests.adapters.stubs import ENVIRONMENT, answering, failing, stubbed

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
    size = EVENT_BYTES - 100
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
