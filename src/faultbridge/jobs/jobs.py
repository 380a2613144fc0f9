"""Jobs: records which jobs run on which nodes, so that a fault can name the jobs that it affects.

The start and end of a job, and the faults that affect it, are entries of the cluster's own stream. One item stores the
job. Another item, its index row, lists the nodes of the job as long as the sweep must check the job.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from types import MappingProxyType

from faultbridge.dataclass import dataclass
from faultbridge.domain.cluster.jobs import OUTCOMES, Job
from faultbridge.domain.isolation import ORDERED
from faultbridge.domain.times import to_text, truncate
from faultbridge.errors import Conflict, Rejected, UnknownName
from faultbridge.jobs.changes import Impact, JobChange, Resume
from faultbridge.jobs.job_nodes import MarkNodes
from faultbridge.jobs.job_writer import JobWriter
from faultbridge.jobs.placement import ranks_by_node, resolved_nodes
from faultbridge.ledger.append import Append
from faultbridge.ledger.queries import query_all, recorded_job
from faultbridge.log import log_cause
from faultbridge.ports import Clock, Table
from faultbridge.storage import jobs
from faultbridge.storage.jobs import FollowedJob, read_job

MAX_HITS = 64
MAX_REASON = 512
MAX_ID_LENGTH = 128
END_NOT_OBSERVED = "the job started again; its end was not observed"


@dataclass(frozen=True, slots=True)
class Jobs:
    """Records the starts, ends and impacts of jobs. Recording the same fact again changes nothing.

    With `marks_nodes`, a start or end also updates the ids of jobs in the states of the nodes. Otherwise the sweep does
    this within a minute.
    """

    append: Append
    marks_nodes: bool = True

    @property
    def table(self) -> Table:
        """Return the table in which jobs are stored."""
        return self.append.table

    @property
    def clock(self) -> Clock:
        """Return the clock from which the current time is read."""
        return self.append.clock

    @property
    def writer(self) -> JobWriter:
        """Return the writer of job items and their entries."""
        return JobWriter(self.table, self.clock, self.append.stack)

    @property
    def mark_nodes(self) -> MarkNodes:
        """Return the service that stores the ids of running jobs in the states of their nodes."""
        return MarkNodes(self.append, self.writer)

    def start(
        self,
        cluster: str,
        job_id: str,
        nodes: Sequence[str],
        *,
        name: str | None = None,
        at: datetime | None = None,
        ranks: Mapping[str, str] = MappingProxyType({}),
        stall_after: timedelta | None = None,
        again: bool = False,
    ) -> Job:
        """Record that a job starts on nodes, which are given by node name, other alias or instance id.

        `ranks` maps these names to global ranks, such as `0-7`. `at` is the start; None means now. An ended job starts
        again if `at` is None or later than its last start; otherwise nothing changes. If the job already runs on these
        nodes since `at` (or `at` is None), only the given name, ranks and stall limit are stored. If it runs on other
        nodes and `again` is True, that run is ended first. Otherwise, a job that already runs raises Rejected
        `job_runs`. Raises `bad_job` for an invalid id, and the errors of `end`, `resolved_nodes` and `ranks_by_node`.
        """
        at, names = at and truncate(at), resolved_nodes(self.table, cluster, nodes)
        placed, placed_ranks = tuple(sorted(set(names.values()))), ranks_by_node(names, ranks)
        _check_id(job_id)
        if again:
            self._end_other_run(cluster, job_id, placed, at)
        described = partial(_described, name=name, ranks=placed_ranks, stall_after=stall_after)

        def update(before: Job | None, now: datetime) -> Job | None:
            started_at = at or truncate(now)
            if before is not None and before.ended_at is None:
                if before.nodes == placed and at in {None, before.started_at}:
                    return None
                since = to_text(before.started_at)
                raise Rejected("job_runs", f"job {job_id} has run since {since}; end it with `faultbridge job end`")
            if before is not None and at is not None and started_at <= before.started_at:
                return None  # a start that was delivered again, after the end
            return described(_new_run(before, Job(cluster, job_id, placed, started_at)))

        job = self.writer.change(cluster, job_id, update, JobChange("started", f"started on {len(placed)} nodes"))
        return self._marked(self.writer.describe(job, described) if job.runs else job)

    def _end_other_run(self, cluster: str, job_id: str, nodes: tuple[str, ...], at: datetime | None) -> None:
        found = self.find(cluster, job_id)
        if found is not None and found.ended_at is None and found.nodes != nodes:
            self.end(cluster, job_id, reason=END_NOT_OBSERVED, at=at)

    def end(
        self, cluster: str, job_id: str, *, outcome: str = "unreported", reason: str = "", at: datetime | None = None
    ) -> Job:
        """Record that a job ended, and return the job. A job that has already ended is not changed.

        Raises Rejected `unknown_job` if the job's start was not recorded, `bad_outcome` for an unknown outcome, and
        `bad_time` for an end before the start.
        """
        if outcome not in OUTCOMES:
            raise Rejected("bad_outcome", f"unknown outcome: {outcome!r}; allowed: {', '.join(OUTCOMES)}")

        def update(before: Job | None, now: datetime) -> Job | None:
            if before is None:
                raise UnknownName("job", job_id, cluster)
            if before.ended_at is not None:
                return None
            ended_at = truncate(at or now)
            if ended_at < before.started_at:
                text = f"the end {to_text(ended_at)} is before the start of job {job_id}: {to_text(before.started_at)}"
                raise Rejected("bad_time", text)
            to_mark = tuple(sorted({*before.to_mark, *before.nodes}))
            return replace(before, ended_at=ended_at, outcome=outcome, to_mark=to_mark, stalled_at=None)

        return self._marked(
            self.writer.change(cluster, job_id, update, JobChange("ended", reason or f"ended: {outcome}"))
        )

    def record_impact(self, cluster: str, job_ids: Iterable[str], impact: Impact) -> None:
        """Record that a node's condition affects these jobs, once on each job.

        A job keeps its first 64 conditions. After these, only the first condition of each further node is recorded.
        A job is not changed in these cases:

        - The condition was last observed before the job started.
        - The job has ended, and it can no longer be reported as resumable (`Job.may_resume`).
        - The job ended more than five minutes before the condition began.
        - An operator's order opened the condition, and the job ended before the order.
        """
        condition = impact.condition

        def update(before: Job | None, _: datetime) -> Job | None:
            if before is None or condition.last_at < before.started_at or impact.key in before.hits:
                return None
            if not before.takes_hit(condition.since, ordered=condition.code.startswith(ORDERED)):
                return None
            own = {impact.node: impact.instance_id} if impact.is_of_node else {}
            if len(before.hits) >= MAX_HITS and own.keys() <= before.affected.keys():
                return None  # without its key, it would be recorded again by each sweep
            hits = (*before.hits, impact.key)[:MAX_HITS]
            return replace(before, hits=hits, affected={**own, **before.affected})

        reason = f"{impact.node}: {condition.code}, {condition.message}"
        for job_id in job_ids:
            self.writer.change(cluster, job_id, update, JobChange("hit", reason[:MAX_REASON], impact))

    def record_resumable(self, job: Job, resume: Resume, callbacks: tuple[str, ...] = ()) -> Job:
        """Record the change `resumable` of an ended job, unless it is recorded or the job has started again.

        `callbacks` names the notifications to deliver. Returns the job as stored.
        """

        def update(before: Job | None, now: datetime) -> Job | None:
            if before is None or not before.may_resume:
                return None
            return replace(before, resumable_at=now, callbacks=callbacks)

        return self.writer.change(job.cluster, job.id, update, JobChange("resumable", resume.reason, resume=resume))

    def _marked(self, job: Job) -> Job:
        if not job.to_mark or not self.marks_nodes:
            return job
        return self.mark_nodes(job.cluster, job.id) or job

    def rows(self, cluster: str) -> tuple[FollowedJob, ...]:
        """Return the followed jobs of a cluster: those that run, and those that ended recently.

        The jobs are read from their index rows, which a sweep has usually cached.
        """
        found = query_all(self.table, jobs.followed_partition(cluster), prefix=jobs.FOLLOWED)
        return tuple(map(jobs.read_followed, found))

    def read(self, cluster: str, rows: Iterable[FollowedJob]) -> tuple[Job, ...]:
        """Return the complete stored jobs for index rows that the method `rows` returned."""
        found = self.table.get_many([jobs.job_key(cluster, one.id) for one in rows])
        return tuple(map(read_job, found.values()))

    def stop_following(self, cluster: str, followed: FollowedJob) -> None:
        """Delete the index row of an ended job, so that the sweep no longer reads the job.

        If the job has changed since `followed` was read, the row is kept.
        """
        try:
            self.table.write(jobs.unfollow(cluster, followed))
        except Conflict as conflict:
            log_cause("job_still_followed", reason=str(conflict), cluster=cluster, job_id=followed.id)

    def find(self, cluster: str, job_id: str) -> Job | None:
        """Return a job, or None if its start was not recorded."""
        return self.writer.find(cluster, job_id)

    def show(self, cluster: str, job_id: str) -> Job:
        """Return a job. Raises Rejected `unknown_job` if its start was not recorded."""
        return recorded_job(self.table, cluster, job_id)


def _new_run(before: Job | None, started: Job) -> Job:
    """Return a job at the start of a new run.

    `before` is the job as stored, or None. The version of the stored job is kept, and so are the nodes whose states
    still need an update.
    """
    if before is None:
        return replace(started, to_mark=started.nodes)
    return replace(started, version=before.version, to_mark=tuple(sorted({*before.to_mark, *started.nodes})))


def _check_id(job_id: str) -> None:
    if not 0 < len(job_id) <= MAX_ID_LENGTH:
        raise Rejected("bad_job", f"the job id has {len(job_id)} characters; 1 to {MAX_ID_LENGTH} are allowed")


def _described(job: Job, *, name: str | None, ranks: Mapping[str, str], stall_after: timedelta | None) -> Job:
    limit = job.stall_after if stall_after is None else stall_after
    return replace(job, name=name or job.name, ranks=ranks or job.ranks, stall_after=limit)
