"""Pages through SNS topics."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from faultbridge.adapters.aws_errors import translated
from faultbridge.adapters.clients import Clients
from faultbridge.ports import PageMessage, PageUrgency

SUBJECT_CHARACTERS = 100
# A subscription with raw delivery to SQS loses a message that has more.
ATTRIBUTES = 10


class SnsPager:
    """A Pager with a topic for each urgency, so that only one of them needs to wake anybody."""

    def __init__(self, clients: Clients, *, urgent_topic: str, notice_topic: str) -> None:
        self._clients = clients
        self._topics = {PageUrgency.URGENT: urgent_topic, PageUrgency.NOTICE: notice_topic}

    def send(self, page: PageMessage) -> str:
        """Publish the page and return the message id; ValueError without a `default` body or with 11 attributes."""
        if "default" not in page.bodies:
            raise ValueError(f"page {page.key} has no default body")
        if len(page.attributes) > ATTRIBUTES:
            raise ValueError(f"page {page.key} has more than {ATTRIBUTES} attributes")
        topic = self._topics[page.urgency]
        with translated(f"paging through {topic}"):
            answer = self._clients.sns.publish(
                TopicArn=topic,
                Subject=subject_line(page.subject),
                Message=json.dumps(dict(page.bodies)),
                MessageStructure="json",
                MessageAttributes=_attributes(page.attributes),
            )
        return answer["MessageId"]


def subject_line(text: str) -> str:
    """Make any text a subject that SNS takes: printable ASCII, one line, at most 100 characters, never empty.

    A page with a question mark in its subject is better than none.
    """
    plain = "".join(letter if letter.isascii() else "?" for letter in " ".join(text.split()))
    shown = "".join(letter for letter in plain if letter.isprintable()).strip() or "(no subject)"
    return shown if len(shown) <= SUBJECT_CHARACTERS else shown[: SUBJECT_CHARACTERS - 3] + "..."


def _attributes(attributes: Mapping[str, str]) -> dict[str, Any]:
    return {name: {"DataType": "String", "StringValue": text} for name, text in attributes.items() if text}
