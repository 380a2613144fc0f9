"""Job views: reads jobs by id, by node and by cluster, and returns them as documents of the API."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import islice
from typing import Annotated, Literal

from msgspec import Struct

from faultbridge.model.cluster.jobs import Job as RecordedJob
from faultbridge.model.event_data import doc
from faultbridge.model.storage import jobs
from faultbridge.model.storage.jobs import FollowedJob
from faultbridge.record.ports.table import Table
from faultbridge.record.queries import query_all, recorded_job
from faultbridge.repair.registry.documents import Document, shared


class JobVerdict(Document, frozen=True, kw_only=True):
    """The recorded verdict on a job: whether it may restart, and the cause of its failure."""

    outlook: Annotated[str, doc("`RESTART`, `RESTART_WITHOUT` some nodes, or `STOP`.")]
    nodes: Annotated[tuple[str, ...], doc("Nodes that a restart leaves out.")]
    mechanism: Annotated[str | None, doc("The cause; null if it is unknown.")]
    hardware: Annotated[str, doc("`blamed`, `acquitted` or `undetermined`.")]


class RequestedCheckpoint(Document, frozen=True, kw_only=True):
    """A request to save a checkpoint; the job answers with its id."""

    id: str
    requested_by: Annotated[str, doc("Node and fault that put the work at risk.")]
    deadline: datetime


class Job(Document, frozen=True, kw_only=True):
    """A job: its nodes, the nodes whose faults affected it, and whether it may resume."""

    job_id: str
    cluster: str
    name: str | None
    nodes: tuple[str, ...]
    ranks: Annotated[dict[str, str], doc("Global ranks by node, such as `0-7`, as far as they are known.")]
    started_at: datetime
    ended_at: datetime | None
    outcome: str | None
    state: Annotated[
        Literal["running", "stalled", "ended", "waiting", "resumable"],
        doc(
            "`waiting`: it ended less than seven days ago, its affected nodes are not back, and its verdict "
            "is not STOP. `stalled`: its step does not advance."
        ),
    ]
    affected_nodes: tuple[str, ...]
    attempt: Annotated[int, doc("Number of this run of the job, from 1.")]
    repeated_attempts: Annotated[
        int, doc("Number of the last runs before this one that ended for the same reason without progress.")
    ]
    stalled_at: datetime | None
    loss_alarm: Annotated[
        str | None, doc("What is wrong with the last loss: `not_finite` or `spike`; null if nothing is.")
    ]
    resumable_at: datetime | None
    checkpoint: Annotated[RequestedCheckpoint | None, doc("Request that the running job has not answered yet.")]
    verdict: JobVerdict | None


def job_document(job: RecordedJob, now: datetime) -> Job:
    """Return a job as a document: its nodes, those whose faults affected it, its state at `now`, and its verdict."""
    asked = job.requested_checkpoint
    return shared(
        Job,
        job,
        job_id=job.id,
        ranks=dict(job.ranks),
        state=job.state_at(now),
        affected_nodes=tuple(sorted(job.affected)),
        attempt=job.attempts.number,
        repeated_attempts=job.attempts.repeated,
        loss_alarm=job.alarm,
        checkpoint=shared(RequestedCheckpoint, asked) if asked else None,
        verdict=shared(JobVerdict, job.verdict) if job.verdict else None,
    )


class FollowedJobs(Struct, frozen=True):
    """Some followed jobs (running, or possibly resumable), sorted by id, and their total number."""

    listed: tuple[RecordedJob, ...]
    total: int

    def documents(self, now: datetime) -> tuple[Job, ...]:
        """Return the listed jobs as documents, with their states at `now`."""
        return tuple(job_document(job, now) for job in self.listed)


class JobViews(Struct, frozen=True):
    """Reads jobs from the table; its lists contain only followed jobs."""

    table: Table

    def job(self, cluster: str, job_id: str) -> RecordedJob:
        """Return a job; an unknown job raises Rejected `unknown_job`."""
        return recorded_job(self.table, cluster, job_id)

    def all(self, cluster: str) -> tuple[RecordedJob, ...]:
        """Return every followed job of a cluster, sorted by id."""
        return self._read(cluster, self._rows(cluster))

    def first(self, cluster: str, limit: int, node: str | None = None) -> FollowedJobs:
        """Return at most `limit` followed jobs of a cluster or node, and their total number."""
        rows = [one for one in self._rows(cluster) if node is None or node in one.nodes]
        return FollowedJobs(self._read(cluster, rows[:limit]), len(rows))

    def page(self, cluster: str, after: str | None, limit: int) -> tuple[tuple[RecordedJob, ...], str | None]:
        """Return the followed jobs after an id, and the id for the next page, or None."""
        rows = list(islice(self._rows(cluster, after, limit + 1), limit + 1))
        return self._read(cluster, rows[:limit]), rows[limit - 1].id if len(rows) > limit else None

    def _rows(self, cluster: str, after: str | None = None, page_size: int | None = None) -> Iterator[FollowedJob]:
        after_row = jobs.followed_job_key(cluster, after).sk if after is not None else None
        partition = jobs.followed_partition(cluster)
        rows = query_all(self.table, partition, prefix=jobs.FOLLOWED, after=after_row, page_size=page_size)
        return map(jobs.read_followed, rows)

    def _read(self, cluster: str, rows: Iterable[FollowedJob]) -> tuple[RecordedJob, ...]:
        found = self.table.get_many([jobs.job_key(cluster, one.id) for one in rows])
        return tuple(sorted(map(jobs.read_job, found.values()), key=lambda job: job.id))
