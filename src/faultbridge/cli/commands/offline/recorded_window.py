"""Explain why a job or nodes failed, from files and from the faults that a stack recorded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Annotated

import typer

from faultbridge.cli.commands.offline.recorded_job import Recorded, of_case, of_job
from faultbridge.cli.commands.options import CLUSTER_VARIABLE, default_cluster
from faultbridge.cli.render.output import Document
from faultbridge.cli.render.times import PAST_HELP, json_time, parse_age, parse_time
from faultbridge.cli.stack.session import Session
from faultbridge.domain.cluster.jobs import SUCCEEDED, Job
from faultbridge.domain.nodes import NodeKey
from faultbridge.errors import Rejected
from faultbridge.explain.signals.read_files import Evidence
from faultbridge.explain.signals.recorded import AFTER_END, FAULT_TYPES, RecordedWindow, recorded_evidence
from faultbridge.explain.signals.recorded_end import end_signals
from faultbridge.explain.signals.signal import LogSpan, Role, Signal
from faultbridge.explain.verdict.devices import RankMap
from faultbridge.explain.verdict.document import verdict_document
from faultbridge.explain.verdict.mechanisms import Book, packaged_weights
from faultbridge.explain.verdict.verdict import decide
from faultbridge.ledger.timeline import TimelineQuery
from faultbridge.registry.gpus_of_nodes import gpus_of
from faultbridge.rules.rulebook import rules_of

WINDOW_OF_TIME = timedelta(minutes=30)
"""Default of `--window` with `--at`. With `--job` or `--case`, the default is the limit for faults in files."""

RECORDED_AFTER = timedelta(hours=1)
"""How long after the failure entries are still read. Faults are recorded late while the intake is down."""


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """The options of `explain` that select recorded faults of a stack.

    One of these three options selects the failure. If all are None, only files are explained, and no stack is read.

    - `job`: a recorded job of `cluster`
    - `case`: the id of a case; the failure is that of the job that the case affected last, or else that of its node
    - `at`: the time of a failure in `cluster`, if no job is recorded; `nodes` are the failed nodes, by default all

    `window` is the text of `--window`. Recorded faults that were observed within this time before the failure are
    evidence. `record` states whether the verdict is recorded on the job.
    """

    job: str | None
    cluster: str | None
    at: str | None
    nodes: tuple[str, ...]
    window: str | None
    case: str | None
    record: bool

    def find(self, session: Session) -> Recorded | None:
        """Return the time window, nodes and job to read from the stack, or None if only files are given.

        Options that conflict are a usage error.
        """
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
        from faultbridge.api.requests import EARLIEST

        if self.window is None:
            return None
        since = parse_age(self.window, now)
        if since is None:
            raise typer.BadParameter(f"not an age: --window {self.window!r}; such as 30m or 2h")
        return now - max(since, EARLIEST)

    def _ended(self, job: Job) -> Job:
        """Return the job. Raises Rejected if it succeeded, or if it is running and `--record` is given.

        A verdict on a running job is not final, so it is not recorded.
        """
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
    """Return the verdict on a job as a document: why the job died, and whether it may restart.

    `evidence` is what was read from the files, `book` contains the mechanisms, and `ranks` maps each rank to its node.
    If `recorded` is not None, the faults that a stack recorded in the window of `recorded` are evidence too.
    """
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
    """Return the recorded faults in a window as signals, and the time ranges for which records exist.

    The first range is the whole window. The range of a node ends with the last heartbeat of the node. `roles` contains
    the role of each fault code in the failure of a job, such as first sign or consequence.
    """
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
