"""Reaching people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol


class PageUrgency(StrEnum):
    """Whether a person must act now (`urgent`) or may read it later (`notice`)."""

    URGENT = "urgent"
    NOTICE = "notice"


class PageForm(StrEnum):
    """A service that reads a shape of its own.

    `alarm` is a CloudWatch alarm, as PagerDuty's integration behind an SNS topic reads it; `chat` a custom notification
    of Amazon Q Developer in chat applications; `pagerduty` an event of PagerDuty's API v2 without its routing key.
    """

    ALARM = "alarm"
    CHAT = "chat"
    PAGERDUTY = "pagerduty"


@dataclass(frozen=True, slots=True)
class PageFormed:
    """A page in a service's shape: a subject of at most 100 ASCII characters, and JSON."""

    subject: str
    body: str


@dataclass(frozen=True, slots=True)
class PageMessage:
    """One page: a subject of at most 100 ASCII characters, bodies by protocol, attributes for filter policies.

    `forms` are for services that read a shape of their own.
    """

    key: str
    urgency: PageUrgency
    subject: str
    bodies: Mapping[str, str]
    attributes: Mapping[str, str]
    forms: Mapping[PageForm, PageFormed] = field(default_factory=dict)


class Pager(Protocol):
    """Reaches people."""

    def send(self, page: PageMessage) -> str:
        """Publish the page and return the service's message id."""
        ...
