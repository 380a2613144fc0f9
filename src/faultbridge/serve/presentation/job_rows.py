"""Job rows: the jobs of a node or a cluster, as rows of a list and as lanes of a chart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from faultbridge.repair.registry.job_views import Job
from faultbridge.serve.presentation.history import Bar, Lane, Span
from faultbridge.serve.presentation.tones import JOB, VERDICT, Mark, Tone, mark

MAX_LISTED = 4


class JobRow(Struct, frozen=True):
    """One row of a list of jobs; `verdict` is None if no verdict is recorded."""

    job: Job
    state: Mark
    verdict: Mark | None
    affected: str


def job_rows(jobs: Iterable[Job]) -> tuple[JobRow, ...]:
    """Return the rows of a list of jobs, one for each job document."""
    return tuple(
        JobRow(
            one,
            job_state(one),
            mark(one.verdict.outlook, VERDICT) if one.verdict else None,
            _listed(one.affected_nodes),
        )
        for one in jobs
    )


def _listed(names: Sequence[str]) -> str:
    return ", ".join((*names[:MAX_LISTED], *(["..."] if names[MAX_LISTED:] else [])))


def job_state(job: Job) -> Mark:
    """Return the state of a job, and its outcome if it has ended, as a mark (text with a tone)."""
    state = mark(job.state, JOB)
    outcome = mark(job.outcome, JOB) if job.outcome else None
    if outcome is None:
        return state
    shown = outcome.text if job.state == "ended" else f"{outcome.text}, {_STATES.get(job.state, state.text)}"
    return Mark(shown, outcome.tone if job.state == "ended" else state.tone)


_STATES = {"waiting": "waits for its nodes", "resumable": "may resume"}


def job_lanes(jobs: Iterable[Job], node: str, span: Span) -> tuple[Lane, ...]:
    """Return one lane for each job, with a bar that states whether a fault of `node` affected it."""
    return tuple(Lane(f"job {one.job_id}", (_job_bar(one, node, span),)) for one in jobs)


def _job_bar(job: Job, node: str, span: Span) -> Bar:
    ended = job.ended_at
    tone = Tone.BAD if node in job.affected_nodes else Tone.WORK
    text = "affected by a fault of this node" if node in job.affected_nodes else job_state(job).text
    detail = f"{job.name or ''} on {len(job.nodes)} nodes".strip()
    start = job.started_at
    return Bar(start, max(ended or span.end, start), text, tone, detail, running=ended is None and span.running)
