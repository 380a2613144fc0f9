"""Progress of a job: its last step, when the step advanced, and its last losses."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median

STALL_AFTER = timedelta(minutes=30)
"""A job whose heartbeats stop advancing is stalled after this time, unless its start states another."""

MAX_LOSSES, MIN_LOSSES = 32, 16
SPIKE = 2.0
"""A loss is a spike if it is more than this many times the median of the last ones, of at least 16."""

NOT_FINITE, LOSS_SPIKE = "not_finite", "spike"


@dataclass(frozen=True, slots=True)
class Progress:
    """What the heartbeats of one run of a job reported; `run` is the start of the run, `losses` are finite."""

    run: datetime
    step: int
    advanced_at: datetime
    seen_at: datetime
    losses: tuple[float, ...] = ()
    version: int = 0

    def is_stalled(self, now: datetime, stall_after: timedelta) -> bool:
        """Return whether the step has not advanced for the limit."""
        return now >= self.advanced_at + stall_after


def loss_alarm(before: tuple[float, ...], loss: float) -> str | None:
    """Return `not_finite`, `spike`, or None for an ordinary loss."""
    if not math.isfinite(loss):
        return NOT_FINITE
    is_spike = len(before) >= MIN_LOSSES and loss > max(before) and loss > SPIKE * abs(median(before))
    return LOSS_SPIKE if is_spike else None
