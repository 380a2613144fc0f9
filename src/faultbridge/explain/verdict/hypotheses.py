"""Scores each mechanism by the evidence for it and against it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property

from faultbridge.explain.signals.signal import LogSpan, Role, Signal, Trust
from faultbridge.explain.verdict.mechanisms import Mechanism, Outlook, Weights
from faultbridge.explain.verdict.time_line import TimeLine

DECISIVE = "decisive"
_COVERED_AFTER = timedelta(minutes=10)
_MAX_CONFIRMED = 2
_TERMINATED = frozenset({"process.terminated", "process.signaled"})
_OF_PLATFORM = ("scheduler.", "memory.")


@dataclass(frozen=True, slots=True)
class Point:
    """One piece of evidence: its weight, its points, and the signal that shows it."""

    weight: str
    points: int
    signal: Signal | None = None


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One mechanism with its first sign and the points for and against it."""

    mechanism: Mechanism
    lead: Signal
    points: tuple[Point, ...]

    @property
    def score(self) -> int:
        """Return the sum of the points."""
        return sum(one.points for one in self.points)


@dataclass(frozen=True)
class Situation:
    """What hypotheses are scored against: the time line, the files, the mechanisms and the weights.

    A log may repeat an error thousands of times. Of equal signals only the first can change a score: `leads` are the
    first of each name and node, `firsts` the first of each name.
    """

    line: TimeLine
    spans: Sequence[LogSpan]
    mechanisms: Sequence[Mechanism]
    weights: Weights

    @cached_property
    def leads(self) -> tuple[Signal, ...]:
        """Return the first signal of each name, place and time that differ for a score."""
        return _firsts(self.line.signals, lambda one: (*self._sort(one), one.node))

    @cached_property
    def firsts(self) -> tuple[Signal, ...]:
        """Return the first signal of each name, whatever its node is."""
        return _firsts(self.line.signals, self._sort)

    def _sort(self, one: Signal) -> tuple[Hashable, ...]:
        return one.name, one.kind, one.role, one.trust, one.file, one.at is None, one.line is None, timing(self, one)


def _firsts(signals: Iterable[Signal], key: Callable[[Signal], Hashable]) -> tuple[Signal, ...]:
    found: dict[Hashable, Signal] = {}
    for one in signals:
        found.setdefault(key(one), one)
    return tuple(found.values())


def hypotheses(situation: Situation) -> list[Hypothesis]:
    """Return the best hypothesis of each mechanism that has a first sign, the likeliest first."""
    best = [found for one in situation.mechanisms if (found := _best(situation, one)) is not None]
    return sorted(best, key=lambda one: (-one.score, situation.line.signals.index(one.lead), one.mechanism.name))


def own_fault(situation: Situation) -> Hypothesis | None:
    """Return the likeliest hypothesis with a decisive fault in a node's own source while the job failed.

    That is from the last progress of the job to its first failure, with the allowed difference of clocks.
    """
    since, until = situation.line.failing_since, situation.line.failed_at
    if since is None or until is None:
        return None
    skew = timedelta(seconds=situation.weights.limits["skew_seconds"])
    in_time = (one for one in situation.line.signals if one.at and since - skew <= one.at <= until + skew)
    own = _firsts((one for one in in_time if one.trust is Trust.NODE), lambda one: (one.name, one.kind, one.node))
    found = (
        Hypothesis(mechanism, one, tuple(_points(situation, mechanism, one, DECISIVE)))
        for mechanism in situation.mechanisms
        for one in own
        if mechanism.outlook is not Outlook.STOP and mechanism.strength(one) == DECISIVE
    )
    return max(found, key=lambda one: one.score, default=None)


def timing(situation: Situation, signal: Signal) -> str | None:
    """Return the weight of a time that does not fit the failure of the job; None for a time that fits."""
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
    """Return whether a program printed a line after the launcher had begun to end its processes."""
    if one.trust is not Trust.JOB or one.role is not Role.INITIATING or one.name.startswith(_OF_PLATFORM):
        return False
    signals = (each for each in situation.firsts if each.name in _TERMINATED and each.trust is Trust.JOB)
    return any(situation.line.is_before(each, one) for each in signals)


