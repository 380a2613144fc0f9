"""Port that sends pages to operators, in the formats that paging services read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol


class PageUrgency(StrEnum):
    """The urgency of a page: `urgent` needs action now, `notice` can be read later."""

    URGENT = "urgent"
    NOTICE = "notice"


class PageFormat(StrEnum):
    """The format of a page for one kind of paging service.

    `alarm` is a CloudWatch alarm, which PagerDuty's integration reads from an SNS topic. `chat` is a custom
    notification of Amazon Q Developer in chat applications. `pagerduty` is a PagerDuty Events API v2 event without its
    routing key. `slack` and `teams` are messages of their webhooks.
    """

    ALARM = "alarm"
    CHAT = "chat"
    PAGERDUTY = "pagerduty"
    SLACK = "slack"
    TEAMS = "teams"


@dataclass(frozen=True, slots=True)
class FormattedPage:
    """A page in the format of one service: a subject of at most 100 ASCII characters, and a body as JSON."""

    subject: str
    body: str


@dataclass(frozen=True, slots=True)
class PageMessage:
    """One page: a notification that is sent to operators.

    `subject` has at most 100 ASCII characters. `bodies` maps each SNS protocol to the text of the page. SNS
    subscriptions filter pages by `attributes`. `forms` has the page in the formats of particular services.
    """

    key: str
    urgency: PageUrgency
    subject: str
    bodies: Mapping[str, str]
    attributes: Mapping[str, str]
    forms: Mapping[PageFormat, FormattedPage] = field(default_factory=dict)


class Pager(Protocol):
    """Sends pages (notifications) to operators."""

    def send(self, page: PageMessage) -> str:
        """Send a page and return the id of the sent message."""
