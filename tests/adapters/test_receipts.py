"""Delivery receipts on CloudWatch Logs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultbridge.adapters.aws.receipts import EVENTS_AT_ONCE, LogReceipts, read_receipt, receipt_line
from faultbridge.model.errors import Misconfigured
from tests.adapters.stubs import stubbed
from tests.contracts.aws import aws

NOW = datetime.now(UTC)
MILLISECONDS = int(NOW.timestamp() * 1000)


@given(st.dictionaries(st.text().filter(lambda name: name != "receipt"), st.integers() | st.text(), max_size=4))
def test_a_receipt_is_one_line_and_is_read_back(line: dict[str, Any]) -> None:
    written = receipt_line(line)
    assert "\n" not in written
    assert read_receipt(written) == line


@pytest.mark.parametrize("message", ["", "START RequestId: 1", "{", "[1]", "{}", '{"receipt": 2}', '{"level": "INFO"}'])
def test_other_log_lines_are_not_receipts(message: str) -> None:
    assert read_receipt(message) is None


def test_receipts_of_senders_and_ingest_are_read_and_other_lines_are_skipped() -> None:
    with aws() as clients:
        group = "/aws/lambda/ingest"
        clients.logs.create_log_group(logGroupName=group)
        clients.logs.create_log_stream(logGroupName=group, logStreamName="s")
        texts = ["START RequestId: 1", receipt_line({"from": "ingest"}), "END RequestId: 1"]
        events: Any = [{"timestamp": MILLISECONDS, "message": text} for text in texts]
        clients.logs.put_log_events(logGroupName=group, logStreamName="s", logEvents=events)
        receipts = LogReceipts(clients, group="/faultbridge/x/senders", also_read=[group], now=lambda: NOW)
        receipts.write({"from": "sender"})
        assert list(receipts.read(NOW - timedelta(seconds=1))) == [{"from": "sender"}, {"from": "ingest"}]


def test_a_line_rejected_for_its_time_is_misconfigured() -> None:
    with stubbed("logs") as (clients, stub):
        stub.add_client_error("create_log_group", "ResourceAlreadyExistsException")
        stub.add_response("create_log_stream", {})
        stub.add_response("put_log_events", {"rejectedLogEventsInfo": {"tooNewLogEventStartIndex": 0}})
        with pytest.raises(Misconfigured, match="clock"):
            LogReceipts(clients, group="g").write({})


def event(number: int, milliseconds: int) -> dict[str, Any]:
    message = receipt_line({"n": number})
    return {"eventId": str(number), "timestamp": milliseconds, "message": message, "logStreamName": "s"}


def test_counter_sample_continues_after_an_empty_page_with_a_token() -> None:
    with stubbed("logs") as (clients, stub):
        stub.add_response("filter_log_events", {"events": [], "nextToken": "a"})
        stub.add_response("filter_log_events", {"events": [event(1, 5)], "nextToken": "b"})
        stub.add_response("filter_log_events", {"events": [event(2, 6)]})
        assert list(LogReceipts(clients, group="g").read(NOW)) == [{"n": 1}, {"n": 2}]


def test_counter_sample_continues_by_time_after_a_full_page_without_a_token() -> None:
    full = [event(number, MILLISECONDS + number // 2) for number in range(EVENTS_AT_ONCE)]
    with stubbed("logs") as (clients, stub):
        stub.add_response("filter_log_events", {"events": full})
        stub.add_response("filter_log_events", {"events": [*full[-2:], event(EVENTS_AT_ONCE, MILLISECONDS + 9999)]})
        read = [line["n"] for line in LogReceipts(clients, group="g").read(NOW)]
    assert read == list(range(EVENTS_AT_ONCE + 1))
