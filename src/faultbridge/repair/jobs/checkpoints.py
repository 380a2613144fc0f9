"""Checkpoints: asks jobs to save a checkpoint while their work on a node is at risk, and records their answers.

A job gets the request with the answer to its next heartbeat, with the event, and by the callbacks that it opted in to.
A request that is repeated after a crash or a lost answer has the same id, so that the job saves once. After all jobs of
a node answered (`answered`), its work may leave.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from datetime import datetime, timedelta

from msgspec import Struct

from faultbridge.decide.entry_builder import node_list, reference_data
from faultbridge.decide.work import permit_drain
from faultbridge.model.catalog import WorkEffect
from faultbridge.model.cluster.config import ANNOTATION, SLURM, SLURM_SIGNAL, ClusterConfig
from faultbridge.model.cluster.jobs import CHECKPOINT_INTERVAL, Checkpoint, Job
from faultbridge.model.conditions import Condition
from faultbridge.model.entries import Draft, Transition, limited
from faultbridge.model.enums import Actor, EntryType, JobChangeKind
from faultbridge.model.errors import Rejected, UnknownName
from faultbridge.model.event_data import JobCheckpointData, JobImpact
from faultbridge.model.isolation import takes_work
from faultbridge.model.nodes import NodeState
from faultbridge.model.times import from_text, to_text
from faultbridge.model.values import replace
from faultbridge.record.rulebook import Rulebook, rules_of
from faultbridge.repair.jobs.callbacks import DeliverCallbacks
from faultbridge.repair.jobs.changes import JobChange, JobEntry
from faultbridge.repair.jobs.jobs import Jobs

SPOT, SPOT_NOTICE = "cloud.spot_interruption", timedelta(minutes=2)
_ENDS = ("not_before", "start_time", "ends_at")
_DATED_BY = frozenset({"ec2-status", "health-event", "ec2-event"})


class Suspicion(Struct, frozen=True):
    """The latest fault that puts the work of a node at risk, since when, and until when the provider lets it run."""

    node: str
    condition: Condition
    since: datetime
    deadline: datetime | None = None


def suspicion_of(state: NodeState, config: ClusterConfig, now: datetime) -> Suspicion | None:
    """Return why the work of a node is at risk, or None.

    New work must already be kept off the node (its isolation is requested), if an orchestrator can do that, or the
    provider must repair it.
    """
    kept = config.follows_provider or (config.repairs and (not takes_work(state) or config.orchestrator == "none"))
    found = [one for one in state.active() if one.known_incarnation and one.work is WorkEffect.AT_RISK]
    if not kept or not found:
        return None
    latest = max(found, key=lambda one: one.since)
    ends = (at for one in found if (at := _ends_at(one)) is not None and at > now)
    since = max(latest.since, state.permitted_at or latest.since)
    return Suspicion(state.key.node, latest, since, min(ends, default=None))


def _ends_at(condition: Condition) -> datetime | None:
    dates = [condition.attributes.get(name) for name in _ENDS] if condition.sources & _DATED_BY else []
    try:
        stated = min((from_text(date) for date in dates if date), default=None)
    except ValueError:  # the date is text of a report
        stated = None
    return condition.since + SPOT_NOTICE if stated is None and condition.code == SPOT else stated


def answered(jobs: Iterable[Job], node: str, since: datetime) -> bool:
    """Return whether all jobs that run on a node saved a checkpoint after its work was at risk, or shortly before."""
    running = [job for job in jobs if job.runs and node in job.nodes]
    return all(job.checkpoint is not None and job.checkpoint.is_answered(since) for job in running)


class JobCheckpoints(Struct, frozen=True):
    """Requests checkpoints of the jobs on a node."""

    jobs: Jobs
    rulebook: Rulebook
    callbacks: DeliverCallbacks

    def request(self, state: NodeState) -> tuple[Job, ...]:
        """Ask the jobs on a node for a checkpoint if their work is at risk; return the jobs that are asked now.

        If all of them answered before, their work may leave a node whose fault precedes the loss of work.
        """
        cluster, now = state.key.cluster, self.jobs.clock.now()
        config, catalog = rules_of(self.rulebook, cluster).config, self.rulebook.catalog()
        suspicion = suspicion_of(state, config, now)
        if suspicion is None:
            return ()
        running = [row for row in self.jobs.rows(cluster) if row.ended_at is None and suspicion.node in row.nodes]
        asked = tuple(job for one in running if (job := self._request(config, one.id, suspicion)) is not None)
        may_drain = running and config.repairs and permit_drain(state, catalog) != state
        if may_drain and answered(self.jobs.read(cluster, running), suspicion.node, suspicion.since):
            self.jobs.append(state.key, lambda now, _: Transition(permit_drain(now, catalog)), actor=Actor.ISOLATE)
        for job in asked:
            self.callbacks.deliver_now(job)  # the sweep repeats those that fail
        return asked

    def _request(self, config: ClusterConfig, job_id: str, suspicion: Suspicion) -> Job | None:
        asked: list[str] = []

        def update(before: Job | None, now: datetime) -> Job | None:
            asked.clear()
            wanted = _wanted(before, suspicion, now) if before is not None else None
            if before is None or wanted is None:
                return None
            asked.append(wanted.id)
            return replace(before, checkpoint=wanted, callbacks=_carriers(before, config))

        def entry(job: Job, now: datetime) -> JobEntry:
            condition, data = suspicion.condition, _data(job, suspicion, now)
            draft = Draft(EntryType.JOB_CHECKPOINT, now, data, causation_id=condition.event_id, job_ids=(job.id,))
            return JobEntry(draft, Actor.CORRELATE, condition.severity)

        job = self.jobs.writer.write(config.cluster, job_id, update, entry)
        return job if asked else None


def answer_checkpoint(jobs: Jobs, cluster: str, job_id: str, checkpoint_id: str | None = None) -> Job:
    """Record that a job saved a checkpoint, as answer to a request; None answers its latest request.

    A repeated answer, and one to an earlier request, change nothing. Raises Rejected `unknown_job`, and `no_checkpoint`
    if no id is given and this run of the job was never asked.
    """

    def update(before: Job | None, now: datetime) -> Job | None:
        if before is None:
            raise UnknownName("job", job_id, cluster)
        if before.checkpoint is None and checkpoint_id is None:
            raise Rejected("no_checkpoint", f"no checkpoint was requested: job {job_id}; run `faultbridge job show`")
        asked = before.requested_checkpoint
        if asked is None or checkpoint_id not in {None, asked.id}:
            return None
        return replace(before, checkpoint=replace(asked, answered_at=now), callbacks=())

    change = JobChange(JobChangeKind.CHECKPOINTED, "the job saved the requested checkpoint")
    return jobs.writer.change(cluster, job_id, update, change)


def _wanted(job: Job, suspicion: Suspicion, now: datetime) -> Checkpoint | None:
    """Return the request that a job must get now, or None; a request that waits can get an earlier deadline."""
    asked, waiting = job.checkpoint, job.requested_checkpoint
    if not job.runs:
        return None
    deadline = min(now + CHECKPOINT_INTERVAL, suspicion.deadline or now + CHECKPOINT_INTERVAL)
    if waiting is not None and suspicion.deadline is not None and deadline < waiting.deadline:
        return replace(waiting, requested_at=now, deadline=deadline)
    if asked is not None and (asked.covers(suspicion.since) or now < asked.requested_at + CHECKPOINT_INTERVAL):
        return None
    name = "/".join((job.cluster, job.id, to_text(job.started_at), to_text(now)))
    digest = base64.b32encode(hashlib.sha256(name.encode()).digest()).decode().lower()[:16]
    return Checkpoint(f"ckpt-{digest}", f"{suspicion.node}, {suspicion.condition.code}", now, deadline)


def _carriers(job: Job, config: ClusterConfig) -> tuple[str, ...]:
    """Return the callbacks that carry a request. A Slurm job may name its signal in its comment, which Slurm has."""
    annotates = (ANNOTATION,) if ANNOTATION in config.job_callbacks else ()
    return (*annotates, SLURM_SIGNAL) if config.orchestrator == SLURM or job.checkpoint_signal else annotates


def _data(job: Job, suspicion: Suspicion, now: datetime) -> JobCheckpointData:
    condition, asked = suspicion.condition, job.checkpoint
    about = reference_data(condition.code, condition.component)
    return JobCheckpointData(
        job_id=job.id,
        name=job.name,
        checkpoint_id=asked.id if asked else "",
        deadline=asked.deadline if asked else now,
        risk=JobImpact(node=suspicion.node, about=about, message=limited(condition.message)),
        nodes=node_list(job.nodes),
        started_at=job.started_at,
    )
