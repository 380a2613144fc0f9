"""Phase durations: the duration of each phase of a case, and the GPU time that the case cost."""

from __future__ import annotations

from datetime import datetime, timedelta

from faultbridge.domain.cases import ESCALATED_AT, FAILED_STEP, RELEASED, Case, Phase
from faultbridge.domain.edges import CaseStatus

_NO_PHASE = {ESCALATED_AT, FAILED_STEP, RELEASED, *(status.value for status in CaseStatus if not status.live)}
_PHASE_ORDER = ("detected", CaseStatus.OPEN, CaseStatus.QUEUED, CaseStatus.IN_PROGRESS, *Phase)


def durations(case: Case, end: datetime) -> dict[str, int]:
    """Return the duration of each phase of a case in milliseconds, in the order of reaching them.

    A phase starts when the case first reaches it (`Case.marks`) and ends when the case first reaches the next phase.
    The last phase ends at `end`. A status that closes a case is not a phase.
    """
    reached = (mark for mark in case.marks.items() if mark[0] not in _NO_PHASE)
    marks = sorted(reached, key=lambda mark: (mark[1], _order(mark[0])))
    ends = [*(at for _, at in marks[1:]), end][: len(marks)]
    millisecond = timedelta(milliseconds=1)
    return {name: (until - at) // millisecond for (name, at), until in zip(marks, ends, strict=True)}


def gpu_time_lost(case: Case, end: datetime) -> int | None:
    """Return the case's duration in ms times the node's number of GPUs; None if that number is unknown.

    If no attempt started and the number is known, the result is 0.
    """
    if case.gpus is None:
        return None
    attempted = CaseStatus.IN_PROGRESS in case.marks
    return case.gpus * ((end - case.opened_at) // timedelta(milliseconds=1)) if attempted else 0


def _order(name: str) -> int:
    # Phases reached at the same millisecond are sorted in their normal order.
    return _PHASE_ORDER.index(name) if name in _PHASE_ORDER else len(_PHASE_ORDER)
