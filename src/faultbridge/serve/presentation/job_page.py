"""Job page: the faults that affected a job, why it ended, the evidence, and whether it may resume."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from msgspec import Struct

from faultbridge.decide import answers
from faultbridge.model.event_data import JobData, JobEvidence, JobExplainedData, JobImpact
from faultbridge.model.times import to_text
from faultbridge.record.entry_text import component_text, duration_text
from faultbridge.repair.registry.job_views import Job
from faultbridge.serve.presentation.case_answers import HAPPENED, Answer
from faultbridge.serve.presentation.entry_rows import Entries, EntryRow, ReadEntry, entries_with, entry_rows
from faultbridge.serve.presentation.grid import natural_order
from faultbridge.serve.presentation.history import Bar, Chart, Lane, Span, make_chart
from faultbridge.serve.presentation.tones import JOB, VERDICT, Mark, Tone, mark


class Hit(Struct, frozen=True):
    """A fault that affected the job: its time, its node, its reason, and its case, if there is one."""

    at: datetime
    node: str
    fault: str
    reason: str
    case_id: str | None
    target: str


HARDWARE = {
    "blamed": "A node's own source shows the fault that ended it.",
    "acquitted": "No fault of a node ended it.",
    "undetermined": "No node was shown to be at fault, and not every node was checked.",
}
_OUTLOOK = {
    "RESTART": "Yes: it may restart on the same nodes.",
    "RESTART_WITHOUT": "Yes, without {nodes}.",
    "STOP": "No: a restart would fail in the same way.",
}
_OUTCOMES = {
    "succeeded": "It succeeded",
    "failed": "It failed",
    "cancelled": "It was canceled",
    "unreported": "It ended with an unreported outcome",
}
_EXPLAIN = "faultbridge explain LOGS --job {job} --cluster {cluster} --record"


def job_answers(job: Job, verdict: JobExplainedData | None, hits: Sequence[Hit]) -> Iterator[Answer]:
    """Yield the questions about a job with their answers, from its verdict and its faults."""
    yield Answer(HAPPENED, tuple(_what_happened(job, hits)))
    if job.ended_at is None:
        return
    if verdict:
        why = (f"{verdict.summary}.", HARDWARE.get(verdict.hardware, ""))
        yield Answer("Why did it end?", tuple(filter(None, why)))
    elif job.outcome != "succeeded":
        yield Answer("Why did it end?", ("No explanation is recorded.",))
    if job.outcome != "succeeded":
        yield Answer("May it restart?", tuple(_may_restart(job)))


def job_todo(job: Job, verdict: JobExplainedData | None) -> answers.Answer:
    """Return what an operator should do about a job."""
    explain = _EXPLAIN.format(job=shlex.quote(job.job_id), cluster=job.cluster)
    if job.ended_at is None:
        steps = [answers.Step(text) for text in _while_it_runs(job)]
    else:
        text = (verdict.settles if verdict else "") or _TODO.get(job.state)
        steps = [answers.Step(text)] if text else []
        if not verdict and job.outcome != "succeeded":
            steps.append(answers.Step("Record an explanation.", explain))
    system = "The job runs." if job.ended_at is None else "The job has ended."
    return answers.Answer("job", "", system, tuple(steps), needs_you=bool(steps), runbook="")


_TODO = {
    "waiting": "Wait until its nodes are back, or restart it without them.",
    "resumable": "Restart it, if your scheduler has not done so.",
}
_ALARMS = {
    "not_finite": "Its loss is not finite. Look at its training log, and restart it from a checkpoint before that.",
    "spike": "Its loss rose suddenly. Look at its training log.",
}


def _while_it_runs(job: Job) -> Iterator[str]:
    if job.stalled_at:
        yield f"Look at the logs of its ranks: it has been stalled since {to_text(job.stalled_at)}."
    if job.loss_alarm:
        yield _ALARMS[job.loss_alarm]


def _what_happened(job: Job, hits: Sequence[Hit]) -> Iterator[str]:
    number = len(job.nodes)
    nodes = f"{number} node{'s' if number != 1 else ''}"
    yield f"{_OUTCOMES.get(job.outcome or '', 'It runs')} on {nodes}."
    listed = dict.fromkeys(f"{one.fault} of {one.node}" for one in hits)
    if listed:
        more = f", and {len(listed) - 8} more" if len(listed) > 8 else ""  # noqa: PLR2004 - as many as fit a card
        yield f"Faults of its nodes affected it: {'; '.join(list(listed)[:8])}{more}."
    elif job.affected_nodes:
        yield f"Faults of its nodes affected it: {', '.join(job.affected_nodes[:8])}."
    else:
        yield "No fault of its nodes is recorded for it."


def _may_restart(job: Job) -> Iterator[str]:
    verdict = job.verdict
    if verdict:
        without = ", ".join(verdict.nodes) or "the nodes of the verdict"
        yield _OUTLOOK.get(verdict.outlook, f"The recorded verdict is {verdict.outlook}.").format(nodes=without)
    if job.resumable_at:
        yield "Its faulty nodes are back, replaced or removed."
    elif job.affected_nodes and job.state == "waiting":
        yield f"Its faulty nodes are not back yet: {', '.join(job.affected_nodes[:8])}."
    elif not verdict:
        yield "Not known: no fault of its nodes and no explanation is recorded."


MAX_NODES = 400


class EvidenceRow(Struct, frozen=True):
    """One piece of evidence: its points, the name of its weight, what was found, where, and when."""

    points: int
    weight: str
    found: str
    where: str
    at: datetime | None


class JobPage(Struct, frozen=True):
    """The content of the page of a job; `explanation` is empty without a verdict."""

    job: Job
    state: Mark
    verdict: Mark | None
    duration: str
    answer: answers.Answer
    answers: tuple[Answer, ...]
    hits: tuple[Hit, ...]
    explanation: tuple[tuple[str, str], ...]
    cases: tuple[str, ...]
    evidence_for: tuple[EvidenceRow, ...]
    evidence_against: tuple[EvidenceRow, ...]
    nodes: Sequence[str]
    unlisted: int
    chart: Chart
    rows: tuple[EntryRow, ...]
    older: bool
    live: bool


def job_page(job: Job, entries: Entries, now: datetime, *, older: bool) -> JobPage:
    """Return the page of a job; `older` states that the job has entries before those in `entries`."""
    started, ended = job.started_at, job.ended_at
    run = [one for one in entries if one.at >= started or isinstance(one.data, JobExplainedData)]
    hits = tuple(_hit(one, one.data.hit) for one in entries_with(run, JobData) if one.data.change == "hit")
    verdict = next((one.data for one in reversed(run) if isinstance(one.data, JobExplainedData)), None)
    if verdict and (job.verdict is None or verdict.started_at not in {None, started}):
        verdict = None
    points = tuple(map(_evidence, verdict.evidence)) if verdict else ()
    names = sorted(job.nodes, key=lambda name: (name not in job.affected_nodes, natural_order(name)))
    return JobPage(
        job=job,
        state=job_state(job),
        verdict=mark(job.verdict.outlook, VERDICT) if job.verdict else None,
        duration=duration_text(int(((ended or now) - started).total_seconds() * 1000)),
        answer=job_todo(job, verdict),
        answers=tuple(job_answers(job, verdict, hits)),
        hits=hits,
        explanation=tuple(_explanation(verdict)) if verdict else (),
        cases=verdict.cases if verdict else (),
        evidence_for=tuple(one for one in points if one.points > 0),
        evidence_against=tuple(one for one in points if one.points <= 0),
        nodes=names[:MAX_NODES],
        unlisted=max(len(names) - MAX_NODES, 0),
        chart=_chart(job, run, hits, ended, now),
        rows=entry_rows(entries),
        older=older,
        live=_is_open(job),
    )


def _is_open(job: Job) -> bool:
    return job.ended_at is None or job.state == "waiting"


def _hit(entry: ReadEntry[JobData], hit: JobImpact | None) -> Hit:
    about = hit.about if hit else None
    code = about.code if about else None
    fault = f"{code or 'unknown fault'} {component_text(about.component if about else None)}".strip()
    reason = f"{code}, {hit.message}" if hit and hit.message else ""
    return Hit(entry.at, hit.node if hit else "", fault, reason, entry.metadata.case_id, entry.target)


def _evidence(point: JobEvidence) -> EvidenceRow:
    rank = f"rank {point.rank}" if point.rank is not None else ""
    file = f"{point.file}:{point.line or '-'}" if point.file else ""
    return EvidenceRow(
        points=point.points,
        weight=point.weight.replace("_", " "),
        found=f"{point.name}, from a {point.trust}" if point.name else "",
        where=", ".join(filter(None, (point.node, rank, file))),
        at=point.at,
    )


def _explanation(verdict: JobExplainedData) -> Iterator[tuple[str, str]]:
    yield "Cause", f"{verdict.mechanism or 'unknown'} ({verdict.domain or 'unknown domain'})"
    yield "Verdict on the nodes", (verdict.hardware or "-").replace("_", " ")
    for name, listed in (
        ("Leave out", verdict.nodes),
        ("Test first", verdict.check),
        ("Checked", verdict.checked),
        ("Not checked", verdict.not_checked),
    ):
        if listed.count:
            more = listed.count - len(listed.listed)
            yield name, ", ".join(listed.listed) + (f" and {more} more" if more > 0 else "")
    if verdict.ranks:
        yield "Ranks that others waited for", ", ".join(map(str, verdict.ranks))
    yield "First failure in the logs", to_text(verdict.failed_at) if verdict.failed_at else "unknown"


def _chart(job: Job, entries: Entries, hits: Sequence[Hit], ended: datetime | None, now: datetime) -> Chart:
    start, end = job.started_at, max([now, *(one.at for one in entries)])
    resumable = job.resumable_at
    end = end if _is_open(job) else max(resumable or ended or end, *(one.at for one in hits), start)
    bars = [Bar(start, ended or end, "running", Tone.WORK, running=ended is None)]
    if ended:
        outcome = job_state(job)
        waits = resumable is not None or job.state == "waiting"
        text = "waits for its nodes" if waits else outcome.text
        bars.append(Bar(ended, (resumable or end) if waits else ended, text, Tone.WAIT if waits else outcome.tone))
    if resumable:
        bars.append(Bar(resumable, resumable, "may resume", Tone.GOOD))
    nodes = {one.node: [hit for hit in hits if hit.node == one.node] for one in hits}
    lanes = (
        Lane(node, tuple(Bar(h.at, h.at, h.fault, Tone.BAD, h.reason, h.target) for h in of))
        for node, of in nodes.items()
    )
    return make_chart(start, end, (Lane("job", tuple(bars)), *lanes))


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
