"""Find the nodes and the time window from which `explain` reads recorded faults for a job or a case."""

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
    """What a stack recorded about a failure: a time window, and the failed job if it is known.

    - `window`: the nodes and the time range whose recorded faults are evidence
    - `job`: the job as a document, or None if no job is known; the fields below are then empty
    - `ranks`: the node of each rank of the job
    - `reason`: the recorded reason why the job ended
    - `affected`: the nodes whose faults were recorded on the job
    """

    window: RecordedWindow
    job: Document | None = None
    ranks: Mapping[int, str] = field(default_factory=dict)
    reason: str = ""
    affected: frozenset[str] = frozenset()


def of_case(session: Session, case_id: str, span: timedelta | None) -> Recorded:
    """Return the job that a case affected last, with the time window that `of_job` computes for the job.

    If the case affected no job, or if this job succeeded, the result has no job. Its window then contains only the node
    of the case, and ends when the case was opened. `span` is the minimum length of this window; None means the longest
    time after which a fault can still explain a failure.
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
    """Return a job with the time window whose recorded faults can explain the failure.

    - The window ends when the job ended. For a running job, the window ends at `runs_until`, or now if that is None.
    - Normally, the window starts `span` before its end, but not before the job started. `span` None means the longest
      time after which a fault can still explain a failure.
    - A job can hang for hours after a fault. The window therefore starts earlier if a fault that was recorded for the
      job, or a fault of an open case of its nodes, began earlier.
    """
    cluster, ended_at = job.cluster, job.ended_at or runs_until or session.now()
    since = max(job.started_at, ended_at - (span or _longest()))
    keys = [NodeKey(cluster, node) for node in job.nodes]
    since = min([_since(session, keys, since, ended_at), *map(hit_since, job.hits)])
    facts = {
        "name": job.name,
        "state": job.state_at(session.now()),
        "outcome": job.outcome,
        "ended_at": json_time(job.ended_at),
    }
    window = RecordedWindow(f"job {job.id}", cluster, frozenset(job.nodes), since, ended_at)
    return Recorded(
        window,
        {"job_id": job.id, **facts},
        node_of_rank(job.ranks),
        _reason(session, job),
        frozenset(job.affected),
    )


def _longest() -> timedelta:
    return timedelta(seconds=packaged_weights().limits["before_seconds"])


def _since(session: Session, keys: Iterable[NodeKey], since: datetime, until: datetime) -> datetime:
    """Return `since`, or an earlier time at which a live case or a severe fault of its node began.

    A node counts if it is in `keys` and its case was opened by `until`, the end of the time window. A severe fault is
    active and has the severity `error` or `fatal`. The result is at most seven days (`RESUME_WITHIN`) before `until`,
    unless `since` is earlier.
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
    lines = session.timeline.entries(TimelineQuery(job.cluster, job=job.id, types=(EntryType.JOB,)))
    ends = [line.event["data"]["reason"] for line in lines if line.event["data"]["change"] == "ended"]
    return str(ends[-1]) if ends and not job.runs else ""
