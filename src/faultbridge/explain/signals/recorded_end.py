"""Reads the recorded end of a job: its outcome and its reason, which a scheduler or a user reported."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from faultbridge.explain.signals.patterns import LogPattern, matches_of
from faultbridge.explain.signals.signal import Role, Signal, Trust

CANCELED = "scheduler.canceled"
ENDED_BY_USER = "cancelled"
MAX_REASON = 512
_OF_SCHEDULER = "scheduler."


def end_signals(
    label: str, outcome: str | None, reason: str, ended_at: datetime, patterns: Sequence[LogPattern]
) -> Iterator[Signal]:
    """Yield the signals that follow from the recorded end of a job: its outcome and its reason.

    The log patterns are applied to the first 512 characters of the reason. A signal from the reason counts as a signal
    of the job, so it cannot prove a fault of a node. The outcome `cancelled` yields `scheduler.canceled`, unless the
    reason already yields a signal of the scheduler.
    """
    text = reason[:MAX_REASON]
    found = {one.name: (one, match) for one, match in matches_of(patterns, text)}
    for name, (pattern, match) in found.items():
        node = match.groupdict().get("node")
        yield Signal(name, pattern.role, Trust.JOB, label, None, text, ended_at, node)
    if outcome == ENDED_BY_USER and not any(name.startswith(_OF_SCHEDULER) for name in found):
        yield Signal(CANCELED, Role.INITIATING, Trust.JOB, label, None, f"outcome: {outcome}; {text}", ended_at)
