"""Jobs: what runs on a cluster, and where."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Job:
    """A job as it is known: `ended_at` and `outcome` are None while it runs; `hits` names the last troubles it met."""

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
        """Tell whether it has not ended."""
        return self.ended_at is None
