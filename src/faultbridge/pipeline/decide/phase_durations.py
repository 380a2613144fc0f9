"""Phases: how long a case spent where, and what that cost."""

from __future__ import annotations

from datetime import datetime, timedelta

from faultbridge.domain.cases import Case, Phase
from faultbridge.domain.edges import CaseStatus

_WAY = ("detected", CaseStatus.OPEN, CaseStatus.QUEUED, CaseStatus.IN_PROGRESS, *Phase)


def durations(case: Case, end: datetime) -> dict[str, int]:
    """Return how long a case spent in each phase, in milliseconds, in the order in which it reached them."""
    reached = (mark for mark in case.marks.items() if mark[0] != case.status.value)
    marks = sorted(reached, key=lambda mark: (mark[1], _order(mark[0])))
    ends = [at for _, at in marks[1:]] + [end]
    millisecond = timedelta(milliseconds=1)
    return {name: (until - at) // millisecond for (name, at), until in zip(marks, ends, strict=True)}


def gpu_time_lost(case: Case, end: datetime) -> int | None:
    """Return GPUs times milliseconds for which a node was of no use; None where the number of GPUs is not known.

    A case that was never repaired left its node in service and cost nothing.
    """
    if case.gpus is None:
        return None
    begun = CaseStatus.IN_PROGRESS in case.marks
    return case.gpus * ((end - case.opened_at) // timedelta(milliseconds=1)) if begun else 0


def _order(name: str) -> int:
    # Steps that follow each other at once have the same time; the way of a case tells them apart.
    return _WAY.index(name) if name in _WAY else len(_WAY)
