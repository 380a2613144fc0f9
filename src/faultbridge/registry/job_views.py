"""Job views: reads jobs by id, by node and by cluster, and returns them as documents."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import islice
from typing import Any

from faultbridge.domain.cluster.jobs import Job
from faultbridge.domain.times import to_text
from faultbridge.errors import UnknownName
from faultbridge.ledger.queries import query_all
from faultbridge.ports import Table
from faultbridge.storage import jobs

MAX_JOBS = 100


@dataclass(frozen=True, slots=True)
class JobViews:
    """Reads the jobs that are followed: those that run, or ended and may become resumable. Writes nothing."""

    table: Table

    def job(self, cluster: str, job_id: str) -> Job:
        """Return a job; rejects one without a recorded start as `unknown_job`."""
        found = self.table.get(jobs.job_key(cluster, job_id))
        if found is None:
            raise UnknownName("job", job_id, cluster)
        return jobs.read_job(found)

    def followed(self, cluster: str, node: str | None = None, limit: int = MAX_JOBS) -> tuple[Job, ...]:
        """Return at most `limit` followed jobs of a cluster, or of one of its nodes, by id."""
        ids = [one.id for one in islice(self._rows(cluster, node), limit)]
        found = self.table.get_many([jobs.job_key(cluster, one) for one in ids])
        return tuple(sorted(map(jobs.read_job, found.values()), key=lambda job: job.id))

    def _rows(self, cluster: str, node: str | None) -> Iterator[jobs.FollowedJob]:
        rows = query_all(self.table, jobs.followed_partition(cluster), prefix=jobs.FOLLOWED)
        return (one for one in map(jobs.read_followed, rows) if node is None or node in one.nodes)


def job_document(job: Job) -> dict[str, Any]:
    """Return a job as a document: its nodes, those whose faults affected it, its state and its recorded verdict."""
    return {
        "cluster": job.cluster,
        "job_id": job.id,
        "name": job.name,
        "nodes": list(job.nodes),
        "ranks": dict(job.ranks),
        "started_at": to_text(job.started_at),
        "ended_at": _text(job.ended_at),
        "outcome": job.outcome,
        "state": job.state,
        "stalled_at": _text(job.stalled_at),
        "loss_alarm": job.alarm,
        "affected_nodes": sorted(job.affected),
        "resumable_at": _text(job.resumable_at),
        "verdict": asdict(job.verdict) | {"nodes": list(job.verdict.nodes)} if job.verdict else None,
    }


def _text(at: datetime | None) -> str | None:
    return to_text(at) if at else None
