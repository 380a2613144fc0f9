"""Reaching people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class PageUrgency(StrEnum):
    """Whether a person must act now (`urgent`) or may read it later (`notice`)."""

    URGENT = "urgent"
    NOTICE = "notice"


@dataclass(frozen=True, slots=True)
class PageMessage:
    """One page: a subject of at most 100 ASCII characters, bodies by protocol, attributes for filter policies."""

    key: str
    urgency: PageUrgency
    subject: str
    bodies: Mapping[str, str]
    attributes: Mapping[str, str]


class Pager(Protocol):
    """Reaches people."""

    def send(self, page: PageMessage) -> str:
        """Publish the page and return the service's message id."""
        ...
