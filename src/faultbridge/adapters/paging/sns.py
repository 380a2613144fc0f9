"""Send pages through SNS topics."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.aws.errors import translated
from faultbridge.ports import PageFormat, PageMessage, PageUrgency

SUBJECT_CHARACTERS = 100
# A subscription with raw delivery to SQS loses a message with more attributes.
ATTRIBUTES = 10


class SnsPager:
    """A Pager with one SNS topic per urgency, so that subscribers choose which pages alert them.

    `form_topics` maps a page format, such as that of chats, to an additional topic. An additional topic receives the
    pages of both urgencies. Its subscriptions can filter by the message attribute `urgency`.
    """

    def __init__(
        self,
        clients: Clients,
        *,
        urgent_topic: str,
        notice_topic: str,
        form_topics: Mapping[PageFormat, str] | None = None,
    ) -> None:
        self._clients = clients
        self._topics = {PageUrgency.URGENT: urgent_topic, PageUrgency.NOTICE: notice_topic}
        self._form_topics = form_topics or {}

    def send(self, page: PageMessage) -> str:
        """Publish the page to the topic of its urgency, and its page formats to their additional topics.

        A page format without an additional topic is skipped. Returns the message id from the topic of the urgency.
        Raises ValueError if the page has no `default` body, or more than ten attributes.
        """
        if "default" not in page.bodies:
            raise ValueError(f"page {page.key} has no default body")
        if len(page.attributes) > ATTRIBUTES:
            raise ValueError(f"page {page.key} has more than {ATTRIBUTES} attributes")
        attributes = _attributes(page.attributes)
        message_id = self._publish(
            self._topics[page.urgency],
            page.subject,
            Message=json.dumps(dict(page.bodies)),
            MessageStructure="json",
            MessageAttributes=attributes,
        )
        for form, topic in self._form_topics.items():
            if form in page.forms:
                formed = page.forms[form]
                self._publish(topic, formed.subject, Message=formed.body, MessageAttributes=attributes)
        return message_id

    def _publish(self, topic: str, subject: str, **message: Any) -> str:  # noqa: ANN401 - the arguments of the API call
        with translated(f"publishing a page to {topic}"):
            answer = self._clients.sns.publish(TopicArn=topic, Subject=subject_line(subject), **message)
        return answer["MessageId"]


def subject_line(text: str) -> str:
    """Return a subject that SNS accepts: one line of 1 to 100 printable ASCII characters.

    A character that is not ASCII becomes a question mark, because a page with a changed subject is better than no page.
    A longer subject is cut, and an empty subject becomes `(no subject)`.
    """
    plain = "".join(letter if letter.isascii() else "?" for letter in " ".join(text.split()))
    shown = "".join(letter for letter in plain if letter.isprintable()).strip() or "(no subject)"
    return shown if len(shown) <= SUBJECT_CHARACTERS else shown[: SUBJECT_CHARACTERS - 3] + "..."


def _attributes(attributes: Mapping[str, str]) -> dict[str, Any]:
    return {name: {"DataType": "String", "StringValue": text} for name, text in attributes.items() if text}
