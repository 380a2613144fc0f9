"""Receipts on CloudWatch Logs, and as a function prints them."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultbridge.adapters.clients import Clients
from faultbridge.adapters.receipts import EVENTS_AT_ONCE, LambdaReceipts, LogReceipts, read_receipt, receipt_line
from faultbridge.errors import Misconfigured
from tests.adapters.stubs import stubbed
from tests.contracts.aws import aws

NOW = datetime.now(UTC)
MILLISECONDS = int(NOW.timestamp() * 1000)


@given(st.dictionaries(st.text().filter(lambda name: name != "receipt"), st.integers() | st.text(), max_size=4))
def test_a_receipt_is_one_line_and_comes_back(line: dict[str, Any]) -> None:
    written = receipt_line(line)
    assert "\n" not in written
    assert read_receipt(written) == line


@pytest.mark.parametrize("message", ["", "START RequestId: 1", "{", "[1]", "{}", '{"receipt": 2}', '{"level": "INFO"}'])
def test_a_functions_other_lines_are_no_receipts(message: str) -> None:
    assert read_receipt(message) is None


def test_a_function_prints_its_receipts() -> None:
    out = io.StringIO()
    LambdaReceipts(Clients(), group="/aws/lambda/ingest", out=out).write({"n": 1})
    assert out.getvalue() == '{"receipt":1,"n":1}\n'


def test_what_a_function_prints_goes_to_its_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    LambdaReceipts(Clients(), group="/aws/lambda/ingest").write({"n": 1})
    assert read_receipt(capsys.readouterr().out) == {"n": 1}


def test_senders_and_ingest_are_read_alike_and_other_lines_are_passed_over() -> None:
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


def test_a_line_that_the_service_refuses_for_its_time_needs_a_person() -> None:
    with stubbed("logs") as (clients, stub):
        stub.add_client_error("create_log_group", "ResourceAlreadyExistsException")
        stub.add_response("create_log_stream", {})
        stub.add_response("put_log_events", {"rejectedLogEventsInfo": {"tooNewLogEventStartIndex": 0}})
        with pytest.raises(Misconfigured, match="clock"):
            LogReceipts(clients, group="g").write({})


def event(number: int, milliseconds: int) -> dict[str, Any]:
    message = receipt_line({"n": number})
    return {"eventId": str(number), "timestamp": milliseconds, "message": message, "logStreamName": "s"}


def test_empty_pages_with_a_token_are_walked_on() -> None:
    with stubbed("logs") as (clients, stub):
        stub.add_response("filter_log_events", {"events": [], "nextToken": "a"})
        stub.add_response("filter_log_events", {"events": [event(1, 5)], "nextToken": "b"})
        stub.add_response("filter_log_events", {"events": [event(2, 6)]})
        assert list(LogReceipts(clients, group="g").read(NOW)) == [{"n": 1}, {"n": 2}]


def test_a_full_page_without_a_token_is_walked_on_by_time_and_nothing_is_read_twice() -> None:
    full = [event(number, MILLISECONDS + number // 2) for number in range(EVENTS_AT_ONCE)]
    with stubbed("logs") as (clients, stub):
        stub.add_response("filter_log_events", {"events": full})
        stub.add_response("filter_log_events", {"events": [*full[-2:], event(EVENTS_AT_ONCE, MILLISECONDS + 9999)]})
        read = [line["n"] for line in LogReceipts(clients, group="g").read(NOW)]
    assert read == list(range(EVENTS_AT_ONCE + 1))
