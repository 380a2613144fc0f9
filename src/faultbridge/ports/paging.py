"""Notify people: pages and the formats that paging services read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol


class PageUrgency(StrEnum):
    """Urgency of a page: `urgent` needs action now, `notice` can wait."""

    URGENT = "urgent"
    NOTICE = "notice"


class PageFormat(StrEnum):
    """Format of a page for one kind of service.

    `alarm` is a CloudWatch alarm, which PagerDuty's integration reads from an SNS topic. `chat` is a custom
    notification of Amazon Q Developer in chat applications. `pagerduty` is a PagerDuty Events API v2 event without
    its routing key. `slack` and `teams` are messages of their webhooks.
    """

    ALARM = "alarm"
    CHAT = "chat"
    PAGERDUTY = "pagerduty"
    SLACK = "slack"
    TEAMS = "teams"


@dataclass(frozen=True, slots=True)
class FormattedPage:
    """A page in the format of one service: a subject of at most 100 ASCII characters, and JSON."""

    subject: str
    body: str


@dataclass(frozen=True, slots=True)
class PageMessage:
    """One page: subject (at most 100 ASCII characters), a body per protocol, attributes for filters.

    `forms` holds the page in the formats of particular services.
    """

    key: str
    urgency: PageUrgency
    subject: str
    bodies: Mapping[str, str]
    attributes: Mapping[str, str]
    forms: Mapping[PageFormat, FormattedPage] = field(default_factory=dict)


class Pager(Protocol):
    """Sends pages to people."""

    def send(self, page: PageMessage) -> str:
        """Send the page and return the message id of the service."""
