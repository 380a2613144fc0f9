"""`faultbridge explain` and `mechanism`: why a job died, from files and recorded faults."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import msgspec

from faultbridge.cli.commands.options import CLUSTER_VARIABLE, Format, default_cluster, read_mappings
from faultbridge.cli.declare import EXIT_NOT_WELL, Argument, BadParameter, Exit, Group, Option, Text, Texts, command
from faultbridge.cli.render.output import Columns, Document, fields, notice, print_line, show, show_one
from faultbridge.cli.render.times import PAST_HELP, json_time, parse_age, parse_received_at, parse_time
from faultbridge.cli.stack.session import Session, StackSession
from faultbridge.decode.frames.decoder import Hints
from faultbridge.explain.signals import read_files as reading
from faultbridge.explain.signals.signal import LogSpan, ReadContext, Role, Signal
from faultbridge.explain.verdict.document import RankMap, broken_cases, verdict_document, without_repaired
from faultbridge.explain.verdict.mechanisms import (
    Book,
    Mechanism,
    extended_book,
    packaged_book,
    packaged_weights,
)
from faultbridge.explain.verdict.verdict import decide
from faultbridge.model.cluster.jobs import RESUME_WITHIN, SUCCEEDED, Job, node_of_rank, rank_text
from faultbridge.model.enums import EntryType, JobChangeKind
from faultbridge.model.errors import Misconfigured, Rejected
from faultbridge.model.event_data import JobData, JobDevice
from faultbridge.model.fault_enums import Severity
from faultbridge.model.nodes import NodeKey, NodeState
from faultbridge.model.safe_text import visible
from faultbridge.model.times import to_text
from faultbridge.model.values import replace
from faultbridge.model.verdicts import (
    ExplainedJob,
    Hardware,
    JobVerdictDocument,
    ShownCollectives,
    ShownPoint,
    ShownRepair,
)
from faultbridge.record.rulebook import rules_of
from faultbridge.record.timeline import TimelineQuery
from faultbridge.repair.jobs.changes import hit_since
from faultbridge.repair.jobs.verdicts import record_verdict
from faultbridge.repair.registry.gpus import gpus_of
from faultbridge.serve.wiring.services import wire_heartbeat_log, wire_jobs

MechanismsOption = Annotated[
    Path | None, Option("--mechanisms FOLDER", "Folder of your own mechanisms (*.json), used first.")
]
LISTED: Columns = fields("MECHANISM=name, DOMAIN, OUTLOOK, SUMMARY")
SHOWN: Columns = fields(
    "Mechanism=name, Domain, Summary, Outlook, After progress, After hours, First signs, Causes:lines, "
    "Settled by=settles, Source"
) | {
    "After progress": lambda one: one.get("after_progress"),
    "After hours": lambda one: one.get("after_hours"),
    "First signs": lambda one: "\n".join(f"{name}  {strength}" for name, strength in one["initiators"].items()),
}


@command("mechanism list", "", "--mechanisms own/")
def list_mechanisms(mechanisms: MechanismsOption = None, *, output: Format) -> None:
    """List the mechanisms: the possible causes of a job's failure that `explain` distinguishes."""
    book = book_with(mechanisms)
    show(map(_document, book.mechanisms), LISTED, output)


@command("mechanism show", "gpu_lost")
def show_mechanism(
    name: Annotated[str, Argument("MECHANISM", "Name from `mechanism list`.")],
    mechanisms: MechanismsOption = None,
    *,
    output: Format,
) -> None:
    """Show a failure mechanism: its first signs, its effects, and what would prove or refute it."""
    found = next((one for one in book_with(mechanisms).mechanisms if one.name == name), None)
    if found is None:
        raise BadParameter(f"unknown mechanism: {name!r}; faultbridge mechanism list shows all")
    show_one(_document(found), SHOWN, output)


@command("mechanism check", "own/")
def check_mechanisms(
    folder: Annotated[Path, Argument("FOLDER", "Folder of your own mechanisms (*.json).")],
    *,
    output: Format,
) -> None:
    """Validate your own mechanisms, and run all test cases, also those of the packaged mechanisms.

    Exit code 1: a mechanism is invalid, or a test case fails.
    """
    try:
        book = extended_book(_read_folder(folder))
    except Misconfigured as error:
        notice(str(error))
        raise Exit(EXIT_NOT_WELL) from None
    broken = list(broken_cases(book))
    if not output.for_people:
        show_one({"broken": broken, "mechanisms": len(book.mechanisms), "patterns": len(book.patterns)}, {}, output)
    for one in broken:
        notice(one)
    if broken:
        raise Exit(EXIT_NOT_WELL)
    notice(f"every case passes: {len(book.mechanisms)} mechanisms, {len(book.patterns)} patterns")


