"""Judgment: whether later entries confirm that a case needed its repair."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from enum import StrEnum

from faultbridge.backtest.record import Event, Trail
from faultbridge.domain.entries import EntryType
from faultbridge.domain.faults import Severity
from faultbridge.domain.times import from_text

RELAPSE_WITHIN = timedelta(days=7)


class Judgment(StrEnum):
    """Whether later entries show that a recorded case needed its repair.

    `right` means that at least one of these is true:

    - Diagnostics of the case failed.
    - A fault of severity `fatal` was detected on the node after the case was opened and before its first reset, reboot
      or replacement (before it was closed, if it has none of these).
    - The fault code of the case was detected on the node again within seven days after the case was closed.
    - A later case is recorded as a relapse of this case.

    `needless` means that diagnostics passed, that the entries cover these seven days, and that the case is not `right`.
    Any other case is `undetermined`.
    """

    RIGHT = "right"
    NEEDLESS = "needless"
    UNDETERMINED = "undetermined"


def judge(found: Iterable[Trail], events: Sequence[Event]) -> dict[str, Judgment]:
    """Return the judgment of each recorded case, by case id."""
    cases = list(found)
    relapses = {one.relapse_of for one in cases if one.relapse_of}
    detected = [
        (
            one["metadata"]["node"],
            one["data"]["code"],
            one["data"]["severity"],
            from_text(one["metadata"]["recorded_at"]),
        )
        for one in events
        if one["metadata"]["event_type"] == EntryType.FAULT_DETECTED.value
    ]
    end = max((from_text(one["metadata"]["recorded_at"]) for one in events), default=None)
    by_node: dict[str, list[tuple[str, str, datetime]]] = {}
    for node, code, severity, at in detected:
        by_node.setdefault(node, []).append((code, severity, at))
    return {one.id: _judge(one, by_node.get(one.node, []), end, relapsed=one.id in relapses) for one in cases}


def _judge(trail: Trail, faults: list[tuple[str, str, datetime]], end: datetime | None, *, relapsed: bool) -> Judgment:
    closed = trail.closed_at
    until = (closed or trail.opened_at) + RELAPSE_WITHIN
    # Until the first repair, the node has the hardware that the case is about.
    first = next((one.admitted_at for one in trail.attempts if one.repair_action.needs_slot), closed)
    hard = any(
        severity == Severity.FATAL.value and trail.opened_at < at and (first is None or at < first)
        for _, severity, at in faults
    )
    again = closed is not None and any(code == trail.code and closed < at <= until for code, _, at in faults)
    if relapsed or hard or again or False in trail.verdicts:
        return Judgment.RIGHT
    watched = closed is not None and end is not None and until <= end
    return Judgment.NEEDLESS if trail.verdicts and watched else Judgment.UNDETERMINED
