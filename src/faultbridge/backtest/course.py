"""Courses: what happens to a case under the other policy, from the first decision that differs from the record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from faultbridge.backtest.record import Trail
from faultbridge.domain.cases import RepairAction
from faultbridge.domain.nodes import NodeState


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision of the record, and what the other policy decides at the same point.

    `reason` says why the other policy lets a case wait. If the two decisions differ, the case then follows the other
    policy until both cases are closed.
    """

    at: datetime
    node: str
    case: str | None
    recorded: str
    replayed: str
    reason: str = ""

    @property
    def same(self) -> bool:
        """Return whether both policies decide the same."""
        return self.recorded == self.replayed


@dataclass(slots=True)
class Course:
    """The course of a case under the other policy. `end` names how it ended; empty while it is live."""

    node: str
    code: str
    opened_at: datetime
    gpus: int | None
    trail: Trail | None
    actions: list[RepairAction] = field(default_factory=list)
    ended_at: datetime | None = None
    end: str = ""

    @property
    def lost(self) -> int | None:
        """Return GPUs times case duration in ms, 0 without a repair; None if the case is live or GPUs are unknown."""
        if self.ended_at is None or self.gpus is None:
            return None
        span = (self.ended_at - self.opened_at) // timedelta(milliseconds=1)
        return self.gpus * span if self.actions else 0


@dataclass(slots=True)
class Track:
    """One node: its state under the other policy, its state in the record, and its live recorded case.

    While `diverged` is False both states have the same case. `attempt_ends` and `retry_at` are the timers of a case
    that follows the other policy alone.
    """

    state: NodeState
    recorded: NodeState
    trail: Trail | None = None
    diverged: bool = False
    course: Course | None = None
    attempt_ends: datetime | None = None
    retry_at: datetime | None = None
    retry_pause: timedelta = timedelta(minutes=5)


@dataclass(slots=True)
class Replayed:
    """The result of a replay: every decision, the courses that differ from the record, and the gaps in the record.

    `gaps` maps a sentence about missing data to the number of places at which the record lacks this data.
    """

    decisions: list[Decision] = field(default_factory=list)
    courses: list[Course] = field(default_factory=list)
    gaps: dict[str, int] = field(default_factory=dict)

    def add_gap(self, text: str, count: int = 1) -> None:
        """Add `count` places at which the record lacks data that a decision needs; `text` describes the data."""
        if count:
            self.gaps[text] = self.gaps.get(text, 0) + count


Durations = Mapping[RepairAction, timedelta]