def book_with(folder: Path | None) -> Book:
    """Return the packaged mechanisms; those of a customer's folder come first and replace equal names."""
    if folder is None:
        return packaged_book()
    try:
        return extended_book(_read_folder(folder))
    except Misconfigured as error:
        raise BadParameter(str(error)) from None


def _read_folder(folder: Path) -> list[Mapping[str, Any]]:
    files = sorted(folder.glob("*.json"))
    if not files:
        raise Misconfigured(f"no mechanisms in {folder}; expected files *.json")
    documents = []
    for file in files:
        try:
            body = json.loads(file.read_bytes())
            # One mechanism alone is what `mechanism show --json` prints.
            is_mechanism = isinstance(body, dict) and "initiators" in body
            documents.append({"mechanisms": [body]} if is_mechanism else body)
        except (ValueError, RecursionError) as error:
            raise Misconfigured(f"invalid JSON in {file}: {error}") from error
    return documents


def _document(one: Mechanism) -> Document:
    return {name: value for name, value in msgspec.to_builtins(one).items() if value is not None}


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a stack recorded about a failure: a time window, and the failed job if it is known."""

    window: reading.RecordedWindow
    job: ExplainedJob | None = None
    ranks: Mapping[int, str] = field(default_factory=dict)
    reason: str = ""
    affected: frozenset[str] = frozenset()


def of_case(session: Session, case_id: str, span: timedelta | None) -> Recorded:
    """Return the job that a case affected last; if none died, only a window of its node until it was opened."""
    view = session.directory.case(case_id)
    key, opened_at = view.key, view.case.opened_at
    changes = _job_changes(session, TimelineQuery(case=case_id, types=(EntryType.JOB,)))
    hits = [one.job_id for one in changes if one.change is JobChangeKind.HIT]
    job = session.jobs.job(key.cluster, hits[-1]) if hits else None
    if job is not None and job.outcome != SUCCEEDED:
        return of_job(session, job, span, opened_at)
    since = _since(session, [key], opened_at - (span or _longest()), opened_at)
    return Recorded(reading.RecordedWindow(f"case {case_id}", key.cluster, frozenset({key.node}), since, opened_at))


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
    state = job.state_at(session.now())
    facts = ExplainedJob(job_id=job.id, name=job.name, state=state, outcome=job.outcome, ended_at=job.ended_at)
    window = reading.RecordedWindow(f"job {job.id}", cluster, frozenset(job.nodes), since, ended_at)
    changes = _job_changes(session, TimelineQuery(cluster, job=job.id, types=(EntryType.JOB,)))
    ends = [one.reason for one in changes if one.change is JobChangeKind.ENDED and not job.runs]
    reason = ends[-1] if ends else ""
    return Recorded(window, facts, node_of_rank(job.ranks), reason, frozenset(job.affected))


def _longest() -> timedelta:
    return timedelta(seconds=packaged_weights().limits["before_seconds"])


def _since(session: Session, keys: Iterable[NodeKey], since: datetime, until: datetime) -> datetime:
    """Return `since`, or an earlier time at which a live case or a severe fault of its node began.

    The result is at most seven days (`RESUME_WITHIN`) before `until`, unless `since` is earlier.
    """
    states = session.application.append.read_many(keys)
    cases = [(state, state.live_case.opened_at) for state in states if state.live_case is not None]
    begun = [
        min([opened_at, *(one.since for one in state.active() if one.severity.rank >= Severity.ERROR.rank)])
        for state, opened_at in cases
        if opened_at <= until
    ]
    return min([since, *(max(one, until - RESUME_WITHIN) for one in begun)])


def _job_changes(session: Session, query: TimelineQuery) -> Iterator[JobData]:
    changes = (line.event.data for line in session.timeline.entries(query))
    return (one for one in changes if isinstance(one, JobData))


WINDOW_OF_TIME = timedelta(minutes=30)
"""Default of `--window` with `--at`. With `--job` or `--case`, the default is the limit for faults in files."""

RECORDED_AFTER = timedelta(hours=1)
"""How long after the failure entries are still read. Faults are recorded late while the intake is down."""


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """The options of `explain` that select a recorded failure: a `job`, a `case`, or `nodes` at a time."""

    job: Annotated[Text, Option("JOB", "A recorded job; with --cluster.")] = None
    cluster: Annotated[Text, Option("CLUSTER", f"Cluster of --job or --at. Default with them: {CLUSTER_VARIABLE}.")] = (
        None
    )
    at: Annotated[Text, Option("TIME", f"When nodes failed, without a job. {PAST_HELP}")] = None
    node: Annotated[Texts, Option("NODE", "Only this node, with --at. Repeatable.")] = None
    window: Annotated[
        Text, Option("AGE", "How long before the end recorded faults count. Default: 6h, or 30m with --at.")
    ] = None
    case: Annotated[Text, Option("ID", "The job that this case affected, or else its node.")] = None
    record: Annotated[bool, Option(help="Record the verdict on --job, as the event `Job Explained`.")] = False

    def with_default(self) -> RecordedRequest:
        """Return the request with the default cluster, where a job or a time needs one."""
        needs_cluster = self.cluster is None and (self.job, self.at) != (None, None) and self.case is None
        return replace(self, cluster=default_cluster()) if needs_cluster else self

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
        return Recorded(reading.RecordedWindow(label, self.cluster, named, at - (span or WINDOW_OF_TIME), at))

    def _nodes(self, session: Session, cluster: str) -> Iterator[str]:
        if not self.node:
            yield from (one.key.node for one in session.directory.nodes(cluster))
        for node in self.node or ():
            yield session.directory.node(NodeKey(cluster, node)).key.node

    def _span(self, now: datetime) -> timedelta | None:
        from faultbridge.serve.api.requests import EARLIEST

        if self.window is None:
            return None
        since = parse_age(self.window, now)
        if since is None:
            raise BadParameter(f"not an age: --window {self.window!r}; such as 30m or 2h")
        return now - max(since, EARLIEST)

    def _ended(self, job: Job) -> Job:
        """Return the job; a succeeded one, or a running one with `--record`, raises Rejected."""
        if job.outcome == SUCCEEDED:
            raise Rejected("job_succeeded", f"job {job.id} succeeded: there is no failure to explain")
        if self.record and job.runs:
            raise Rejected("job_runs", f"job {job.id} runs: --record needs a job that has ended")
        return job

    def _check(self) -> None:
        is_timed, has_place = (self.job, self.at) != (None, None), self.cluster is not None or bool(self.node)
        if self.record and self.job is None:
            raise BadParameter("--record needs --job and --cluster")
        if self.case is not None and (is_timed or has_place):
            raise BadParameter("conflicting options: --case with --job, --at, --cluster or --node; give --case alone")
        if self.case is None and has_place and not is_timed:
            raise BadParameter("--cluster and --node need --job or --at")
        both = self.job is not None and (self.at is not None or self.node)
        if both or (is_timed and self.cluster is None):
            raise BadParameter("give --job with --cluster, or --at with --cluster and any --node")


def explained(
    session: Session, evidence: reading.Evidence, book: Book, ranks: Mapping[int, str], recorded: Recorded | None
) -> JobVerdictDocument:
    """Return the verdict on a job as a document, from its files and, if given, from recorded faults."""
    if recorded is None:
        verdict = decide(evidence, book.mechanisms, packaged_weights(), ranks)
        return verdict_document(verdict, evidence, RankMap(ranks))
    window = recorded.window
    signals, spans = _read(session, window, book.roles)
    if recorded.job is not None and recorded.job.outcome is not None:
        ended = reading.end_signals(window.label, recorded.job.outcome, recorded.reason, window.ended_at, book.patterns)
        signals = (*signals, *ended)
    merged = replace(evidence, signals=(*evidence.signals, *signals), spans=(*evidence.spans, *spans))
    # The verdict needs the nodes of the job; the ranks on some of them may be unknown.
    unplaced = sorted(window.nodes - set(ranks.values()))
    nodes = {**ranks, **{-number: node for number, node in enumerate(unplaced, 1)}}
    weights = packaged_weights(_same_attempts(session, window.cluster))
    verdict = decide(merged, book.mechanisms, weights, nodes, recorded.affected)
    gpus = gpus_of(session.application.append, window.cluster, ranks.values(), window.ended_at)
    document = verdict_document(verdict, merged, RankMap(ranks, gpus))
    faulty = sorted({one.node for one in signals if one.node})
    states = session.application.append.read_many(NodeKey(window.cluster, node) for node in faulty)
    document = without_repaired(document, _repaired(states, signals))
    return replace(document, job=recorded.job, repairs=_repairs(states))


def _same_attempts(session: Session, cluster: str) -> int | None:
    return rules_of(session.application.rulebook, cluster).policy.limits.same_attempts


def _read(
    session: Session, window: reading.RecordedWindow, roles: Mapping[str, Role]
) -> tuple[tuple[Signal, ...], tuple[LogSpan, ...]]:
    """Return recorded faults as signals, and the ranges with records: a node's ends with its last heartbeat."""
    until = window.ended_at + reading.AFTER_END + RECORDED_AFTER
    query = TimelineQuery(window.cluster, since=window.since, until=until, types=reading.FAULT_TYPES)
    events = (line.event for line in session.timeline.entries(query))
    application = session.application
    last = wire_heartbeat_log(application).read(rules_of(application.rulebook, window.cluster).config).last
    heartbeats = {node: last[node] for node in window.nodes if node in last}
    return reading.recorded_evidence(window, events, heartbeats, roles)


