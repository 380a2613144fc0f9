"""The evidence for scoring failure mechanisms: the time line of a job, its files, and its nodes."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from itertools import takewhile

from faultbridge.explain.signals.signal import FAILURES, Attempt, LogSpan, Role, Signal, Trust
from faultbridge.explain.verdict.mechanisms import Mechanism, Weights

RETRIED = "retried"
HANG = "nccl.timeout"
_ROUNDED = timedelta(seconds=2)
_LONGEST_TIMEOUT = timedelta(hours=1)
_ROLE_ORDER = {role: number for number, role in enumerate(Role)}


@dataclass(frozen=True, slots=True)
class TimeLine:
    """The signals of a job in the order of time, with its first failure and its end.

    - `symptom` is the first failure in the logs of the job, or else in its dumps. One that the job survived counts only
      if there is no other. `failed_at` is its time, or else that of the end of its log, or else `ended_at`.
    - `ended_at` and `progress_at` are the last time, and the last time with progress, in the logs, or else the dumps.
    - `recovered` are errors after which the job made progress. `signals` has only their last repetition, if the job did
      not recover from it. `claims` look like kernel lines without proof, and are not in `signals` either.
    - `attempts` are the attempts of the job that its logs show, in order. `signals` has only the last that failed.
    - `has_started_well` is True after `progress_steps` training steps, or `progress_seconds` with progress. In a log
      without times, progress after line `recovered_lines` is enough. `has_worked_long` is True after `hours_seconds`.
    """

    signals: tuple[Signal, ...]
    recovered: tuple[Signal, ...]
    claims: tuple[Signal, ...]
    attempts: tuple[Attempt, ...]
    symptom: Signal | None
    ended_at: datetime | None
    failed_at: datetime | None
    progress_at: datetime | None
    has_started_well: bool
    has_worked_long: bool

    @property
    def repeated(self) -> tuple[Attempt, ...]:
        """Return the last attempt, and those before it that ended with its error and without progress between them."""
        earlier = takewhile(lambda one: one.repeats(self.attempts[-1]), reversed(self.attempts[:-1]))
        return (*tuple(earlier)[::-1], *self.attempts[-1:])

    @property
    def failing_since(self) -> datetime | None:
        """Return the time of the last progress or of the first failure, whichever is earlier."""
        return min((one for one in (self.failed_at, self.progress_at) if one), default=None) if self.failed_at else None

    def is_before(self, one: Signal, other: Signal) -> bool:
        """Return whether a signal comes before another, or is in the same line.

        Some programs print whole seconds, so signals of one file less than two seconds apart are compared by their
        lines.
        """
        has_lines = one.file == other.file and one.line is not None and other.line is not None
        if one.at and other.at and abs(one.at - other.at) >= (_ROUNDED if has_lines else timedelta(microseconds=1)):
            return one.at < other.at
        return has_lines and (one.line or 0) <= (other.line or 0)


def time_line(signals: Iterable[Signal], spans: Iterable[LogSpan], limits: Mapping[str, int]) -> TimeLine:
    """Return the time line of a job. Recovered errors and imitated kernel lines have separate fields."""
    spans, dumped = [one for one in spans if one.trust is Trust.JOB], [one for one in spans if one.trust is Trust.DUMP]
    by_file = {one.file: one for one in spans}
    progress_at = max((one.progress_at for one in (*spans, *dumped) if one.progress_at), default=None)
    attempts, signals = _attempts(sorted(signals, key=_order), spans)
    begun = (one for one in signals if one.role is Role.INITIATING or one.name == HANG)
    signs = sorted((one.line or 0, one.file) for one in begun if one.trust is Trust.JOB and not one.handled)
    last_signs = {file: number for number, file in signs}

    def is_recovered(one: Signal) -> bool:
        return _is_recovered(one, by_file.get(one.file), last_signs.get(one.file, 0), progress_at, limits)

    kept: list[Signal] = []
    again: list[Signal] = []
    recovered: list[Signal] = []
    claims: list[Signal] = []
    for one in signals:
        if one.name.startswith("claim."):
            claims.append(one)
        elif one.trust is Trust.JOB and is_recovered(one):
            recovered.append(one)
            last = replace(one, at=one.last_at or one.at, line=one.last_line or one.line)
            if one.count > 1 and not is_recovered(last):
                # The job made progress after the error, and failed with it again.
                again.append(last)
        else:
            kept.append(one)
    kept = sorted([*kept, *again], key=_order)
    failures = [one for one in kept if one.trust is not Trust.NODE and one.role in FAILURES]
    ending = next((one for one in failures if not one.handled), None)
    # A dump has no time, and an error after which its process continued is no failure: the others come first.
    symptom = min(
        failures, key=lambda one: (_is_survived(one, ending, limits), one.trust is not Trust.JOB), default=None
    )
    ended_at = max((one.last_at for one in (spans or dumped) if one.last_at), default=None)
    ended_at = ended_at or max((one.last_at for one in dumped if one.last_at), default=None)
    own = by_file.get(symptom.file) if symptom else None
    failed_at = (symptom.at if symptom else None) or (own.last_at if own else None) or ended_at
    return TimeLine(
        tuple(kept), tuple(recovered), tuple(claims), attempts, symptom, ended_at, failed_at, progress_at,
        _has_started_well(spans, limits), _has_progress_of(spans, limits["hours_seconds"]),
    )  # fmt: skip


def _attempts(signals: Sequence[Signal], spans: Sequence[LogSpan]) -> tuple[tuple[Attempt, ...], list[Signal]]:
    """Return the attempts of a job, and the signals without those of its earlier attempts.

    Files of one run are those of its ranks or nodes (`_is_of_same_run`). A last attempt without an error was only
    started: it does not count.
    """
    runs: list[list[LogSpan]] = []
    for one in sorted(spans, key=lambda one: (one.first_at is not None, one.first_at)):
        if not runs or not any(_is_of_same_run(each, one) for each in runs[-1]):
            runs.append([])
        runs[-1].append(one)
    found: dict[tuple[int, int], Attempt] = {}
    number_of = {span.file: number for number, run in enumerate(runs) for span in run}
    errors: dict[tuple[int, int], Signal] = {}
    failures = (one for one in signals if one.trust is Trust.JOB and one.role in FAILURES and not one.handled)
    for failure in sorted(failures, key=lambda one: one.role is Role.CASCADE):
        errors.setdefault((number_of.get(failure.file, -1), failure.attempt), failure)
    for number, run in enumerate(runs):
        for attempt in range(max(len(one.attempts) for one in run)):
            ends = [one.attempts[attempt] for one in run if attempt < len(one.attempts)]
            error = errors.get((number, attempt)) or next((one.error for one in ends if one.error), None)
            step = max((one.step for one in ends if one.step is not None), default=None)
            found[number, attempt] = Attempt(step, error, any(one.has_worked for one in ends))
    ended = [key for key, one in found.items() if one.error]
    last = ended[-1] if ended else (len(runs) - 1, 0)

    def is_of_earlier(one: Signal) -> bool:
        return one.trust is Trust.JOB and one.file in number_of and (number_of[one.file], one.attempt) < last

    return tuple(found[key] for key in ended), [one for one in signals if not is_of_earlier(one)]


def _is_of_same_run(earlier: LogSpan, later: LogSpan) -> bool:
    """Return whether two logs are of the same run: their times overlap, or they can be those of two ranks.

    A rank that only waits prints nothing until its timeout, so logs apart are of two runs only if both have steps, or
    if more time than the longest usual timeout is between them.
    """
    if earlier.last_at is None or later.first_at is None or later.first_at <= earlier.last_at:
        return True
    has_steps = [any(one.step is not None for one in each.attempts) for each in (earlier, later)]
    return not all(has_steps) and later.first_at - earlier.last_at <= _LONGEST_TIMEOUT


def _order(one: Signal) -> tuple[float, int, str, int]:
    at = one.at.timestamp() if one.at else float("inf")
    return at, _ROLE_ORDER[one.role], one.file, one.line or 0


def _is_recovered(
    one: Signal, span: LogSpan | None, last_sign: int, progress_at: datetime | None, limits: Mapping[str, int]
) -> bool:
    if one.role is Role.INITIATING and span is not None and _is_before_steps(one, span, last_sign):
        return True
    if one.at and progress_at:
        return progress_at - one.at > timedelta(seconds=limits["recovered_seconds"])
    if span is None or span.progress_line is None or one.line is None:
        return False
    return span.progress_line - one.line > limits["recovered_lines"]


def _is_before_steps(one: Signal, span: LogSpan, last_sign: int) -> bool:
    """Return whether the job reported two more training steps after an error, so the error ended no rank.

    The steps must be below the error in the log, and not earlier. Without times, steps below the error may be older,
    because a program may buffer its output. Then, another step must be above the error, or the last sign of a
    failure, in the line `last_sign`, below the steps: a later failure ended the job.
    """
    if span.steps_line is None or one.line is None or one.line >= span.steps_line:
        return False
    if one.at and span.steps_at:
        return one.at <= span.steps_at + _ROUNDED
    return (span.first_step_line or one.line + 1) <= one.line or last_sign > span.steps_line


def _is_survived(one: Signal, ending: Signal | None, limits: Mapping[str, int]) -> bool:
    """Return whether a process handled an error, and, after a retry, continued long before the failure `ending`."""
    if not one.handled or ending is None:
        return bool(one.handled)
    last_at = one.last_at or one.at
    is_close = bool(last_at and ending.at and ending.at - last_at <= timedelta(seconds=limits["recovered_seconds"]))
    return not (one.handled == RETRIED and is_close)


def _has_started_well(spans: Iterable[LogSpan], limits: Mapping[str, int]) -> bool:
    without_times = (one for one in spans if not (one.progress_at and one.first_at))
    return (
        _has_progress_of(spans, limits["progress_seconds"])
        or any((one.progress_line or 0) > limits["recovered_lines"] for one in without_times)
        or any(one.steps >= limits["progress_steps"] for one in spans)
    )


def _has_progress_of(spans: Iterable[LogSpan], seconds: int) -> bool:
    times = ((one.first_at, one.progress_at or one.ran_until) for one in spans)
    return any(first and last and last - first > timedelta(seconds=seconds) for first, last in times)


_COVERED_AFTER = timedelta(minutes=10)
_TERMINATED = frozenset({"process.terminated", "process.signaled"})
_OF_PLATFORM = ("scheduler.", "memory.")


@dataclass(frozen=True)
class Situation:
    """The evidence about a failed job, with the failure mechanisms and weights for scoring hypotheses.

    `nodes` maps each rank to its node, if it is known. A log may repeat an error thousands of times, but a repetition
    does not change a score: `leads` and `firsts` have the first of the signals that `_sort` does not distinguish.
    """

    line: TimeLine
    spans: Sequence[LogSpan]
    mechanisms: Sequence[Mechanism]
    weights: Weights
    nodes: Mapping[int, str] = field(default_factory=dict)

    @cached_property
    def leads(self) -> tuple[Signal, ...]:
        """Return all signals, without those that repeat an earlier signal of the same node."""
        return firsts_of(self.line.signals, lambda one: (*self._sort(one), one.node))

    @cached_property
    def named_nodes(self) -> frozenset[str]:
        """Return the nodes of the ranks that the dumps name; a fault of another node did not stop these ranks."""
        return frozenset(one.node for one in self.line.signals if one.trust is Trust.DUMP and one.node)

    @cached_property
    def trained_until(self) -> datetime | None:
        """Return the time of the last training steps that a log shows with their times."""
        return max((one.steps_at for one in self.spans if one.steps_at), default=None)

    @cached_property
    def firsts(self) -> tuple[Signal, ...]:
        """Return all signals, without those that repeat an earlier signal of the same or another node."""
        return firsts_of(self.line.signals, self._sort)

    def _sort(self, one: Signal) -> tuple[Hashable, ...]:
        place = one.trust, one.file, one.at is None, one.line is None, bool(one.handled)
        return one.name, one.kind, one.role, *place, timing(self, one)


def firsts_of(signals: Iterable[Signal], key: Callable[[Signal], Hashable]) -> tuple[Signal, ...]:
    """Return the first signal for each value that `key` returns."""
    found: dict[Hashable, Signal] = {}
    for one in signals:
        found.setdefault(key(one), one)
    return tuple(found.values())


def timing(situation: Situation, signal: Signal) -> str | None:
    """Return the weight of a node's signal whose time does not fit the failure, or None."""
    if signal.trust is not Trust.NODE:
        return None
    if situation.named_nodes and signal.node not in situation.named_nodes:
        return "other_node"
    limits, failed_at = situation.weights.limits, situation.line.failed_at
    skew = timedelta(seconds=limits["skew_seconds"])
    own = next((one for one in situation.spans if one.file == signal.file), None)
    # The logs of a node are taken after the job failed: without a better time, the failure is not after their end.
    until = failed_at or (own.last_at if own else None)
    if signal.at is None or until is None:
        return "unknown_time"
    is_stale = signal.at < until - timedelta(seconds=limits["before_seconds" if failed_at else "stale_seconds"])
    # A job that trains on long after the last report of a fault did not stop for it.
    trained_until = situation.trained_until or signal.at
    is_stale |= (signal.last_at or signal.at) < trained_until - timedelta(seconds=limits["recovered_seconds"])
    if is_stale or (own and any(signal.at < one <= until for one in own.boots)):
        return "too_old"
    if failed_at is None or signal.at <= failed_at + skew:
        return None if failed_at else "unknown_time"
    ended_at = situation.line.ended_at
    return "teardown" if ended_at and signal.at <= ended_at + skew else "after_end"


