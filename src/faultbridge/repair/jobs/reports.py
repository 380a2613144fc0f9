"""Job reports: JSON documents in which schedulers report a start, an end or a step of a job."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from itertools import chain
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, convert, field
from msgspec.structs import fields

from faultbridge.model.cluster.jobs import OUTCOMES, SIGNALS, Job, checked_signal, ranks_in_order
from faultbridge.model.errors import Rejected, Transient, UnknownName
from faultbridge.model.event_data import doc
from faultbridge.model.names import expand_host_list
from faultbridge.model.records import Outcome, RawRecord
from faultbridge.model.storage.wire.decode_message import is_cloud_event
from faultbridge.model.times import from_text, truncate
from faultbridge.repair.jobs.checkpoints import answer_checkpoint
from faultbridge.repair.jobs.jobs import END_NOT_OBSERVED, MAX_ID_LENGTH, MAX_NODES, MAX_REASON, Jobs
from faultbridge.repair.jobs.progress import MAX_STEP, JobProgress

MAX_REPORT = 256 * 1024
"""Maximum number of bytes of a report. The report of a job with 5,000 nodes fits."""

MAX_NAME, MAX_RANKS_PER_NODE, MAX_STALL = 256, 64, 7 * 86400
MIN_STALL, MAX_TIMED_RANKS = 60, 16_384
MAX_CLOCK_SKEW = timedelta(minutes=5)
"""How far in the future a reported time may be, because clocks differ."""

WAIT_FOR_START = timedelta(minutes=2)
"""How long a report about an unknown job is retried, because queues deliver in any order."""

NOT_FINITE = ("nan", "inf", "-inf")


class JobReport(Struct, frozen=True, kw_only=True):
    """A report that a job started, ended, reached a step, or saved a checkpoint that was requested.

    `start` needs `nodes`, and `heartbeat` needs `step`. The report may contain only the fields of its kind of change.
    """

    change: Literal["start", "end", "heartbeat", "checkpoint"]
    job_id: Annotated[str, Meta(min_length=1, max_length=MAX_ID_LENGTH), doc("The scheduler's id of the job.")]
    at: Annotated[datetime | None, doc("`start`, `end`: when it happened. Default: now.")] = None
    nodes: Annotated[
        list[str],
        doc("`start`: names of nodes, instance ids, or host lists such as `gpu-[001-004]`.", MAX_NODES),
    ] = field(default_factory=list)
    name: Annotated[Annotated[str, Meta(max_length=MAX_NAME)] | None, doc("`start`: name of the job for people.")] = (
        None
    )
    ranks: Annotated[dict[str, str] | None, doc('`start`: global ranks by node, such as `"0-7"`.')] = None
    ranks_per_node: Annotated[
        Annotated[int, Meta(ge=1, le=MAX_RANKS_PER_NODE)] | None,
        doc("`start`: equally many ranks, in the order of `nodes`."),
    ] = None
    stall_after_seconds: Annotated[
        Annotated[int, Meta(ge=MIN_STALL, le=MAX_STALL)] | None,
        doc("`start`: how long a step may take. Default: 1800."),
    ] = None
    checkpoint_signal: Annotated[
        str | None, doc("`start`: the signal on which the job saves a checkpoint, such as `USR1`. Default: none.")
    ] = None
    checkpoint_id: Annotated[
        Annotated[str, Meta(max_length=MAX_ID_LENGTH)] | None,
        doc("`checkpoint`: id of the answered request. Default: the latest."),
    ] = None
    outcome: Annotated[Literal["succeeded", "failed", "cancelled", "unreported"], doc("`end`: how the job ended.")] = (
        "unreported"
    )
    reason: Annotated[str, Meta(max_length=MAX_REASON), doc("`end`: a few words.")] = ""
    step: Annotated[
        Annotated[int, Meta(ge=0, le=MAX_STEP)] | None, doc("`heartbeat`: last step that was completed.")
    ] = None
    loss: Annotated[float | Literal["nan", "inf", "-inf"] | None, doc("`heartbeat`: loss of the step.")] = None
    step_seconds: Annotated[
        list[Annotated[float, Meta(ge=0, le=MAX_STALL)]],
        doc("`heartbeat`: how long each rank, in order, worked on the step without its waits.", MAX_TIMED_RANKS),
    ] = field(default_factory=list)


def record_report(jobs: Jobs, cluster: str, report: Mapping[str, object]) -> Job:
    """Validate and record a report, and return the job; raises Rejected `bad_report`."""
    return _record(jobs, cluster, read_report(report))


def record_report_record(jobs: Jobs, record: RawRecord) -> Outcome:
    """Record the job report in a raw record, and return what happened to the record.

    The body of the record is the report itself, or an event whose `detail` is the report. Returns FOLDED for a
    heartbeat, DUPLICATE if the report changed nothing, and RECORDED otherwise. Raises Rejected `bad_report` and the
    errors of `_record`. For an unknown job, it raises Transient until two minutes after the receipt of the record,
    because the report of the job's start may arrive later.
    """
    if len(record.body) > MAX_REPORT:
        raise Rejected("bad_report", f"the report is too large; allowed: {MAX_REPORT} bytes")
    try:
        document = json.loads(record.body)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise Rejected("bad_report", "the report is not a JSON object")
    is_event = is_cloud_event(document)
    detail = document["detail"] if is_event else document
    report = read_report({name: value for name, value in detail.items() if name != "cluster"})
    before = jobs.find(record.cluster, report.job_id)
    try:
        after = _record(jobs, record.cluster, report, record.sent_at, watched=not is_event)
    except UnknownName as error:
        if error.reason != "unknown_job" or jobs.clock.now() - record.received_at >= WAIT_FOR_START:
            raise
        raise Transient(f"the start of the job may still arrive: {error}") from error
    if report.change == "heartbeat":
        return Outcome.FOLDED
    return Outcome.DUPLICATE if before is not None and before.version == after.version else Outcome.RECORDED


def _record(
    jobs: Jobs, cluster: str, report: JobReport, reported_at: datetime | None = None, *, watched: bool = False
) -> Job:
    """Record a valid report; a sender that is `watched` also ends the run before a later start."""
    job_id, nodes = report.job_id, report.nodes
    if report.step is not None:
        loss: float | None = report.loss  # type: ignore[assignment]  # as read
        return JobProgress(jobs).heartbeat(cluster, job_id, report.step, loss, report.step_seconds)
    if report.change == "checkpoint":
        return answer_checkpoint(jobs, cluster, job_id, report.checkpoint_id)
    at = report.at or reported_at
    if at is not None and at > jobs.clock.now() + MAX_CLOCK_SKEW:
        raise Rejected("bad_time", "the time of the report is in the future")
    if report.change == "end":
        return jobs.end(cluster, job_id, outcome=report.outcome, reason=report.reason, at=at)
    before = jobs.find(cluster, job_id) if watched and report.at is not None else None
    if before is not None and before.ended_at is None and at is not None and before.started_at < truncate(at):
        jobs.end(cluster, job_id, reason=END_NOT_OBSERVED, at=at)
    ranks = ranks_in_order(nodes, report.ranks_per_node) if report.ranks_per_node is not None else report.ranks or {}
    limit = None if report.stall_after_seconds is None else timedelta(seconds=report.stall_after_seconds)
    return jobs.start(
        cluster,
        job_id,
        nodes,
        name=report.name,
        at=at,
        ranks=ranks,
        stall_after=limit,
        checkpoint_signal=report.checkpoint_signal,
    )


def read_report(report: Mapping[str, object]) -> JobReport:
    """Validate a report. Raises Rejected `bad_report`."""
    change = report.get("change")
    if not isinstance(change, str) or change not in FIELDS:
        raise Rejected("bad_report", f"invalid `change`; allowed: {', '.join(FIELDS)}")
    fields = FIELDS[change]
    if unknown := sorted(set(map(str, report)) - {*fields, "change"}):
        raise Rejected("bad_report", f"unknown field: {unknown[0][:40]!r}; allowed: change, {', '.join(fields)}")
    if missing := [name for name in fields if name in REQUIRED and report.get(name) is None]:
        raise Rejected("bad_report", f"`{missing[0]}` is missing")
    if report.get("ranks") is not None and report.get("ranks_per_node") is not None:
        raise Rejected("bad_report", "give `ranks` or `ranks_per_node`, not both")
    given: dict[str, object] = {name: _read(name, report[name]) for name in fields if report.get(name) is not None}
    return JobReport(**given, change=change)  # type: ignore[arg-type]  # it is a key of FIELDS


def _read(name: str, value: object) -> object:
    try:
        found = convert(value, TYPES[name])
        return READERS[name](found) if name in READERS else found
    except (ValueError, OverflowError, Rejected):
        raise Rejected("bad_report", f"invalid `{name}`; allowed: {ALLOWED[name]}") from None


def _text(value: str) -> str:
    if not value.isprintable():
        raise ValueError
    return value


def _nodes(value: list[str]) -> list[str]:
    nodes = [name for one in value for name in expand_host_list(_text(one))]
    if not 0 < len(nodes) <= MAX_NODES:
        raise ValueError
    return nodes


def _ranks(value: dict[str, str]) -> dict[str, str]:
    if len(value) > MAX_NODES or any(len(one) > MAX_NAME or not one.isprintable() for one in chain(*value.items())):
        raise ValueError
    return value


TYPES: Mapping[str, object] = {one.name: one.type for one in fields(JobReport)} | {"at": str}
READERS: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("job_id", "name", "reason", "checkpoint_id"), _text),
    "nodes": _nodes,
    "at": from_text,
    "ranks": _ranks,
    "checkpoint_signal": checked_signal,
    "loss": float,
}
"""How a field is read, besides the check of its type; `at` is text."""

ALLOWED: Mapping[str, str] = {
    "job_id": f"1 to {MAX_ID_LENGTH} printable characters",
    "nodes": f"a list of 1 to {MAX_NODES} nodes or host lists",
    "name": f"{MAX_NAME} printable characters",
    "at": "an RFC 3339 time with a time zone",
    "ranks": 'the ranks of nodes, such as {"gpu-1": "0-7"}',
    "ranks_per_node": f"an integer from 1 to {MAX_RANKS_PER_NODE}",
    "stall_after_seconds": f"an integer from {MIN_STALL} to {MAX_STALL}",
    "outcome": ", ".join(OUTCOMES),
    "reason": f"{MAX_REASON} printable characters",
    "checkpoint_id": f"1 to {MAX_ID_LENGTH} printable characters",
    "checkpoint_signal": f"one of {', '.join(SIGNALS)}",
    "step": f"an integer from 0 to {MAX_STEP}",
    "loss": f"a number, or one of the texts {', '.join(NOT_FINITE)}",
    "step_seconds": f"a list of at most {MAX_TIMED_RANKS} numbers of seconds",
}

FIELDS: Mapping[str, tuple[str, ...]] = {
    "start": ("job_id", "nodes", "name", "at", "ranks", "ranks_per_node", "stall_after_seconds", "checkpoint_signal"),
    "end": ("job_id", "outcome", "reason", "at"),
    "heartbeat": ("job_id", "step", "loss", "step_seconds"),
    "checkpoint": ("job_id", "checkpoint_id"),
}
"""The fields of a report of each change, besides `change`."""

REQUIRED = frozenset({"job_id", "nodes", "step"})
