"""Phase durations: the time that a case spent in each phase, and the GPU time that it cost."""

from __future__ import annotations

from datetime import datetime, timedelta

from faultbridge.domain.cases import Case, Phase
from faultbridge.domain.edges import CaseStatus

_CLOSED = frozenset(status.value for status in CaseStatus if not status.live)
_PHASE_ORDER = ("detected", CaseStatus.OPEN, CaseStatus.QUEUED, CaseStatus.IN_PROGRESS, *Phase)


def durations(case: Case, end: datetime) -> dict[str, int]:
    """Return the milliseconds that a case spent in each phase until `end`, in the order of the phases.

    `Case.marks` states when the case reached each phase. The current phase of a live case is included. A status that
    closes a case is not a phase.
    """
    reached = (mark for mark in case.marks.items() if mark[0] not in _CLOSED)
    marks = sorted(reached, key=lambda mark: (mark[1], _order(mark[0])))
    ends = [*(at for _, at in marks[1:]), end][: len(marks)]
    millisecond = timedelta(milliseconds=1)
    return {name: (until - at) // millisecond for (name, at), until in zip(marks, ends, strict=True)}


def gpu_time_lost(case: Case, end: datetime) -> int | None:
    """Return the node's number of GPUs times the case's duration in ms; None if that number is unknown.

    The result is 0 if no attempt started.
    """
    if case.gpus is None:
        return None
    attempted = CaseStatus.IN_PROGRESS in case.marks
    return case.gpus * ((end - case.opened_at) // timedelta(milliseconds=1)) if attempted else 0


def _order(name: str) -> int:
    # Phases reached at the same millisecond are sorted in their normal order.
    return _PHASE_ORDER.index(name) if name in _PHASE_ORDER else len(_PHASE_ORDER)