def _repaired(states: Iterable[NodeState], signals: Iterable[Signal]) -> frozenset[str]:
    """Return the nodes that were repaired and verified after their last recorded fault."""
    last: dict[str, datetime] = {}
    for one in signals:
        if one.node and one.at is not None:
            last[one.node] = max(last.get(one.node, one.at), one.at)
    found = ((state.key.node, state.repaired_at) for state in states)
    return frozenset(node for node, at in found if at is not None and node in last and last[node] <= at)


def _repairs(states: Iterable[NodeState]) -> tuple[ShownRepair, ...]:
    found = ((state.key.node, state.status, state.case) for state in states if state.case is not None)
    return tuple(
        ShownRepair(
            node=node,
            node_status=status,
            case_id=case.id,
            case_status=case.status,
            repair_action=case.repair_action,
            resolution=case.resolution,
            reason=case.reason,
        )
        for node, status, case in found
    )


WIDTH = 80
_TITLE = 10
_MAX_OTHERS = 3
_HARDWARE = {
    "blamed": "a fault of a node caused this",
    "acquitted": "hardware did not cause this",
    "undetermined": "the files do not show whether hardware caused this",
}


def lines_of(document: JobVerdictDocument) -> Iterator[str]:
    """Yield the lines of the text: the verdict, its evidence, other possible causes, and the files read."""
    yield from _titled("VERDICT", " ".join([document.verdict, *document.nodes]))
    name = f"{document.mechanism} ({document.domain})" if document.mechanism else "unknown"
    yield from _titled("CAUSE", f"{name}: {document.summary}")
    yield from _titled("HARDWARE", _hardware(document.hardware))
    yield from _symptom(document)
    yield from _titled("NEXT", document.settles)
    if document.shared:
        yield from _titled("SHARED", "most nodes show this fault: look for what they share; no node is left out")
    for device in document.devices:
        yield from _titled("DEVICE", _device(device))
    for repair in document.repairs:
        done = repair.resolution or repair.case_status
        yield from _titled("REPAIR", f"{repair.node}: {repair.repair_action} {done}, case {repair.case_id}")
    if document.job:
        job = document.job
        runs = "" if job.ended_at else ": it has not ended, so the verdict is not final"
        yield from _titled("JOB", f"{job.job_id} is {job.state}{runs}")
    if document.check:
        yield from _titled("CHECK", f"{', '.join(document.check)}: test before the restart")
        for signal in document.checks:
            yield from _titled("", f"{signal.node}: {_short(signal.text)}")
    first, *others = document.causes or (None,)
    if first is not None:
        title = "cause" if document.mechanism else "likeliest mechanism, with too few points"
        yield ""
        yield from _indented(f"{title}: {first.mechanism}, {first.score} points")
        yield from _points("for", first.pro)
        yield from _points("against", first.against)
    for one in others[:_MAX_OTHERS]:
        yield from ("", f"other mechanism: {one.mechanism}, {one.score} points")
        yield from _points("for", one.pro[:1])
        yield from _points("against", one.against)
    yield from _collectives(document.collectives)
    yield from _notes(document)


