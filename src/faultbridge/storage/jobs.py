"""Items of jobs: the job itself, and the row by which it is found while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from faultbridge.domain.jobs import Job
from faultbridge.domain.times import from_text, to_text
from faultbridge.storage import items
from faultbridge.storage.keys import cluster_partition
from faultbridge.storage.writes import Absent, Delete, Equals, Key, Put, Write


def job_writes(job: Job, before: Job | None, now: datetime) -> tuple[Write, ...]:
    """Return the writes that keep a job, if nobody wrote it meanwhile."""
    mine = Equals("version", before.version) if before else Absent()
    kept = Put(items.item(job_key(job.cluster, job.id), now, _stored(job)), when=mine)
    row = running_job_key(job.cluster, job.id)
    if not job.runs:
        return kept, Delete(row)
    return kept, Put(items.item(row, now, {"job_id": job.id, "nodes": list(job.nodes)}))


def read_job(found: Mapping[str, Any]) -> Job:
    """Read a job back."""
    ended_at = found["ended_at"]
    return Job(
        cluster=found["cluster"],
        id=found["job_id"],
        nodes=tuple(found["nodes"]),
        started_at=from_text(found["started_at"]),
        name=found["name"],
        ended_at=from_text(ended_at) if ended_at else None,
        outcome=found["outcome"],
        version=int(found["version"]),
        hits=tuple(found.get("hits", ())),
    )


def nodes_of(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Read from the row of a running job where it runs."""
    return tuple(row["nodes"])


def _stored(job: Job) -> dict[str, Any]:
    return {
        "cluster": job.cluster,
        "job_id": job.id,
        "name": job.name,
        "nodes": list(job.nodes),
        "started_at": to_text(job.started_at),
        "ended_at": to_text(job.ended_at) if job.ended_at else None,
        "outcome": job.outcome,
        "version": job.version,
        "hits": list(job.hits),
    }


RUNNING = "RUNNING#"
LAST_LINK = ":"
"""Sorts behind every link, which begin with a time, and before the job itself."""


def job_key(cluster: str, job_id: str) -> Key:
    """Return the key of a job: where it runs and since when."""
    return Key(job_partition(cluster, job_id), "JOB")


def running_job_key(cluster: str, job_id: str) -> Key:
    """Return the key of the row by which a job is found while it runs."""
    return Key(cluster_partition(cluster), f"{RUNNING}{job_id}")


def job_partition(cluster: str, job_id: str) -> str:
    """Return the partition of what is known to concern a job."""
    return f"JOB#{cluster}#{job_id}"


def job_link(cluster: str, job_id: str, place: str) -> Key:
    """Return the key of the link from a job to one entry."""
    return Key(job_partition(cluster, job_id), place)
