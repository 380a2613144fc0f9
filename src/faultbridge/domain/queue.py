"""Queued cases: what admission sees of a case that waits for its repair."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from faultbridge.domain.cases import RepairAction, WaitingFor
from faultbridge.domain.nodes import NodeKey


@dataclass(frozen=True, slots=True)
class QueuedCase:
    """One waiting case; `priority` 0 goes first, `since` is when it was first queued.

    `approved` says whether a person let its next attempt begin, `asking` whether one is being asked.
    """

    key: NodeKey
    case: str
    repair_action: RepairAction
    priority: int
    since: datetime
    waiting_for: WaitingFor | None = None
    not_before: datetime | None = None
    rule: str = ""
    domain: str | None = None
    group: str | None = None
    approved: bool = False
    asking: bool = False