def is_in_teardown(situation: Situation, one: Signal) -> bool:
    """Return whether a first sign, not of the scheduler or memory, came after the launcher began to end processes."""
    if one.trust is not Trust.JOB or one.role is not Role.INITIATING or one.name.startswith(_OF_PLATFORM):
        return False
    signals = (each for each in situation.firsts if each.name in _TERMINATED and each.trust is Trust.JOB)
    return any(situation.line.is_before(each, one) and is_same_attempt(situation, each, one) for each in signals)


def is_same_attempt(situation: Situation, ended: Signal, one: Signal) -> bool:
    """Return whether no progress in one file lies between the failure `ended` and the signal `one`."""
    progress = max((each.progress_line or 0 for each in situation.spans if each.file == one.file), default=0)
    return not (ended.file == one.file and (ended.line or 0) < progress <= (one.line or 0))


def in_time(situation: Situation, signal: Signal) -> bool:
    """Return whether the time of a signal fits the failure of the job, or is unknown."""
    return timing(situation, signal) in {None, "unknown_time"}


def covers(span: LogSpan, line: TimeLine) -> bool:
    """Return whether a log covers the job's first failure, or ends at most ten minutes before it."""
    if span.first_at is None or span.last_at is None or line.failed_at is None:
        return False
    return span.first_at <= line.failed_at <= span.last_at + _COVERED_AFTER


