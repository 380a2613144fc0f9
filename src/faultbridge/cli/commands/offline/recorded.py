"""Explain why a job or nodes failed, from files and from the faults that a stack recorded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Annotated

import typer

from faultbridge.cli.commands.options import CLUSTER_VARIABLE, default_cluster
from faultbridge.cli.render.output import Document
from faultbridge.cli.render.times import PAST_HELP, json_time, parse_age, parse_time
from faultbridge.cli.stack.session import Session
from faultbridge.explain.signals.read_files import Evidence
from faultbridge.explain.signals.recorded import AFTER_END, FAULT_TYPES, RecordedWindow, end_signals, recorded_evidence
from faultbridge.explain.signals.signal import LogSpan, Role, Signal
from faultbridge.explain.verdict.document import RankMap, verdict_document
from faultbridge.explain.verdict.mechanisms import Book, packaged_weights
from faultbridge.explain.verdict.verdict import decide
from faultbridge.model.cluster.jobs import RESUME_WITHIN, SUCCEEDED, Job
from faultbridge.model.cluster.ranks import node_of_rank
from faultbridge.model.entries import EntryType
from faultbridge.model.errors import Rejected
from faultbridge.model.faults import Severity
from faultbridge.model.nodes import NodeKey
from faultbridge.record.rulebook import rules_of
from faultbridge.record.timeline import TimelineQuery
from faultbridge.repair.jobs.changes import hit_since
from faultbridge.repair.registry.gpus import gpus_of


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a stack recorded about a failure: a time window, and the failed job if it is known."""

    window: RecordedWindow
    job: Document | None = None
    ranks: Mapping[int, str] = field(default_factory=dict)
    reason: str = ""
    affected: frozenset[str] = frozenset()


def of_case(session: Session, case_id: str, span: timedelta | None) -> Recorded:
    """Return the job that a case affected last; if none died, only a window of its node until it was opened."""
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
        window, {"job_id": job.id, **facts}, node_of_rank(job.ranks), _reason(session, job), frozenset(job.affected)
    )


def _longest() -> timedelta:
    return timedelta(seconds=packaged_weights().limits["before_seconds"])


