"""The evidence for scoring failure mechanisms: the time line of a job, its files, and its nodes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property

from faultbridge.explain.signals.signal import LogSpan, Role, Signal, Trust
from faultbridge.explain.verdict.mechanisms import Mechanism, Weights
from faultbridge.explain.verdict.time_line import TimeLine

_COVERED_AFTER = timedelta(minutes=10)
_TERMINATED = frozenset({"process.terminated", "process.signaled"})
_OF_PLATFORM = ("scheduler.", "memory.")


@dataclass(frozen=True)
class Situation:
    """The evidence about a failed job, with the failure mechanisms and weights for scoring hypotheses.

    `nodes` maps each rank to its node, if the node is known.

    A log may repeat an error thousands of times, but a repetition does not change a score. The properties `leads` and
    `firsts` return the signals without repetitions. A signal repeats an earlier one if both have the same name, kind,
    role, file and `trust`, and their times fit the failure equally (`timing`). Both must have a time or neither, both a
    line number or neither, and both errors must be handled or neither.
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
    """Return why the time of a node's signal does not fit the failure of the job: `too_old`, for example.

    The result is the name of a weight. It is None if the time fits, and for a signal that is not from a node's own
    source.
    """
    if signal.trust is not Trust.NODE:
        return None
    limits, failed_at = situation.weights.limits, situation.line.failed_at
    skew = timedelta(seconds=limits["skew_seconds"])
    if signal.at is None or failed_at is None:
        return "unknown_time"
    if signal.at < failed_at - timedelta(seconds=limits["before_seconds"]):
        return "too_old"
    if signal.at <= failed_at + skew:
        return None
    ended_at = situation.line.ended_at
    return "teardown" if ended_at and signal.at <= ended_at + skew else "after_end"


def is_in_teardown(situation: Situation, one: Signal) -> bool:
    """Return whether the job reported an error only after its launcher had started to end the processes.

    The result is False for a signal that is no first sign of a failure, and for a signal of the scheduler
    (`scheduler.`) or about memory (`memory.`).
    """
    if one.trust is not Trust.JOB or one.role is not Role.INITIATING or one.name.startswith(_OF_PLATFORM):
        return False
    signals = (each for each in situation.firsts if each.name in _TERMINATED and each.trust is Trust.JOB)
    return any(situation.line.is_before(each, one) and is_same_attempt(situation, each, one) for each in signals)


def is_same_attempt(situation: Situation, ended: Signal, one: Signal) -> bool:
    """Return whether the earlier failure `ended` and the later signal `one` are of one attempt of the job.

    They are of different attempts if both are in one file, and the last progress in this file is between their lines.
    """
    progress = max((each.progress_line or 0 for each in situation.spans if each.file == one.file), default=0)
    return not (ended.file == one.file and (ended.line or 0) < progress <= (one.line or 0))


def in_time(situation: Situation, signal: Signal) -> bool:
    """Return whether the time of a signal fits the failure of the job, or is unknown."""
    return timing(situation, signal) in {None, "unknown_time"}


def covers(span: LogSpan, line: TimeLine) -> bool:
    """Return whether a log covers the first failure of the job.

    A log that ends at most ten minutes before that failure covers it too. The result is False if the time of the
    failure, or the first or last time in the log, is unknown.
    """
    if span.first_at is None or span.last_at is None or line.failed_at is None:
        return False
    return span.first_at <= line.failed_at <= span.last_at + _COVERED_AFTER