def is_on_many_ranks(situation: Situation, one: Signal) -> bool:
    """Return whether several ranks, of which two are known to be on different nodes, printed the same error."""
    same = [
        each
        for each in situation.line.signals
        if one.said and each.rank is not None and (each.name, each.said) == (one.name, one.said)
    ]
    nodes, ranks = {each.node for each in same} - {None}, {each.rank for each in same}
    return len(ranks) >= situation.weights.limits["many_ranks"] and len(nodes) > 1


def in_time(situation: Situation, signal: Signal) -> bool:
    """Return whether the time of a signal fits the failure of the job, or is unknown."""
    return timing(situation, signal) in {None, "unknown_time"}


def _best(situation: Situation, mechanism: Mechanism) -> Hypothesis | None:
    signs = [one for one in situation.leads if one.role is not Role.CONTEXT or one.name in mechanism.initiators]
    found = [
        Hypothesis(mechanism, one, tuple(_points(situation, mechanism, one, strength)))
        for one in signs
        if (strength := mechanism.strength(one)) is not None
    ]
    return max(found, key=lambda one: one.score) if found else None


def _points(situation: Situation, mechanism: Mechanism, lead: Signal, strength: str) -> Iterator[Point]:
    weights, line = situation.weights, situation.line
    points, is_claim = weights.points[strength], mechanism.expects_node and lead.trust is Trust.JOB
    yield Point(strength, min(points, weights.limits["claim"]) if is_claim else points, lead)
    late = timing(situation, lead)
    if late is not None:
        yield Point(late, weights.points[late], line.symptom)
    if is_in_teardown(situation, lead):
        yield Point("teardown", weights.points["teardown"], lead)
    earlier = _earlier_cause(situation, mechanism, lead)
    yield Point(
        *(("first", weights.points["first"]) if earlier is None else ("caused", weights.points["caused"], earlier))
    )
    if line.symptom is not None:
        fit = "explains" if mechanism.can_cause(line.symptom) else "does_not_explain"
        yield Point(fit, weights.points[fit], line.symptom)
    yield from _confirmed(situation, mechanism, lead)
    if mechanism.expects_node and lead.trust is not Trust.NODE:
        weight = "clean_node_log" if _is_clean(situation, mechanism, lead) else "no_node_log"
        yield Point(weight, weights.points[weight])


def _confirmed(situation: Situation, mechanism: Mechanism, lead: Signal) -> Iterator[Point]:
    names = {lead.name}
    for one in situation.firsts:
        if len(names) > _MAX_CONFIRMED:
            return
        if one.name not in names and mechanism.strength(one) is not None and timing(situation, one) is None:
            names.add(one.name)
            yield Point("confirmed", situation.weights.points["confirmed"], one)


def _earlier_cause(situation: Situation, mechanism: Mechanism, lead: Signal) -> Signal | None:
    """Return an earlier initiating signal of another mechanism that can cause this one, but not the reverse."""
    for one in situation.firsts:
        if one is lead or one.role is not Role.INITIATING or not situation.line.is_before(one, lead):
            continue
        if mechanism.can_cause(one) or timing(situation, one) is not None:
            continue
        for other in situation.mechanisms:
            is_sign = other.name != mechanism.name and other.strength(one) is not None and other.can_cause(lead)
            if is_sign and not (other.expects_node and one.trust is Trust.JOB):
                return one
    return None


def _is_clean(situation: Situation, mechanism: Mechanism, lead: Signal) -> bool:
    """Return whether the node's own log covers the time of a claim and does not show its mechanism."""
    spans = [one for one in situation.spans if one.trust is Trust.NODE and covers(one, situation.line)]
    nodes = {one.node for one in spans}
    own = [one for one in situation.leads if one.trust is Trust.NODE and mechanism.strength(one) is not None]
    if lead.node is not None:
        return lead.node in nodes and lead.node not in {one.node for one in own}
    return bool(spans) and not own


def covers(span: LogSpan, line: TimeLine) -> bool:
    """Return whether the log of a node covers the first failure of the job."""
    if span.first_at is None or span.last_at is None or line.failed_at is None:
        return False
    return span.first_at <= line.failed_at <= span.last_at + _COVERED_AFTER
