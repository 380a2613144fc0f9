"""Converts the files of a job, which it reads piece by piece, and the record of its nodes to signals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from faultbridge.decode import registry
from faultbridge.decode.frames.body import unpacked_pieces
from faultbridge.decode.frames.journal import text_fields
from faultbridge.explain.dumps.collectives import Explained, explain
from faultbridge.explain.dumps.dump import MAX_BYTES, Dump, read_dump
from faultbridge.explain.signals.job_log import JobLogReader
from faultbridge.explain.signals.node_log import BINARY, DUMP, HEAD_BYTES, JOB, NodeLogReader, joined, kind_of
from faultbridge.explain.signals.signal import (
    MAX_TEXT,
    EvidenceStore,
    LogPattern,
    LogSpan,
    ReadContext,
    Role,
    Signal,
    Trust,
    latest_date_of,
    matches_of,
)
from faultbridge.model.entries import EntryMetadata
from faultbridge.model.errors import Rejected
from faultbridge.model.event_data import EventData, FaultData
from faultbridge.model.fault_enums import Severity
from faultbridge.model.faults import GPU_PARTS
from faultbridge.model.recorded import RecordedEvent

_HALF_A_YEAR = timedelta(days=182)


@dataclass(frozen=True, slots=True)
class InputFile:
    """One file to read in pieces; `node` and `is_job_log` are what the caller states about it."""

    name: str
    pieces: Callable[[], Iterable[bytes]]
    node: str | None = None
    is_job_log: bool = False


@dataclass(frozen=True, slots=True)
class Evidence:
    """The evidence in the files of a job; `skipped` lists the files that could not be read, with reasons."""

    signals: tuple[Signal, ...]
    spans: tuple[LogSpan, ...]
    collectives: Explained | None = None
    skipped: tuple[str, ...] = ()


def read_files(files: Iterable[InputFile], context: ReadContext) -> Evidence:
    """Return the signals of the files, the times and lines that each log covers, and findings from dumps.

    - A second dump of a rank raises `Rejected`. A damaged dump is listed in `skipped`: its rank has no dump.
    - A packed file (gzip, UTF-16) is unpacked. One that ends early or is damaged is read up to there, and listed.
    - A document of a node that its decoder cannot read raises `Rejected` if the caller named the node of the file.
    - Any other text is read as a log of the job. Any other binary file is skipped and listed in `skipped`.
    """
    signals: list[Signal] = []
    spans: list[LogSpan] = []
    dumps: list[Dump] = []
    skipped: dict[str, None] = {}
    unpacked = [_unpacked(one, skipped) for one in files]
    heads = [(one, joined(text_fields(one.pieces()), HEAD_BYTES - 1)[:HEAD_BYTES]) for one in unpacked]
    received_at = _received_at((head for _, head in heads), context.hints.received_at)
    context = replace(context, hints=replace(context.hints, received_at=received_at))
    for file, head in heads:
        kind = JOB if file.is_job_log else kind_of(file.name, head, is_of_node=file.node is not None)
        if kind == DUMP:
            try:
                dumps.append(read_dump(file.name, joined(file.pieces(), MAX_BYTES)))
            except Rejected as error:
                skipped[f"{file.name}: {error.reason}: {error.detail}"] = None
        elif kind == BINARY:
            skipped[f"{file.name}: not text"] = None
        else:
            found, span = _read(file, kind, context)
            signals.extend(found)
            spans.append(span)
    collectives = explain(dumps) if dumps else None
    if collectives:
        signals.extend(_of_dumps(collectives, dumps, context.nodes))
        span = LogSpan(f"{len(dumps)} dumps", Trust.DUMP, "flight-recorder")
        spans.append(replace(span, last_at=collectives.until, progress_at=collectives.since))
    return Evidence(tuple(signals), tuple(spans), collectives, tuple(skipped))


def _received_at(heads: Iterable[bytes], received_at: datetime | None) -> datetime | None:
    """Return the latest possible time of a line: `received_at`, or half a year after the last year in the heads."""
    dated = [one for head in heads if (one := latest_date_of(head)) is not None]
    return min(received_at, max(dated) + _HALF_A_YEAR) if received_at and dated else received_at


def _unpacked(file: InputFile, skipped: dict[str, None]) -> InputFile:
    def pieces() -> Iterator[bytes]:
        try:
            yield from unpacked_pieces(file.pieces())
        except Rejected as error:
            skipped[f"{file.name}: {error.reason}: {error.detail}"] = None

    return replace(file, name=file.name.removesuffix(".gz"), pieces=pieces)


def _read(file: InputFile, kind: str, context: ReadContext) -> tuple[list[Signal], LogSpan]:
    if kind != JOB:
        try:
            return NodeLogReader(file.name, kind, context, file.node).read(text_fields(file.pieces()))
        except Rejected:
            # What only resembles a document of a node is a text of the job.
            if registry.get(kind).decode_pieces is None and file.node is not None:
                raise
    return JobLogReader(file.name, context, file.node).read(file.pieces())


def _of_dumps(collectives: Explained, dumps: Iterable[Dump], nodes: Mapping[int, str]) -> Iterator[Signal]:
    for one in collectives.findings:
        text = f"rank {one.rank} is {one.state} in {one.operation} number {one.sequence} of group {one.group}"
        file = one.file or next(iter(dumps)).file
        place = collectives.until, nodes.get(one.rank), one.rank
        yield Signal(f"collective.{one.state}", Role.INITIATING, Trust.DUMP, file, None, text, *place)


# What Faultbridge recorded about the nodes of a job: faults, and the last heartbeats.

AFTER_END = timedelta(minutes=10)
"""Faults that are observed up to this long after the end are read: many are observed after the processes died."""

FAULT_TYPES = ("Node Fault Detected", "Node Fault Updated")
SILENT = "host.silent"
SOURCE = "faultbridge"


@dataclass(frozen=True, slots=True)
class RecordedWindow:
    """The nodes and the time range to explain. `label` names the job or the time range in the evidence."""

    label: str
    cluster: str
    nodes: frozenset[str]
    since: datetime
    ended_at: datetime


def recorded_evidence(
    window: RecordedWindow,
    events: Iterable[RecordedEvent[EventData | None]],
    heartbeats: Mapping[str, datetime],
    roles: Mapping[str, Role],
) -> tuple[tuple[Signal, ...], tuple[LogSpan, ...]]:
    """Return the recorded faults of nodes as signals, and the time ranges for which records exist.

    Faults up to ten minutes after the window are included. In the range of a node, up to its last heartbeat, the
    absence of a fault shows that it reported none. A node without heartbeats, or with `host.silent`, has no range.
    """
    store = EvidenceStore()
    for metadata, data in [(event.metadata, event.data) for event in events]:
        if not isinstance(data, FaultData):
            continue
        signal = _signal(metadata, data, roles)
        part = f"{signal.node}{_device(data)}"
        in_window = signal.at is not None and window.since <= signal.at <= window.ended_at + AFTER_END
        if signal.node in window.nodes and in_window and store.is_new(signal.name, signal.at, part=part):
            store.add(signal, part)
    signals = tuple(store.signals())
    return signals, tuple(_spans(window, signals, heartbeats))


def _signal(metadata: EntryMetadata, data: FaultData, roles: Mapping[str, Role]) -> Signal:
    is_harmless = data.severity is Severity.INFO and not data.action.opens_case
    role = roles.get(data.code, Role.CONTEXT if is_harmless else Role.INITIATING)
    place = _stream(metadata.cluster, str(metadata.node)), metadata.sequence
    text, kind = f"{_device(data)} {data.message}".strip()[:MAX_TEXT], data.component.type
    signal = Signal(data.code, role, Trust.NODE, *place, text, data.observed_at, metadata.node)
    device = data.component.identity() if kind in GPU_PARTS else None
    return replace(signal, kind=f"fault.{kind}.{data.severity}", device=device)


def _spans(window: RecordedWindow, signals: Iterable[Signal], heartbeats: Mapping[str, datetime]) -> Iterator[LogSpan]:
    yield LogSpan(window.label, Trust.JOB, SOURCE, None, window.since, window.ended_at)
    silent = {one.node for one in signals if one.name == SILENT}
    for node in sorted(window.nodes & heartbeats.keys() - silent):
        until = max(window.since, heartbeats[node])
        yield LogSpan(_stream(window.cluster, node), Trust.NODE, SOURCE, node, window.since, until)


def _device(data: FaultData) -> str:
    return data.component.pci or data.component.name or ""


def _stream(cluster: str, node: str) -> str:
    return f"timeline of {cluster}/{node}"


CANCELED = "scheduler.canceled"
ENDED_BY_USER = "cancelled"
MAX_REASON = 512
_OF_SCHEDULER = "scheduler."


def end_signals(
    label: str, outcome: str | None, reason: str, ended_at: datetime, patterns: Sequence[LogPattern]
) -> Iterator[Signal]:
    """Yield the signals of a job's recorded outcome and of the first 512 characters of its reason.

    A signal from the reason counts as one of the job, so it cannot prove a fault of a node.
    """
    text = reason[:MAX_REASON]
    found = {one.name: (one, match) for one, match in matches_of(patterns, text)}
    for name, (pattern, match) in found.items():
        node = match.groupdict().get("node")
        yield Signal(name, pattern.role, Trust.JOB, label, None, text, ended_at, node)
    if outcome == ENDED_BY_USER and not any(name.startswith(_OF_SCHEDULER) for name in found):
        yield Signal(CANCELED, Role.INITIATING, Trust.JOB, label, None, f"outcome: {outcome}; {text}", ended_at)
