"""A page as a value, before it is rendered for anybody."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from faultbridge.ports import PageUrgency


class PageState(StrEnum):
    """Whether a trouble begins to need people or has ceased to."""

    TRIGGERED = "triggered"
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a trouble is: a node and its part, or the cluster as a whole."""

    cluster: str
    node: str | None = None
    instance_id: str | None = None
    component: str = ""
    serial: str | None = None
    pci: str | None = None


@dataclass(frozen=True, slots=True)
class Member:
    """One trouble that a summary speaks for."""

    key: str
    node: str = ""
    code: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """Everything that a page says; repetitions of one have the same `key`.

    `headline` is what happened in a few words, `doing` what Faultbridge does about it, `reader` what the reader must
    do; `phases` are milliseconds by phase of a case that has ended. A summary names at most some of its `members`.
    """

    key: str
    state: PageState
    urgency: PageUrgency
    headline: str
    broke: str
    place: Place
    doing: str
    reader: str
    commands: tuple[str, ...]
    runbook: str
    timeline: str
    event_type: str
    event_id: str
    at: datetime
    code: str | None = None
    severity: str | None = None
    case_id: str | None = None
    since: datetime | None = None
    phases: Mapping[str, int] = field(default_factory=dict)
    members: tuple[Member, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Links:
    """Where a reader finds the runbooks and the record: a base URL each, or empty for the repository's own paths."""

    runbooks: str = ""
    record: str = ""

    def runbook(self, name: str) -> str:
        """Return where a runbook is."""
        return f"{self.runbooks.rstrip('/')}/{name}.md" if self.runbooks else f"docs/runbooks/{name}.md"

    def timeline(self, cluster: str, case_id: str | None = None) -> str:
        """Return where the record of a case, or else of a cluster, is read; empty without a base."""
        about = f"?case={case_id}" if case_id else ""
        return f"{self.record.rstrip('/')}/clusters/{cluster}/entries{about}" if self.record else ""


@dataclass(frozen=True, slots=True)
class PagerSettings:
    """How people are paged: links, and limits.

    `max_per_hour` bounds the pages about single nodes of a cluster in a clock hour, for each urgency; an urgent page
    that nobody ends is repeated after `remind_after`.
    """

    links: Links = field(default_factory=Links)
    max_per_hour: int = 10
    remind_after: timedelta = timedelta(hours=4)
