"""Sweep result: what a sweep did, what failed, and whether its time was sufficient."""

from __future__ import annotations

from dataclasses import field
from datetime import datetime

from faultbridge.dataclass import dataclass
from faultbridge.incidents.intake import Intake
from faultbridge.ports import Clock


@dataclass(slots=True)
class SweepResult:
    """The counts and failures of one sweep.

    - `ticked` counts the processed nodes, and `recovered_attempts` the lost repair attempts by result of the recovery.
    - `unfinished` is True if a part of the sweep ran out of time before its work was done.
    - `intake` states whether records arrive from the nodes, or is None if that is not known.
    - `node_counts` has the number of nodes by status for each cluster.
    - `with_callbacks` lists the clusters in which job callbacks wait.
    """

    ticked: int = 0
    recovered_attempts: dict[str, int] = field(default_factory=dict)
    published: int = 0
    rejects: int = 0
    clusters: int = 0
    released_slots: int = 0
    intake: Intake | None = None
    unfinished: bool = False
    node_counts: dict[str, dict[str, int]] = field(default_factory=dict)
    with_callbacks: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """The time at which a part of a sweep must stop."""

    clock: Clock
    until: datetime
    result: SweepResult

    def is_over(self) -> bool:
        """Return whether the time is over; if so, mark the sweep as unfinished."""
        over = self.clock.now() >= self.until
        self.result.unfinished = self.result.unfinished or over
        return over
