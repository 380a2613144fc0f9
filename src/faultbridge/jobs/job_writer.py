"""Job writer: stores a job together with the entry that records its change, in one transaction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from faultbridge.dataclass import dataclass
from faultbridge.domain.cluster.jobs import Job
from faultbridge.domain.edges import Actor
from faultbridge.domain.entries import Draft, EntryType
from faultbridge.domain.faults import Severity
from faultbridge.domain.times import truncate
from faultbridge.errors import UnknownName
from faultbridge.jobs.changes import JobChange, entry_data
from faultbridge.ledger.append import Stack
from faultbridge.ledger.cluster_stream import append_to_cluster, cluster_writes
from faultbridge.ledger.queries import find_job
from faultbridge.ports import Clock, Table
from faultbridge.storage import items, jobs, keys

UpdateJob = Callable[[Job | None, datetime], Job | None]
"""Computes a job's next state from its stored state and the current time; None changes nothing."""


@dataclass(frozen=True, slots=True)
class JobEntry:
    """The entry that records a change of a job, before it gets a sequence number in the cluster's stream."""

    draft: Draft
    actor: Actor
    severity: Severity | None = None


MakeEntry = Callable[[Job, datetime], JobEntry]
"""Returns the entry for a job after its change."""


@dataclass(frozen=True, slots=True)
class JobWriter:
    """Reads and changes stored jobs.

    `change`, `describe` and `write` read the job, compute its next state and store it. After a conflict with another
    writer, they repeat all three steps. `store` does not repeat them.
    """

    table: Table
    clock: Clock
    stack: Stack

    def find(self, cluster: str, job_id: str) -> Job | None:
        """Return a job, or None if its start was not recorded."""
        return find_job(self.table, cluster, job_id)

    def change(self, cluster: str, job_id: str, update: UpdateJob, change: JobChange) -> Job:
        """Apply an update to a job, and record the change as an entry of type `Job Change`.

        `update` gets the stored job (None if its start was not recorded) and the current time. It returns the changed
        job, or None if nothing is to be written. The result of `change` is the job as stored. Raises Rejected
        `unknown_job` if the job's start was not recorded and `update` returns None.
        """
        return self.write(cluster, job_id, update, lambda job, now: change_entry(job, change, now))

    def describe(self, job: Job, described: Callable[[Job], Job]) -> Job:
        """Store descriptive fields of a running job, such as its name or ranks, without an entry.

        `described` is a function that adds these fields to a job. A job that has ended is not changed. The result is
        the job as stored.
        """

        def read_and_store() -> Job:
            before = self.find(job.cluster, job.id)
            if before is None or not before.runs:
                return before or job
            after = described(before)
            return before if after == before else self.store(before, after)

        if described(job) == job:
            return job
        return append_to_cluster(read_and_store)

    def store(self, before: Job, after: Job) -> Job:
        """Store a job without an entry, and return it. Raises Conflict if another writer changed the job."""
        after = replace(after, version=before.version + 1)
        self.table.transact(jobs.job_writes(after, before, truncate(self.clock.now())))
        return after

    def write(self, cluster: str, job_id: str, update: UpdateJob, entry: MakeEntry) -> Job:
        """Apply an update to a job and record it with an entry. Returns the job as stored.

        - `update` gets the stored job, or None if the job's start was not recorded, and the current time. It returns
          the changed job, or None if nothing is to be written.
        - `entry` returns the entry for the changed job.
        - After a conflict with another writer, both are called again.

        Raises Rejected `unknown_job` if the job's start was not recorded and `update` returns None.
        """

        def read_and_write() -> Job:
            before, now = self.find(cluster, job_id), truncate(self.clock.now())
            after = update(before, now)
            if after is None:
                if before is None:
                    raise UnknownName("job", job_id, cluster)
                return before
            after = replace(after, version=after.version + 1)
            made = entry(after, now)
            state = items.read_cluster(cluster, self.table.get(keys.cluster_state(cluster)))
            _, writes = cluster_writes(
                self.stack, state, state, (made.draft,), actor=made.actor, severity=made.severity, now=now
            )
            self.table.transact([*writes, *jobs.job_writes(after, before, now)])
            return after

        return append_to_cluster(read_and_write)


def change_entry(job: Job, change: JobChange, now: datetime) -> JobEntry:
    """Return the entry of type `Job Change` that records a change of a job."""
    impact, resume, callback = change.impact, change.resume, change.callback
    at, actor, case_id, cause = job.ended_at or job.started_at, Actor.CLI, None, None
    if impact is not None:
        at, actor, case_id = impact.condition.last_at, Actor.CORRELATE, impact.case_id
        cause = impact.condition.event_id
    elif resume is not None:
        at, actor, cause = job.resumable_at or now, Actor.SWEEP, resume.cause
    elif callback is not None:
        at, actor, cause = now, Actor.SWEEP, callback.cause
    data = entry_data(job, change)
    draft = Draft(EntryType.JOB, at, data, case_id=case_id, causation_id=cause, job_ids=(job.id,))
    return JobEntry(draft, actor, impact.condition.severity if impact else None)
