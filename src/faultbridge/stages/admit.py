"""Admit: which waiting cases may be repaired now, and what each of the others waits for.

A function of the cluster's slots, the limits, the queue and the time; nothing here is written or read elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from faultbridge.domain.cases import WaitingFor
from faultbridge.domain.clusters import Control
from faultbridge.domain.policy import Limits
from faultbridge.domain.queue import QueuedCase

MOST_PICKS = 15
"""One transaction admits all picks, with the rows of each: 100 writes are the service's limit."""

HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Refused:
    """A case that must wait on, and why; the reason is the same text for as long as it is the same reason."""

    queued: QueuedCase
    waiting_for: WaitingFor
    reason: str


@dataclass(frozen=True, slots=True)
class Admission:
    """The cases to admit, most urgent first, and those to leave where they are."""

    picks: tuple[QueuedCase, ...] = ()
    refusals: tuple[Refused, ...] = ()


def admit(control: Control, limits: Limits, waiting: Iterable[QueuedCase], now: datetime) -> Admission:
    """Pick the most urgent and oldest cases for which there is room; a case behind the last pick waits its turn."""
    picks: list[QueuedCase] = []
    refusals: list[Refused] = []
    for queued in sorted(waiting, key=lambda one: (one.priority, one.since, one.case)):
        taken = sum(pick.rung.needs_slot for pick in picks)
        refused = _refuse(control, limits, queued, now, taken)
        if refused is not None:
            refusals.append(refused)
        elif len(picks) < MOST_PICKS:
            picks.append(queued)
    return Admission(tuple(picks), tuple(refusals))


def recent(control: Control, now: datetime) -> Iterator[datetime]:
    """List the repairs begun within the last hour, oldest first."""
    return (start for start in control.starts if start > now - HOUR)


def _refuse(control: Control, limits: Limits, queued: QueuedCase, now: datetime, taken: int) -> Refused | None:
    if control.paused:
        return Refused(queued, WaitingFor.PAUSE, "repairs of this cluster are paused")
    if queued.not_before is not None and queued.not_before > now:
        return Refused(queued, queued.waiting_for or WaitingFor.WAIT, "its time has not come")
    if not queued.rung.needs_slot:
        return None
    if len(control.holders) + taken >= limits.concurrent:
        return Refused(queued, WaitingFor.BUDGET, "as many repairs run as the policy allows at a time")
    if sum(1 for _ in recent(control, now)) + taken >= limits.per_hour:
        return Refused(queued, WaitingFor.BUDGET, "as many repairs began within the hour as the policy allows")
    return None
