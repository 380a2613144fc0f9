"""Jobs: training jobs on a cluster, and the nodes on which they run."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Job:
    """A job as it was reported: `ended_at` and `outcome` are None while it runs.

    `hits` identifies the latest faults of its nodes that were already reported for the job.
    """

    cluster: str
    id: str
    nodes: tuple[str, ...]
    started_at: datetime
    name: str | None = None
    ended_at: datetime | None = None
    outcome: str | None = None
    version: int = 0
    hits: tuple[str, ...] = ()

    @property
    def runs(self) -> bool:
        """Return whether the job has not ended."""
        return self.ended_at is None
