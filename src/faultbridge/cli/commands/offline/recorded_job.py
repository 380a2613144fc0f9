"""Find the time window and the nodes whose recorded faults `explain` uses for a job or a case."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from faultbridge.cli.render.output import Document
from faultbridge.cli.render.times import json_time
from faultbridge.cli.stack.session import Session
from faultbridge.domain.cluster.jobs import RESUME_WITHIN, SUCCEEDED, Job
from faultbridge.domain.cluster.ranks import node_of_rank
from faultbridge.domain.entries import EntryType
from faultbridge.domain.faults import Severity
from faultbridge.domain.nodes import NodeKey
from faultbridge.explain.signals.recorded import RecordedWindow
from faultbridge.explain.verdict.mechanisms import packaged_weights
from faultbridge.jobs.changes import hit_since
from faultbridge.ledger.timeline import TimelineQuery


@dataclass(frozen=True, slots=True)
class Recorded:
    """The nodes and the time window whose recorded faults are evidence, and the job that they may explain.

    `job` is None if no job is known. `reason` is the recorded reason why the job ended. `affected` contains the nodes
    of the job that have a severe fault.
    """

    window: RecordedWindow
    job: Document | None = None
    ranks: Mapping[int, str] = field(default_factory=dict)
    reason: str = ""
    affected: frozenset[str] = frozenset()


def of_case(session: Session, case_id: str, span: timedelta | None) -> Recorded:
    """Return the time window of the latest job that a case affected.

    If there is no such job, or if the job succeeded, the window is the time before the case was opened. It then
    contains only the node of the case.
    """
    view = session.directory.case(case_id)
    key, opened_at = view.key, view.case.opened_at
    lines = session.timeline.entries(TimelineQuery(case=case_id, types=(EntryType.JOB,)))
    hits = [line.event["data"]["job_id"] for line in lines if line.event["data"]["change"] == "hit"]
    job = session.jobs.job(key.cluster, hits[-1]) if hits else None
    if job is not None and job.outcome != SUCCEEDED:
        return of_job(session, job, span, opened_at)
    since = _since(session, [key], opened_at - (span or _longest()), opened_at)
    return Recorded(RecordedWindow(f"case {case_id}", key.cluster, frozenset({key.node}), since, opened_at))


def of_job(session: Session, job: Job, span: timedelta | None, runs_until: datetime | None = None) -> Recorded:
    """Return the time window of a job.

    The window ends with the job. If the job is running, it ends at `runs_until`, or now. A job can hang for hours after
    a fault, so the window contains each fault that was recorded for the job.
    """
    cluster, ended_at = job.cluster, job.ended_at or runs_until or session.now()
    since = max(job.started_at, ended_at - (span or _longest()))
    keys = [NodeKey(cluster, node) for node in job.nodes]
    since = min([_since(session, keys, since, ended_at), *map(hit_since, job.hits)])
    facts = {"name": job.name, "state": job.state, "outcome": job.outcome, "ended_at": json_time(job.ended_at)}
    window = RecordedWindow(f"job {job.id}", cluster, frozenset(job.nodes), since, ended_at)
    return Recorded(
        window,
        {"job_id": job.id, **facts},
        node_of_rank(job.ranks),
        _reason(session, job),
        frozenset(job.affected),
    )


def _longest() -> timedelta:
    """Return the maximum time between a fault of a node and the failure of a job that it can explain."""
    return timedelta(seconds=packaged_weights().limits["before_seconds"])


def _since(session: Session, keys: Iterable[NodeKey], since: datetime, until: datetime) -> datetime:
    """Return the start of a time window, moved back to include the faults of open cases.

    A fault counts if its node is in `keys` and its case was opened before `until`.
    """
    states = session.application.ledger.append.read_many(keys)
    cases = [(state, state.live_case.opened_at) for state in states if state.live_case is not None]
    begun = [
        min([opened_at, *(one.since for one in state.active() if one.severity.rank >= Severity.ERROR.rank)])
        for state, opened_at in cases
        if opened_at <= until
    ]
    return min([since, *(max(one, until - RESUME_WITHIN) for one in begun)])


def _reason(session: Session, job: Job) -> str:
    """Return the reason that was recorded with the end of a job; empty while the job is running."""
    lines = session.timeline.entries(TimelineQuery(job.cluster, job=job.id, types=(EntryType.JOB,)))
    ends = [line.event["data"]["reason"] for line in lines if line.event["data"]["change"] == "ended"]
    return str(ends[-1]) if ends and not job.runs else ""