def _since(session: Session, keys: Iterable[NodeKey], since: datetime, until: datetime) -> datetime:
    """Return `since`, or an earlier time at which a live case or a severe fault of its node began.

    The result is at most seven days (`RESUME_WITHIN`) before `until`, unless `since` is earlier.
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


WINDOW_OF_TIME = timedelta(minutes=30)
"""Default of `--window` with `--at`. With `--job` or `--case`, the default is the limit for faults in files."""

RECORDED_AFTER = timedelta(hours=1)
"""How long after the failure entries are still read. Faults are recorded late while the intake is down."""


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """The options of `explain` that select a recorded failure: a `job`, a `case`, or `nodes` at a time."""

    job: str | None
    cluster: str | None
    at: str | None
    nodes: tuple[str, ...]
    window: str | None
    case: str | None
    record: bool

    def find(self, session: Session) -> Recorded | None:
        """Return what to read from the stack, None if only files are given; conflicts are usage errors."""
        self._check()
        if self.job is None and self.at is None and self.case is None:
            return None
        now = session.now()
        span = self._span(now)
        if self.case is not None:
            return of_case(session, self.case, span)
        if self.cluster is None:
            raise AssertionError  # pragma: no cover - checked above
        if self.job is not None:
            return of_job(session, self._ended(session.jobs.job(self.cluster, self.job)), span)
        at = parse_time(self.at, now, "--at") or now
        named = frozenset(self._nodes(session, self.cluster))
        label = f"{self.cluster} at {json_time(at)}"
        return Recorded(RecordedWindow(label, self.cluster, named, at - (span or WINDOW_OF_TIME), at))

    def _nodes(self, session: Session, cluster: str) -> Iterator[str]:
        if not self.nodes:
            yield from (one.key.node for one in session.directory.nodes(cluster))
        for node in self.nodes:
            yield session.directory.node(NodeKey(cluster, node)).key.node

    def _span(self, now: datetime) -> timedelta | None:
        from faultbridge.serve.api.requests import EARLIEST

        if self.window is None:
            return None
        since = parse_age(self.window, now)
        if since is None:
            raise typer.BadParameter(f"not an age: --window {self.window!r}; such as 30m or 2h")
        return now - max(since, EARLIEST)

    def _ended(self, job: Job) -> Job:
        """Return the job; a succeeded one, or a running one with `--record`, raises Rejected."""
        if job.outcome == SUCCEEDED:
            raise Rejected("job_succeeded", f"job {job.id} succeeded: there is no failure to explain")
        if self.record and job.runs:
            raise Rejected("job_runs", f"job {job.id} runs: --record needs a job that has ended")
        return job

    def _check(self) -> None:
        is_timed, has_place = self.job is not None or self.at is not None, self.cluster is not None or bool(self.nodes)
        if self.record and self.job is None:
            raise typer.BadParameter("--record needs --job and --cluster")
        if self.case is not None and (is_timed or has_place):
            raise typer.BadParameter(
                "conflicting options: --case with --job, --at, --cluster or --node; give --case alone"
            )
        if self.case is None and has_place and not is_timed:
            raise typer.BadParameter("--cluster and --node need --job or --at")
        both = self.job is not None and (self.at is not None or self.nodes)
        if both or (is_timed and self.cluster is None):
            raise typer.BadParameter("give --job with --cluster, or --at with --cluster and any --node")


def recorded_request(
    job: Annotated[str | None, typer.Option("--job", metavar="JOB", help="A recorded job; with --cluster.")] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            "--cluster", metavar="CLUSTER", help=f"Cluster of --job or --at. Default with them: {CLUSTER_VARIABLE}."
        ),
    ] = None,
    at: Annotated[
        str | None, typer.Option("--at", metavar="TIME", help=f"When nodes failed, without a job. {PAST_HELP}")
    ] = None,
    node: Annotated[
        list[str] | None, typer.Option("--node", metavar="NODE", help="Only this node, with --at. Repeatable.")
    ] = None,
    window: Annotated[
        str | None,
        typer.Option(
            metavar="AGE", help="How long before the end recorded faults count. Default: 6h, or 30m with --at."
        ),
    ] = None,
    case: Annotated[
        str | None, typer.Option("--case", metavar="ID", help="The job that this case affected, or else its node.")
    ] = None,
    record: Annotated[
        bool, typer.Option("--record", help="Record the verdict on --job, as the event `Job Explained`.")
    ] = False,
) -> RecordedRequest:
    """Return the options of `explain` that select recorded faults of a stack."""
    if cluster is None and (job is not None or at is not None) and case is None:
        cluster = default_cluster()
    return RecordedRequest(job, cluster, at, tuple(node or ()), window, case, record)


def explained(
    session: Session, evidence: Evidence, book: Book, ranks: Mapping[int, str], recorded: Recorded | None
) -> Document:
    """Return the verdict on a job as a document, from its files and, if given, from recorded faults."""
    if recorded is None:
        verdict = decide(evidence, book.mechanisms, packaged_weights(), ranks)
        return {**verdict_document(verdict, evidence, RankMap(ranks)), "job": None, "repairs": []}
    window = recorded.window
    signals, spans = _read(session, window, book.roles)
    if recorded.job is not None and recorded.job["outcome"] is not None:
        ended = end_signals(window.label, recorded.job["outcome"], recorded.reason, window.ended_at, book.patterns)
        signals = (*signals, *ended)
    merged = replace(evidence, signals=(*evidence.signals, *signals), spans=(*evidence.spans, *spans))
    # The verdict needs the nodes of the job; the ranks on some of them may be unknown.
    unplaced = sorted(window.nodes - set(ranks.values()))
    nodes = {**ranks, **{-number: node for number, node in enumerate(unplaced, 1)}}
    verdict = decide(merged, book.mechanisms, packaged_weights(), nodes, recorded.affected)
    gpus = gpus_of(session.application.ledger.append, window.cluster, ranks.values(), window.ended_at)
    document = verdict_document(verdict, merged, RankMap(ranks, gpus))
    return {**document, "job": recorded.job, "repairs": _repairs(session, window, signals)}


def _read(
    session: Session, window: RecordedWindow, roles: Mapping[str, Role]
) -> tuple[tuple[Signal, ...], tuple[LogSpan, ...]]:
    """Return recorded faults as signals, and the ranges with records: a node's ends with its last heartbeat."""
    until = window.ended_at + AFTER_END + RECORDED_AFTER
    query = TimelineQuery(window.cluster, since=window.since, until=until, types=FAULT_TYPES)
    events = (line.event for line in session.timeline.entries(query))
    application = session.application
    last = application.ingestion.heartbeat_log.read(rules_of(application.rules.rulebook, window.cluster).config).last
    heartbeats = {node: last[node] for node in window.nodes if node in last}
    return recorded_evidence(window, events, heartbeats, roles)


def _repairs(session: Session, window: RecordedWindow, signals: Iterable[Signal]) -> list[Document]:
    faulty = sorted({one.node for one in signals if one.node})
    states = session.application.ledger.append.read_many(NodeKey(window.cluster, node) for node in faulty)
    return [
        {
            "node": state.key.node,
            "node_status": state.status,
            "case_id": state.case.id,
            "case_status": state.case.status,
            "repair_action": state.case.repair_action,
            "resolution": state.case.resolution,
            "reason": state.case.reason,
        }
        for state in states
        if state.case is not None
    ]
