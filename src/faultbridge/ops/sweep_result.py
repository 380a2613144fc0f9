"""The result of a sweep: what it did, what failed, and whether its time was enough."""

from __future__ import annotations

from dataclasses import field
from datetime import datetime

from faultbridge.dataclass import dataclass
from faultbridge.incidents.intake import Intake
from faultbridge.ports import Clock


@dataclass(slots=True)
class SweepResult:
    """What one sweep did.

    `unfinished` is True when its time ended before its work. `intake` says whether records arrive, if that is known.
    `node_counts` are the nodes of each cluster by status, `with_callbacks` the clusters in which job callbacks wait.
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
    """The time until which a part of a sweep may work."""

    clock: Clock
    until: datetime
    result: SweepResult

    def is_over(self) -> bool:
        """Return whether the time is over; if so, mark the sweep as unfinished."""
        over = self.clock.now() >= self.until
        self.result.unfinished = self.result.unfinished or over
        return over