# The symptom of a failure: the first error that the job shows, and the ranks that it singles out.

_GROUP = re.compile(r"PG (?:ID \S{1,32} PG )?GUID (\S{1,32})|PG ID (\S{1,32})")  # groups of ranks can share an id
_ENQUEUED = re.compile(r"last enqueued(?: NCCL)?(?: work)?: (\d{1,12})")
_OF_DEVICE = "cuda.*"
_MAX_SHOWN = 16


@dataclass(frozen=True, slots=True)
class NamedRank:
    """A rank that the job's own logs single out, with the reason and the line that shows it, if there is one."""

    rank: int
    reason: str
    signal: Signal | None = None


def symptom_of(line: TimeLine, spans: Iterable[LogSpan] = ()) -> Signal | None:
    """Return the first failure of the job: else its first error in any words, a fault of a node, or its last line."""
    faults = (one for one in line.signals if one.trust is Trust.NODE and one.role is not Role.CONTEXT)
    return (
        line.symptom
        or (line.attempts[-1].error if line.attempts else None)
        or next(faults, None)
        or next((one.last for one in spans if one.last), None)
    )


def named_ranks(line: TimeLine, nodes: Mapping[int, str]) -> tuple[NamedRank, ...]:
    """Return the ranks that differ from the others, at most 16.

    - `behind`: the rank enqueued fewer operations than another rank of its group.
    - `no_timeout`: most ranks report a timeout of a collective, and this one does not.
    - `failed`: the first failure is an error of this rank's GPU.
    """
    own = [one for one in line.signals if one.trust is Trust.JOB and one.rank is not None]
    found: dict[int, NamedRank] = {}
    first = symptom_of(line)
    if first is not None and first.rank is not None and first.matches(_OF_DEVICE):
        found[first.rank] = NamedRank(first.rank, "failed", first)
    for one in (*_behind(own), *_without_timeout(own, nodes)):
        found.setdefault(one.rank, one)
    return tuple(found.values()) if len(found) <= _MAX_SHOWN else ()


