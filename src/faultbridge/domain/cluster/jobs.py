"""Jobs: training jobs on a cluster, and the nodes on which they run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime, timedelta

from faultbridge.dataclass import dataclass
from faultbridge.domain.cluster.progress import STALL_AFTER

SUCCEEDED = "succeeded"
OUTCOMES = (SUCCEEDED, "failed", "cancelled", "unreported")
RESUMABLE_OUTCOMES = frozenset({"failed", "unreported"})
LATE_FAULTS = timedelta(minutes=5)
"""A fault that begins up to this long after a job ended may have ended it: reports of faults arrive late."""

RESUME_WITHIN = timedelta(days=7)
"""An ended job whose nodes do not return within this time is not followed any longer."""


MAX_JOBS_OF_NODE = 16
"""Maximum number of job ids in an event of a node. A training node usually runs one job."""

STOP = "STOP"
"""The verdict that a restart would fail in the same way."""


@dataclass(frozen=True, slots=True)
class JobVerdict:
    """The recorded verdict on a job: whether it may restart, why, and without which nodes.

    `outlook` is `RESTART`, `RESTART_WITHOUT` or `STOP`. `nodes` are the nodes that a restart must not use. `mechanism`
    is the way in which the job failed, or None if it is unknown. `hardware` states whether a fault of a node ended the
    job: `blamed`, `acquitted` (no fault did) or `not_shown`.
    """

    outlook: str
    nodes: tuple[str, ...]
    mechanism: str | None
    hardware: str


@dataclass(frozen=True, slots=True)
class Job:
    """A training job as its scheduler reported it; `ended_at` and `outcome` are None while it runs.

    - `hits` identifies the latest faults of the job's nodes that were already published for the job.
    - `affected` maps each node of the job that had a fault of severity `error` or `fatal` to the id of its instance at
      the first such fault.
    - `verdict` is the latest recorded verdict.
    - `callbacks` names the callbacks that have not been delivered since the job became resumable.
    - `to_mark` lists the nodes whose stored job list must still be updated.
    - `ranks` maps nodes to their global ranks, such as `0-7`, if they are known.
    - `stalled_at` is when a running job was recorded as stalled: its step had not advanced for `stall_after`.
    - `alarm` is the problem with the latest loss: `not_finite`, `spike`, or None.
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
    affected: Mapping[str, str | None] = field(default_factory=dict)
    resumable_at: datetime | None = None
    verdict: JobVerdict | None = None
    callbacks: tuple[str, ...] = ()
    to_mark: tuple[str, ...] = ()
    ranks: Mapping[str, str] = field(default_factory=dict)
    stall_after: timedelta = STALL_AFTER
    stalled_at: datetime | None = None
    alarm: str | None = None

    @property
    def runs(self) -> bool:
        """Return whether the job has not ended."""
        return self.ended_at is None

    @property
    def may_resume(self) -> bool:
        """Return whether the job may still be reported as resumable.

        The result is True if the job ended with the outcome `failed` or `unreported`, and was not reported as resumable
        before. A job that succeeded, or that a user ended, cannot resume.
        """
        return self.ended_at is not None and self.resumable_at is None and self.outcome in RESUMABLE_OUTCOMES

    def state_at(self, now: datetime) -> str:
        """Return `running`, `stalled`, `ended`, `waiting` or `resumable`.

        An ended job is `waiting` for seven days if it has affected nodes and may still be reported as resumable
        (`may_resume`), unless its verdict is STOP.
        """
        if self.ended_at is None:
            return "stalled" if self.stalled_at is not None else "running"
        if self.resumable_at is not None:
            return "resumable"
        waits = self.may_resume and self.affected and not self.must_stop and now < self.ended_at + RESUME_WITHIN
        return "waiting" if waits else "ended"

    @property
    def must_stop(self) -> bool:
        """Return whether the recorded verdict is that a restart would fail in the same way."""
        return self.verdict is not None and self.verdict.outlook == STOP

    def takes_hit(self, since: datetime, *, ordered: bool = False) -> bool:
        """Return whether a fault that started at `since` can have affected the job.

        If `ordered` is True, the fault is an operator's order for a node.

        - A job that runs can be affected by any fault or order.
        - A job that may still resume can be affected by a fault that started at most `LATE_FAULTS` after the job ended,
          because monitoring can report a fault late. An order must not have started after the end of the job.
        - No other job can be affected.
        """
        late = timedelta() if ordered else LATE_FAULTS
        return self.runs or (self.may_resume and self.ended_at is not None and since <= self.ended_at + late)
