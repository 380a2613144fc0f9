"""Job items: a training job, its row while Faultbridge follows it, and links to its timeline entries."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct, field

from faultbridge.model.cluster.jobs import Job, Progress
from faultbridge.model.storage import items
from faultbridge.model.storage.codec import dump, load
from faultbridge.model.storage.keys import shard_partition
from faultbridge.model.storage.writes import Absent, Delete, Equals, Item, Key, Put, Update, Work, Write
from faultbridge.model.times import to_text

JOB = "JOB#"

FOLLOWED = "FOLLOWED#"
"""The prefix of the rows of followed jobs; `FollowedJob` states which jobs Faultbridge follows."""


class FollowedJob(Struct, frozen=True, kw_only=True):
    """The row of a followed job.

    Faultbridge follows a job while it runs, may become resumable, has callbacks to deliver, or has nodes whose stored
    job list must still be updated. `is_marked` is True if all these lists are updated.

    From the row alone, it can be decided whether a node's fault concerns the job.
    """

    id: str = field(name="job_id")
    nodes: frozenset[str]
    affected: frozenset[str]
    callbacks: tuple[str, ...]
    is_marked: bool = True
    ended_at: datetime | None
    version: int


LAST_LINK = ":"
"""A sort key after every link of a job (they start with a time) and before the job's own item."""


def job_key(cluster: str, job_id: str) -> Key:
    """Return the table key of a training job."""
    return Key(job_partition(cluster, job_id), "JOB")


def followed_job_key(cluster: str, job_id: str) -> Key:
    """Return the table key of a job's row in the list of followed jobs (`FollowedJob`)."""
    return Key(followed_partition(cluster), f"{FOLLOWED}{job_id}")


def followed_partition(cluster: str) -> str:
    """Return the partition with a cluster's followed jobs, which is the partition of its first shard."""
    return shard_partition(cluster, 0)


def job_partition(cluster: str, job_id: str) -> str:
    """Return the table partition of a job and of the links to its timeline entries."""
    return f"{JOB}{cluster}#{job_id}"


def job_of(partition: str) -> tuple[str, str]:
    """Return the cluster and the job id from the name of a job's partition."""
    _, cluster, job_id = partition.split("#", 2)
    return cluster, job_id


def progress_key(cluster: str, job_id: str) -> Key:
    """Return the table key of the item with a job's training progress."""
    return Key(job_partition(cluster, job_id), "PROGRESS")


def progress_write(job: Job, before: Progress | None, after: Progress, due_at: datetime | None, now: datetime) -> Write:
    """Return the write of a job's progress and its timer.

    `before` is the stored progress that the caller has read, which may be of an earlier run of the job, or None. The
    write fails if the stored progress has changed since. The timer is due at `due_at`; with None, there is no timer.
    """
    row: Item = {
        "version": before.version + 1 if before else 1,
        "run": to_text(after.run),
        "step": after.step,
        "advanced_at": to_text(after.advanced_at),
        "seen_at": to_text(after.seen_at),
        "losses": [repr(one) for one in after.losses],
        "step_ms": list(after.step_ms),
        "rollback": list(after.rollback) if after.rollback else None,
    }
    timer = Work.TIMER.row(job.cluster, 0, job.id, to_text(due_at)) if due_at else {}
    unchanged = Equals("version", before.version) if before else Absent()
    return Put(items.item(progress_key(job.cluster, job.id), now, row | timer), when=unchanged)


def without_timer(key: Key, version: int) -> Write:
    """Return the write that removes the timer of a job's progress; it fails if the progress changed."""
    return Update(key, remove=(("gsi4pk",), ("gsi4sk",)), when=Equals("version", version))


def read_progress(row: Item) -> Progress:
    """Return the training progress that a table item stores."""
    return load(Progress, row)


def job_link(cluster: str, job_id: str, position: str) -> Key:
    """Return the table key of the link from a job to one of its timeline entries.

    `position` is the sort key, which starts with the time of the entry, so that the links are in the order of time.
    """
    return Key(job_partition(cluster, job_id), position)


def job_writes(job: Job, before: Job | None, now: datetime) -> tuple[Write, ...]:
    """Return the writes that store a job and add, update or remove its row in the list of followed jobs.

    The writes fail if the stored version of the job is not that of `before`. With None as `before`, they fail if the
    job is already stored.
    """
    unchanged = Equals("version", before.version) if before else Absent()
    attributes = {"version": job.version, "job": dump(job)}
    stored = Put(items.item(job_key(job.cluster, job.id), now, attributes), when=unchanged)
    followed = followed_job_key(job.cluster, job.id)
    if not job.runs and not job.may_resume and not job.callbacks and not job.to_mark:
        return stored, Delete(followed)
    row: Item = {
        "job_id": job.id,
        "nodes": list(job.nodes),
        "affected": [*sorted(job.affected)],
        "callbacks": list(job.callbacks),
        "is_marked": not job.to_mark,
        "ended_at": to_text(job.ended_at) if job.ended_at else None,
        "version": job.version,
    }
    return stored, Put(items.item(followed, now, row))


def unfollow(cluster: str, followed: FollowedJob) -> Write:
    """Return the write that removes a job from the list of followed jobs.

    The write fails if the job's row has changed since the caller read `followed`.
    """
    return Delete(followed_job_key(cluster, followed.id), when=Equals("version", followed.version))


def read_job(row: Item) -> Job:
    """Return the training job that a table item stores."""
    return items.stored_value(Job, row, "job")


def read_followed(row: Item) -> FollowedJob:
    """Return a followed job from its row in the list of followed jobs."""
    return load(FollowedJob, row)