def _symptom(document: JobVerdictDocument) -> Iterator[str]:
    attempts, symptom = document.attempts, document.symptom
    if attempts.repeated > 1:
        step = f"at step {attempts.step:g}" if attempts.step is not None else "before a first step"
        text = f"{attempts.count}: the last {attempts.repeated} ended with the same error {step}"
        yield from _titled("ATTEMPTS", text)
    if symptom:
        at = f"{symptom.file}:{symptom.line}: " if symptom.line else ""
        yield from _titled("SYMPTOM", f"{at}{_short(symptom.text)}")
    for one in document.ranks:
        place = " ".join(filter(None, (one.node, f"GPU {one.gpu}" if one.gpu is not None else "")))
        yield from _titled("RANK", f"{one.rank}{f' ({place})' if place else ''}: {one.reason}")


def _titled(title: str, text: str) -> Iterator[str]:
    yield from _wrapped(f"{title:<{_TITLE}}", " " * _TITLE, text)


def _wrapped(first: str, later: str, text: str) -> Sequence[str]:
    text = visible(" ".join(text.split()))
    lines = textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=later, break_on_hyphens=False)
    return lines or [first]


def _indented(text: str) -> Sequence[str]:
    return _wrapped("", "  ", text)


def _hardware(hardware: Hardware) -> str:
    text = _HARDWARE[hardware.state]
    for title, nodes in (("checked", hardware.checked), ("not checked", hardware.not_checked)):
        if nodes:
            text += f"; {title}: {', '.join(nodes)}"
    return text


