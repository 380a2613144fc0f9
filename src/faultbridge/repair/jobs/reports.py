"""Job reports: JSON documents in which schedulers report a start, an end or a step of a job.

The HTTP API and the event bus accept the same document.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from faultbridge.model.cluster.jobs import OUTCOMES, Job
from faultbridge.model.cluster.ranks import ranks_in_order
from faultbridge.model.dataclass import dataclass
from faultbridge.model.errors import Rejected
from faultbridge.model.names import expand_host_list
from faultbridge.model.times import from_text, truncate
from faultbridge.repair.jobs.jobs import END_NOT_OBSERVED, MAX_ID_LENGTH, MAX_NODES, MAX_REASON, Jobs
from faultbridge.repair.jobs.progress import MAX_STEP, JobProgress

MAX_REPORT = 256 * 1024
"""Maximum number of bytes of a report. The report of a job with 5,000 nodes fits."""

MAX_NAME, MAX_RANKS_PER_NODE, MAX_STALL = 256, 64, 7 * 86400
MIN_STALL = 60
MAX_CLOCK_SKEW = timedelta(minutes=5)
"""How far in the future a reported time may be, because clocks differ."""

NOT_FINITE = ("nan", "inf", "-inf")
Read = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class RecordReport:
    """Records job reports of schedulers.

    `jobs` determines when the states of the nodes get the id of a started job: at once, or by the next sweep.
    """

    jobs: Jobs

    def __call__(
        self, cluster: str, report: Mapping[str, Any], reported_at: datetime | None = None, *, watched: bool = False
    ) -> Job:
        """Validate and record a report; return the job.

        `reported_at` is the time of the report, and `watched` is True if the sender observes the job itself. Raises
        Rejected `bad_report` for an invalid report, and the errors of `record`.
        """
        return self.record(cluster, read_report(report), reported_at, watched=watched)

    def record(
        self, cluster: str, fields: Mapping[str, Any], reported_at: datetime | None = None, *, watched: bool = False
    ) -> Job:
        """Record the fields of a valid report, and return the job.

        `reported_at` is the time of the report, used if the field `at` is missing. `watched` is True if the sender
        observes the job itself. If such a sender reports a start with a later `at` than that of the running job, the
        running job is first recorded as ended. Raises Rejected `bad_time` for a time more than five minutes in the
        future, and the errors of `Jobs.start`, `Jobs.end` and `JobProgress.heartbeat`.
        """
        given = dict(fields)
        change, job_id = given.pop("change"), given.pop("job_id")
        if change == "heartbeat":
            return JobProgress(self.jobs).heartbeat(cluster, job_id, **given)
        started_at = given.get("at")
        at = self._time(given.pop("at", None) or reported_at)
        if change == "end":
            return self.jobs.end(cluster, job_id, at=at, **given)
        nodes, per_node = given.pop("nodes"), given.pop("ranks_per_node", None)
        if per_node is not None:
            given["ranks"] = ranks_in_order(nodes, per_node)
        if watched and started_at is not None:
            self._end_earlier_run(cluster, job_id, started_at)
        seconds = given.pop("stall_after_seconds", None)
        stall_after = None if seconds is None else timedelta(seconds=seconds)
        return self.jobs.start(cluster, job_id, nodes, at=at, stall_after=stall_after, **given)

    def _end_earlier_run(self, cluster: str, job_id: str, at: datetime) -> None:
        found = self.jobs.find(cluster, job_id)
        if found is not None and found.ended_at is None and found.started_at < truncate(at):
            self.jobs.end(cluster, job_id, reason=END_NOT_OBSERVED, at=at)

    def _time(self, at: datetime | None) -> datetime | None:
        if at is not None and at > self.jobs.clock.now() + MAX_CLOCK_SKEW:
            raise Rejected("bad_time", "the time of the report is in the future")
        return at


def read_report(report: Mapping[str, Any]) -> dict[str, Any]:
    """Validate a report and return its fields that have a value. Raises Rejected `bad_report`."""
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
    return {"change": change} | {name: _read(name, report[name]) for name in fields if report.get(name) is not None}


def _read(name: str, value: object) -> object:
    read, allowed = READERS[name]
    try:
        return read(value)
    except (ValueError, OverflowError, Rejected):
        raise Rejected("bad_report", f"invalid `{name}`; allowed: {allowed}") from None


def _text(value: object, limit: int) -> str:
    if not isinstance(value, str) or not value.isprintable() or len(value) > limit:
        raise ValueError
    return value


def _integer(value: object, minimum: int, maximum: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not minimum <= value <= maximum:
        raise ValueError
    return value


def _nodes(value: object) -> list[str]:
    if not isinstance(value, list) or not 0 < len(value) <= MAX_NODES:
        raise ValueError
    nodes = [name for one in value for name in expand_host_list(_text(one, MAX_REPORT))]
    if not 0 < len(nodes) <= MAX_NODES:
        raise ValueError
    return nodes


def _ranks(value: object) -> dict[str, str]:
    if not isinstance(value, dict) or len(value) > MAX_NODES:
        raise ValueError
    return {_text(node, MAX_NAME): _text(ranks, MAX_NAME) for node, ranks in value.items()}


def _loss(value: object) -> float:
    if value in NOT_FINITE:
        return float(str(value))
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    raise ValueError


def _outcome(value: object) -> str:
    if value not in OUTCOMES:
        raise ValueError
    return str(value)


def _job_id(value: object) -> str:
    if not value:
        raise ValueError
    return _text(value, MAX_ID_LENGTH)


READERS: Mapping[str, tuple[Read, str]] = {
    "job_id": (_job_id, f"1 to {MAX_ID_LENGTH} printable characters"),
    "nodes": (_nodes, f"a list of 1 to {MAX_NODES} nodes or host lists"),
    "name": (partial(_text, limit=MAX_NAME), f"{MAX_NAME} printable characters"),
    "at": (lambda value: from_text(_text(value, 64)), "an RFC 3339 time with a time zone"),
    "ranks": (_ranks, 'the ranks of nodes, such as {"gpu-1": "0-7"}'),
    "ranks_per_node": (
        partial(_integer, minimum=1, maximum=MAX_RANKS_PER_NODE),
        f"an integer from 1 to {MAX_RANKS_PER_NODE}",
    ),
    "stall_after_seconds": (
        partial(_integer, minimum=MIN_STALL, maximum=MAX_STALL),
        f"an integer from {MIN_STALL} to {MAX_STALL}",
    ),
    "outcome": (_outcome, ", ".join(OUTCOMES)),
    "reason": (partial(_text, limit=MAX_REASON), f"{MAX_REASON} printable characters"),
    "step": (partial(_integer, minimum=0, maximum=MAX_STEP), f"an integer from 0 to {MAX_STEP}"),
    "loss": (_loss, f"a number, or one of the texts {', '.join(NOT_FINITE)}"),
}
"""How each field is read, and what is allowed."""

FIELDS: Mapping[str, tuple[str, ...]] = {
    "start": ("job_id", "nodes", "name", "at", "ranks", "ranks_per_node", "stall_after_seconds"),
    "end": ("job_id", "outcome", "reason", "at"),
    "heartbeat": ("job_id", "step", "loss"),
}
"""The fields of a report of each change, besides `change`."""

REQUIRED = frozenset({"job_id", "nodes", "step"})
