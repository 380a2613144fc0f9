"""Course: data of a back-test: compared decisions, replayed nodes, and simulated courses of cases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from faultbridge.backtest.record import Trail
from faultbridge.domain.cases import RepairAction
from faultbridge.domain.nodes import NodeState

FIRST_PAUSE = timedelta(minutes=5)
"""The first pause before a refused attempt of a simulated case is tried again."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A recorded decision about a case, and the decision of the tested policy at the same time.

    `recorded` and `replayed` state the two decisions as text, such as `wait`. `reason` states why the tested policy
    makes a case wait.
    """

    at: datetime
    node: str
    case: str | None
    recorded: str
    replayed: str
    reason: str = ""

    @property
    def same(self) -> bool:
        """Return True if the recorded decision and the decision of the tested policy are equal."""
        return self.recorded == self.replayed


@dataclass(slots=True)
class Course:
    """The course of a case under the tested policy.

    `trail` is the recorded course of the same case, or None if the record has no such case. `actions` are the simulated
    repair actions. `end` is empty while the case is live. Afterwards, it is one of these:

    - the resolution of the case, or `closed` if it has none
    - `none`: the tested policy repairs nothing
    - `by_operator`: only an operator can close the case
    """

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
        """The lost GPU time in milliseconds: GPUs times the duration of the case, 0 without a repair.

        None if the case has no end in the replay, or if the number of GPUs is unknown.
        """
        if self.ended_at is None or self.gpus is None:
            return None
        span = (self.ended_at - self.opened_at) // timedelta(milliseconds=1)
        return self.gpus * span if self.actions else 0


@dataclass(slots=True)
class Track:
    """One node in a replay: its state under the tested policy, and its recorded state.

    `trail` is the recorded course of the node's case. `diverged` is True while the case of the node is simulated,
    because the tested policy decided differently from the record. These fields belong to the simulation:

    - `course`: the simulated course of the case
    - `attempt_ends`: when the running attempt ends
    - `retry_at`: when a refused attempt is tried again
    - `retry_pause`: how long to wait if this try is refused too
    """

    state: NodeState
    recorded: NodeState
    trail: Trail | None = None
    diverged: bool = False
    course: Course | None = None
    attempt_ends: datetime | None = None
    retry_at: datetime | None = None
    retry_pause: timedelta = FIRST_PAUSE


@dataclass(slots=True)
class Replayed:
    """The result of a replay: the compared decisions, the simulated courses, and the missing data.

    `gaps` maps a description of missing data to the number of decisions or cases that need the data. `not_compared` has
    the time and the node of each commit that was not compared, because the node had diverged.
    """

    decisions: list[Decision] = field(default_factory=list)
    courses: list[Course] = field(default_factory=list)
    gaps: dict[str, int] = field(default_factory=dict)
    not_compared: set[tuple[datetime, str]] = field(default_factory=set)

    def add_gap(self, text: str, count: int = 1) -> None:
        """Count decisions or cases that need missing data; `text` describes the data."""
        if count:
            self.gaps[text] = self.gaps.get(text, 0) + count


Durations = Mapping[RepairAction, timedelta]
