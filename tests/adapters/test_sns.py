"""Pages through SNS topics."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.stub import ANY
from hypothesis import given
from hypothesis import strategies as st

from faultbridge.adapters.paging import SnsPager, subject_line
from faultbridge.record.ports import PageMessage, PageUrgency
from tests.adapters.stubs import stubbed


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