def _device(device: JobDevice) -> str:
    names = [f"GPU {device.index}" if device.index is not None else "GPU", device.pci, device.uuid]
    rank = f": rank {device.rank}" if device.rank is not None else ""
    return f"{device.node} {' '.join(filter(None, names))}{rank} ({device.signal})"


def _points(title: str, points: Sequence[ShownPoint]) -> Iterator[str]:
    """Yield a line for each piece of evidence with its points, then its log line, each log line once."""
    lead = None
    for one in points:
        signal = one.signal
        facts = [f"{one.points:+d}", one.weight]
        if signal:
            rank = f"rank {signal.rank}" if signal.rank is not None else None
            facts += [signal.name, *(fact for fact in (signal.node, rank, signal.at and to_text(signal.at)) if fact)]
        yield from _wrapped(f"  {title} ", "      ", " ".join(facts))
        if signal and signal != lead:
            place = f"{signal.file}:{signal.line}" if signal.line else signal.file
            yield from _wrapped("      ", "        ", f"{place}: {_short(signal.text)}")
        lead = lead or signal


def _short(text: str) -> str:
    return text if len(text) <= 2 * WIDTH else f"{text[: 2 * WIDTH]}..."


def _collectives(collectives: ShownCollectives | None) -> Iterator[str]:
    if not collectives:
        return
    yield ""
    if not collectives.findings:
        waits = "the dumps do not show which rank the others wait for" if collectives.waiting else "no rank waits"
        yield from _indented(f"collectives: {waits}")
    for one in collectives.findings:
        node = f" on {one.node}" if one.node else ""
        waiting = ",".join(map(str, one.waiting))
        call = f"{one.operation} number {one.sequence} of group {one.group} {one.description}"
        yield from _indented(f"rank {one.rank}{node}: {one.state} in {call}; waiting: {waiting}")
    for joined in collectives.joined:
        yield from _indented(f"all ranks started number {joined.sequence} of group {joined.group}: no rank is named")
    if not collectives.missing_blamed:
        count = len(collectives.missing)
        yield from _indented(f"{count} ranks have no dump, more than half: they are not named; add their dumps")


def _notes(document: JobVerdictDocument) -> Iterator[str]:
    yield ""
    for one in document.claims:
        yield from _indented(f"not evidence, printed by the job: {one.file}:{one.line}: {_short(one.text)}")
    if document.recovered:
        yield f"{len(document.recovered)} errors did not end the job: it made progress after them"
    for read in document.files:
        where = f" of {read.node}" if read.node else ""
        yield from _indented(f"read {read.file}: {read.source}{where}, {read.lines} lines")
    for skipped in document.skipped:
        yield from _indented(f"skipped {skipped}")


def read_rank_map(file: Path) -> dict[str, str]:
    """Return the ranks of each node from a rank map file; raises Rejected if it is none or repeats a rank."""
    try:
        ranks = {node: [int(rank) for rank in listed] for node, listed in json.loads(file.read_bytes()).items()}
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise Rejected("bad_node_map", f"{file}: not an object of nodes with lists of ranks") from error
    if sum(map(len, ranks.values())) != len({rank for listed in ranks.values() for rank in listed}):
        raise Rejected("bad_node_map", f"{file}: a rank is on two nodes")
    return {node: rank_text(listed) for node, listed in ranks.items()}


PIECE_BYTES = 1024 * 1024


