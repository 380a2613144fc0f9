"""Progress of a training job: its last step, when the step advanced, and its last losses."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import datetime, timedelta

from faultbridge.dataclass import dataclass

STALL_AFTER = timedelta(minutes=30)
"""A job whose heartbeats stop advancing is stalled after this time, unless its start report states another time."""

MAX_LOSSES, MIN_LOSSES = 32, 16
SPIKE = 2.0
"""A loss is a spike if it is more than this many times the median of the last ones, of at least 16."""

NOT_FINITE, LOSS_SPIKE = "not_finite", "spike"


@dataclass(frozen=True, slots=True)
class Progress:
    """The training progress that the heartbeats of one run of a job reported.

    `run` is the start time of the run. `losses` holds only finite numbers.
    """

    run: datetime
    step: int
    advanced_at: datetime
    seen_at: datetime
    losses: tuple[float, ...] = ()
    version: int = 0
    rollback: tuple[int, int] | None = None
    """The lowest and the highest step reported below `step` since it was reached."""

    @property
    def last_step(self) -> int:
        """Return the latest step that the job has reached.

        While the job repeats steps after a restart from an earlier step, the result is the highest repeated step.
        """
        return self.rollback[1] if self.rollback else self.step

    def reported(self, step: int, now: datetime) -> tuple[Progress, bool]:
        """Return the progress after a heartbeat, and whether the training step advanced.

        A job that continues from an earlier step (a rollback) repeats steps.

        - A step above the highest step of the run is an advance, and ends a rollback.
        - Outside a rollback, a step below the highest step of the run starts a rollback. It is no advance.
        - During a rollback, a step below the lowest step of the rollback starts a new rollback. It is no advance.
        - During a rollback, a step above the highest step of the rollback, but below the highest step of the run, is
          an advance.
        - Any other step was reported before, or lies between such steps. It is no advance, because processes that hang
          at different steps report the same steps again and again.
        """
        seen = replace(self, seen_at=now)
        if step > self.step:
            return replace(seen, step=step, advanced_at=now, rollback=None), True
        low, high = self.rollback or (self.step, self.step)
        if step < low:
            return replace(seen, rollback=(step, step)), False
        if high < step < self.step:
            return replace(seen, rollback=(low, step), advanced_at=now), True
        return seen, False

    def is_old(self, now: datetime, stall_after: timedelta) -> bool:
        """Return whether the last stored heartbeat is at least a quarter of `stall_after` old.

        Before that time, a heartbeat without an advance of the step need not be stored.
        """
        return now - self.seen_at >= stall_after / 4

    def is_stalled(self, now: datetime, stall_after: timedelta) -> bool:
        """Return whether the step has not advanced for the whole stall limit `stall_after`."""
        return now >= self.advanced_at + stall_after


def loss_alarm(before: tuple[float, ...], loss: float, alarm: str | None = None) -> str | None:
    """Return the alarm for a training loss: `not_finite`, `spike`, or None for an ordinary loss.

    `before` holds the earlier losses. `alarm` is the current alarm, or None.

    - A loss that is infinite or no number is `not_finite`.
    - Without a current alarm, a loss is a `spike` if it is above all earlier losses and above twice the absolute value
      of their median.
    - During an alarm, a loss is a `spike` if it is above twice the absolute value of the median.
    - There is no `spike` with fewer than `MIN_LOSSES` earlier losses.
    """
    if not math.isfinite(loss):
        return NOT_FINITE
    from statistics import median  # a slow import, which only jobs need

    is_high = len(before) >= MIN_LOSSES and loss > SPIKE * abs(median(before))
    return LOSS_SPIKE if is_high and (alarm is not None or loss > max(before)) else None
