"""The changes of a job that are recorded as entries, and the data of these entries."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from msgspec import UNSET, Struct

from faultbridge.decide.entry_builder import node_list, reference_data
from faultbridge.model.cluster.jobs import Job
from faultbridge.model.conditions import Condition
from faultbridge.model.entries import Draft, limited
from faultbridge.model.enums import MAX_LISTED, Actor, EntryType, JobChangeKind, JobOutcome
from faultbridge.model.errors import UnknownName
from faultbridge.model.event_data import JobCallback, JobData, JobImpact, JobResume, RankMove
from faultbridge.model.fault_enums import Severity
from faultbridge.model.storage import items, jobs, keys
from faultbridge.model.times import from_text, to_text, truncate
from faultbridge.model.values import replace
from faultbridge.record.append import Stack
from faultbridge.record.cluster_stream import append_to_cluster, cluster_writes
from faultbridge.record.ports.table import Clock, Table
from faultbridge.record.queries import find_job


def step_of(table: Table, job: Job | None) -> int | None:
    """Return the highest step that the heartbeats of a job's run reported, or None without heartbeats."""
    row = table.get(jobs.progress_key(job.cluster, job.id)) if job is not None else None
    progress = jobs.read_progress(row) if row is not None else None
    return progress.step if job is not None and progress is not None and progress.run == job.started_at else None


class Impact(Struct, frozen=True):
    """A condition of a node that affects the jobs on it, with the node's case and instance."""

    node: str
    condition: Condition
    case_id: str | None = None
    instance_id: str | None = None

    @property
    def is_of_node(self) -> bool:
        """Return whether the job may resume only after the node is usable again or retired."""
        return self.condition.severity.rank >= Severity.ERROR.rank

    @property
    def key(self) -> str:
        """Return a key that is equal for all reports of one impact, so that a job records the impact once."""
        one = self.condition
        return f"{self.node} {one.key} {to_text(one.since)}"


def hit_since(key: str) -> datetime:
    """Return when the fault of an impact began, read from the key of the impact (`Impact.key`)."""
    return from_text(key.rpartition(" ")[2])


class Resume(Struct, frozen=True):
    """Why a job may resume, with the event that allowed it and the ranks that must move."""

    returned: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    retired: tuple[str, ...] = ()
    cause: str | None = None
    moves: tuple[RankMove, ...] = ()

    @property
    def reason(self) -> str:
        """Return the reason as text: how many nodes returned, were replaced or were retired."""
        parts = {"returned to service": self.returned, "replaced": self.replaced, "retired": self.retired}
        text = ", ".join(f"{len(nodes)} {name}" for name, nodes in parts.items() if nodes)
        return f"no affected node holds the job back any longer: {text}"


class CallbackResult(Struct, frozen=True):
    """The result of a callback, and the event that it delivered, if it still exists."""

    name: str
    delivered: bool
    cause: str | None


class JobChange(Struct, frozen=True):
    """A recorded change of a job: kind, reason, and what belongs to an impact, a resume or a callback."""

    kind: JobChangeKind
    reason: str
    impact: Impact | None = None
    resume: Resume | None = None
    callback: CallbackResult | None = None


def entry_data(job: Job, change: JobChange) -> JobData:
    """Return the `data` of the entry that records a change of a job."""
    callback = change.callback
    return JobData(
        job_id=job.id,
        name=job.name,
        change=change.kind,
        reason=change.reason,
        nodes=node_list(job.nodes),
        started_at=job.started_at,
        ended_at=job.ended_at,
        outcome=JobOutcome(job.outcome) if job.outcome else None,
        attempt=job.attempts.number,
        repeated_attempts=job.attempts.repeated,
        hit=_hit(change.impact) if change.impact else None,
        resume=_resume(change.resume) if change.resume else None,
        callback=JobCallback(name=callback.name, delivered=callback.delivered) if callback else UNSET,
    )


def _hit(impact: Impact) -> JobImpact:
    condition = impact.condition
    about = reference_data(condition.code, condition.component, condition.mode)
    return JobImpact(node=impact.node, about=about, message=limited(condition.message))


def _resume(resume: Resume) -> JobResume:
    return JobResume(
        returned=node_list(resume.returned),
        replaced=node_list(resume.replaced),
        retired=node_list(resume.retired),
        moves=tuple(sorted(resume.moves, key=lambda one: one.node)[:MAX_LISTED]),
    )


UpdateJob = Callable[[Job | None, datetime], Job | None]
"""Computes a job's next state from its stored state and the current time; None changes nothing."""


class JobEntry(Struct, frozen=True):
    """The entry that records a change of a job, before it gets a sequence number in the cluster's stream."""

    draft: Draft
    actor: Actor
    severity: Severity | None = None


MakeEntry = Callable[[Job, datetime], JobEntry]
"""Returns the entry for a job after its change."""


class JobWriter(Struct, frozen=True):
    """Reads and changes stored jobs; after a conflict, all but `store` compute the change again."""

    table: Table
    clock: Clock
    stack: Stack

    def find(self, cluster: str, job_id: str) -> Job | None:
        """Return a job, or None if its start was not recorded."""
        return find_job(self.table, cluster, job_id)

    def change(self, cluster: str, job_id: str, update: UpdateJob, change: JobChange) -> Job:
        """Apply an update to a job, and record it as an entry of type `Job Change`; see `write`."""
        return self.write(cluster, job_id, update, lambda job, now: change_entry(job, change, now))

    def describe(self, job: Job, described: Callable[[Job], Job]) -> Job:
        """Store descriptive fields of a running job, such as its name or ranks, without an entry."""

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
        """Apply `update` (None writes nothing), record `entry`, and return the job; raises `unknown_job`."""

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