def _behind(signals: Sequence[Signal]) -> Iterator[NamedRank]:
    enqueued: dict[str, dict[int, tuple[int, Signal]]] = defaultdict(dict)
    for one in signals:
        if (found := _ENQUEUED.search(one.text)) and one.rank is not None:
            group = _GROUP.search(one.text)
            enqueued[group[1] or group[2] if group else ""][one.rank] = int(found[1]), one
    for each in enqueued.values():
        most = max(number for number, _ in each.values())
        late = [(rank, number, one) for rank, (number, one) in each.items() if number < most]
        if 2 * len(late) < len(each):
            for rank, number, one in late:
                yield NamedRank(rank, f"behind: enqueued {number} operations, others {most}", one)


def _without_timeout(signals: Sequence[Signal], nodes: Mapping[int, str]) -> Iterator[NamedRank]:
    timed_out = {one.rank for one in signals if one.name == HANG}
    ranks = {one.rank for one in signals if one.rank is not None} | {one for one in nodes if one >= 0}
    missing = ranks - timed_out
    if 2 * len(missing) < len(ranks):
        shown = {one.rank: one for one in reversed(signals) if one.role is not Role.TEARDOWN}
        yield from (NamedRank(rank, "no_timeout: most ranks report one", shown.get(rank)) for rank in sorted(missing))
