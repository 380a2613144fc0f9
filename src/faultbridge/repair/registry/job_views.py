"""Job views: reads jobs by id, by node and by cluster, and returns them as JSON documents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import islice
from typing import Any

from msgspec import Struct, to_builtins

from faultbridge.model.cluster.jobs import Job
from faultbridge.model.storage import jobs
from faultbridge.model.storage.jobs import FollowedJob
from faultbridge.model.times import to_text
from faultbridge.record.ports import Table
from faultbridge.record.queries import query_all, recorded_job


class FollowedJobs(Struct, frozen=True):
    """Some followed jobs (running, or possibly resumable), sorted by id, and their total number."""

    listed: tuple[Job, ...]
    total: int

    def documents(self, now: datetime) -> tuple[dict[str, Any], ...]:
        """Return the listed jobs as JSON, with their states at `now`."""
        return tuple(job_document(job, now) for job in self.listed)


class JobViews(Struct, frozen=True):
    """Reads jobs from the table; its lists contain only followed jobs."""

    table: Table

    def job(self, cluster: str, job_id: str) -> Job:
        """Return a job; an unknown job raises Rejected `unknown_job`."""
        return recorded_job(self.table, cluster, job_id)

    def all(self, cluster: str) -> tuple[Job, ...]:
        """Return every followed job of a cluster, sorted by id."""
        return self._read(cluster, self._rows(cluster))

    def first(self, cluster: str, limit: int, node: str | None = None) -> FollowedJobs:
        """Return at most `limit` followed jobs of a cluster or node, and their total number."""
        rows = [one for one in self._rows(cluster) if node is None or node in one.nodes]
        return FollowedJobs(self._read(cluster, rows[:limit]), len(rows))

    def page(self, cluster: str, after: str | None, limit: int) -> tuple[tuple[Job, ...], str | None]:
        """Return the followed jobs after an id, and the id for the next page, or None."""
        rows = list(islice(self._rows(cluster, after, limit + 1), limit + 1))
        return self._read(cluster, rows[:limit]), rows[limit - 1].id if len(rows) > limit else None

    def _rows(self, cluster: str, after: str | None = None, page_size: int | None = None) -> Iterator[FollowedJob]:
        after_row = jobs.followed_job_key(cluster, after).sk if after is not None else None
        partition = jobs.followed_partition(cluster)
        rows = query_all(self.table, partition, prefix=jobs.FOLLOWED, after=after_row, page_size=page_size)
        return map(jobs.read_followed, rows)

    def _read(self, cluster: str, rows: Iterable[FollowedJob]) -> tuple[Job, ...]:
        found = self.table.get_many([jobs.job_key(cluster, one.id) for one in rows])
        return tuple(sorted(map(jobs.read_job, found.values()), key=lambda job: job.id))


def job_document(job: Job, now: datetime) -> dict[str, Any]:
    """Return a job as JSON: nodes, nodes whose faults affected the job, its state at `now`, and recorded verdict."""
    return {
        "cluster": job.cluster,
        "job_id": job.id,
        "name": job.name,
        "nodes": list(job.nodes),
        "ranks": dict(job.ranks),
        "started_at": to_text(job.started_at),
        "ended_at": _text(job.ended_at),
        "outcome": job.outcome,
        "state": job.state_at(now),
        "stalled_at": _text(job.stalled_at),
        "loss_alarm": job.alarm,
        "affected_nodes": sorted(job.affected),
        "resumable_at": _text(job.resumable_at),
        "verdict": to_builtins(job.verdict) | {"nodes": list(job.verdict.nodes)} if job.verdict else None,
    }


def _text(at: datetime | None) -> str | None:
    return to_text(at) if at else None
