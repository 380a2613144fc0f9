"""Where the items of a job stand."""

from __future__ import annotations

from faultbridge.storage.keys import cluster_partition
from faultbridge.storage.writes import Key

RUNNING = "RUNNING#"
LAST_LINK = ":"
"""Sorts behind every link, which begin with a time, and before the job itself."""


def job(cluster: str, job_id: str) -> Key:
    """Return the key of a job: where it runs and since when."""
    return Key(job_partition(cluster, job_id), "JOB")


def running_job(cluster: str, job_id: str) -> Key:
    """Return the key of the row by which a job is found while it runs."""
    return Key(cluster_partition(cluster), f"{RUNNING}{job_id}")


def job_partition(cluster: str, job_id: str) -> str:
    """Return the partition of what is known to concern a job."""
    return f"JOB#{cluster}#{job_id}"


def job_link(cluster: str, job_id: str, place: str) -> Key:
    """Return the key of the link from a job to one entry."""
    return Key(job_partition(cluster, job_id), place)