def _hints(
    mappings: Annotated[Path | None, Option("FILE", "Your own fault mappings (JSON), for files of nodes.")] = None,
    received_at: Annotated[
        Text, Option("TIME", f"When the files were taken, for times without a year. {PAST_HELP}")
    ] = None,
) -> Hints:
    return Hints(parse_received_at(received_at, datetime.now(UTC)), mappings=read_mappings(mappings))


@command(
    "explain",
    "job.err dumps/*",
    "job.err n-7=kern.log n-8=kern8.log --nodes nodes.json",
    "--json --mechanisms own/ --job-log job.err n-7=kern.log",
    "--job 88213 --cluster train-a",
    "job.err --job 88213 --cluster train-a --nodes nodes.json",
    "job.err --job 88213 --cluster train-a --record",
    "--case c-vdg2kyyvbobyajcb47od4wpeuw",
    "--cluster train-a --at 2h --node n-7",
)
def explain_job(
    session: StackSession,
    hints: Annotated[Hints, Group(_hints)],
    request: Annotated[RecordedRequest, Group(RecordedRequest, RecordedRequest.with_default)],
    files: Annotated[
        Texts, Argument("FILE", "Logs of the job, files of its nodes (NODE=FILE), dumps of its ranks.")
    ] = None,
    job_logs: Annotated[
        list[Path] | None, Option("--job-log FILE", "Log of the job, whatever its lines look like. Repeatable.")
    ] = None,
    nodes: Annotated[Path | None, Option("MAP", 'JSON file with the ranks of each node: {"n-7": [0, 1]}.')] = None,
    mechanisms: MechanismsOption = None,
) -> None:
    """Explain why a job died, and decide whether it may restart.

    The command reads logs of the job, files of its nodes in every format of `faultbridge sources`, and PyTorch Flight
    Recorder dumps. With --job, --case or --at, it also reads the faults that a stack recorded; --record publishes the
    verdict. A line in the log of the job is no evidence of a fault of a node. Points weigh the evidence for each
    mechanism; docs/explain.md lists them. Exit code 2: wrong usage; the job succeeded, or it is running and --record is
    given. Exit code 65: a dump or a document is damaged, no file can be read, or all files are empty.
    """
    recorded = request.find(session)
    inputs = _inputs(files or [], job_logs or [], is_recorded=recorded is not None)
    ranks = node_of_rank(read_rank_map(nodes)) if nodes else recorded.ranks if recorded else {}
    book = book_with(mechanisms)
    evidence = reading.read_files(inputs, ReadContext(book.patterns, book.roles, ranks, hints))
    if recorded is None:
        _check_readable(evidence, len(inputs))
    document = explained(session, evidence, book, ranks, recorded)
    if request.record and request.cluster and request.job:
        writer, limit = wire_jobs(session.application).writer, _same_attempts(session, request.cluster)
        job = record_verdict(writer, request.cluster, request.job, document, limit)
        if job.verdict is not None and job.verdict.outlook != document.verdict:
            notice(f"recorded as {job.verdict.outlook}: the last runs ended for this reason without progress")
    if session.prints_document(document):
        return
    for line in lines_of(document):
        print_line(line)


def _check_readable(evidence: reading.Evidence, inputs: int) -> None:
    if len(evidence.skipped) == inputs:
        raise Rejected("binary", f"no file can be read: {', '.join(evidence.skipped)}")
    if not (evidence.signals or evidence.collectives or any(span.lines for span in evidence.spans)):
        raise Rejected("empty", "there is nothing to explain: the files are empty")


def _inputs(files: Sequence[str], job_logs: Sequence[Path], *, is_recorded: bool) -> list[reading.InputFile]:
    stated = (replace(_input(str(one)), node=None, is_job_log=True) for one in job_logs)
    inputs = [*map(_input, files), *stated]
    if not inputs and not is_recorded:
        raise BadParameter("no file; give the logs of the job, files of its nodes, dumps, or --job and --cluster")
    return inputs


def _input(text: str) -> reading.InputFile:
    """Return the file of an argument, `FILE` or `NODE=FILE`; an existing file may have `=` in its name."""
    node, separator, name = text.partition("=")
    path = Path(name if separator and not Path(text).exists() else text)
    path.open("rb").close()

    def pieces() -> Iterator[bytes]:
        with path.open("rb") as stream:
            yield from iter(lambda: stream.read(PIECE_BYTES), b"")

    return reading.InputFile(str(path), pieces, node if separator and str(path) != text else None)
