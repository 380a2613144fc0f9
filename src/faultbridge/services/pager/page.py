"""A page as a value, before it is rendered for anybody."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
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
class Page:
    """Everything that a page says; repetitions of one have the same `key`.

    `headline` is what happened in a few words, `doing` what Faultbridge does about it, `reader` what the reader must
    do; `phases` are milliseconds by phase of a case that has ended.
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
    event_type: str
    event_id: str
    at: datetime
    code: str | None = None
    severity: str | None = None
    case_id: str | None = None
    since: datetime | None = None
    phases: tuple[tuple[str, int], ...] = ()
    note: str = ""
