"""Scores each failure mechanism by the evidence that it ended the job, and the evidence against it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from faultbridge.explain.signals.signal import Role, Signal, Trust
from faultbridge.explain.verdict.doubts import DOUBTS, doubts
from faultbridge.explain.verdict.mechanisms import DECISIVE, Mechanism, Outlook
from faultbridge.explain.verdict.node_evidence import continues_after
from faultbridge.explain.verdict.situation import Situation, covers, firsts_of, is_in_teardown, timing

_MAX_CONFIRMED = 2


@dataclass(frozen=True, slots=True)
class Point:
    """One piece of evidence for or against a hypothesis.

    `weight` is the name of its weight. `points` are added to the score, and may be negative. `signal` is the signal
    that shows the evidence, or None.
    """

    weight: str
    points: int
    signal: Signal | None = None


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A possible cause of a job's failure, with the evidence for and against it.

    `lead` is the signal that may have started the failure. `points` are the weighted pieces of evidence.
    """

    mechanism: Mechanism
    lead: Signal
    points: tuple[Point, ...]

    @property
    def score(self) -> int:
        """Return the sum of all points for and against the hypothesis."""
        return sum(one.points for one in self.points)

    @property
    def weights(self) -> frozenset[str]:
        """Return the names of the weights in `points`."""
        return frozenset(one.weight for one in self.points)

    @property
    def is_doubtful(self) -> bool:
        """Return whether a point of the hypothesis shows that the job might not fail again after a restart."""
        return bool(self.weights & DOUBTS)


def hypotheses(situation: Situation) -> list[Hypothesis]:
    """Return the best hypothesis for each failure mechanism, the highest score first.

    A mechanism without a signal that may have started the failure has no hypothesis.
    """
    best = [found for one in situation.mechanisms if (found := _best(situation, one)) is not None]
    return sorted(best, key=lambda one: (-one.score, situation.line.signals.index(one.lead), one.mechanism.name))


def own_fault(situation: Situation) -> Hypothesis | None:
    """Return the best hypothesis with a decisive fault that a node itself reported while the job failed.

    - A decisive fault is enough to prove a failure mechanism. Mechanisms with the outlook STOP do not count.
    - The time in which the job failed is from `TimeLine.failing_since` to `TimeLine.failed_at`. A tolerance for clocks
      that differ (`skew_seconds`) is added on both sides.
    - The result is None if there is no such fault, or if `TimeLine.failed_at` is None.
    """
    since, until = situation.line.failing_since, situation.line.failed_at
    if since is None or until is None:
        return None
    skew = timedelta(seconds=situation.weights.limits["skew_seconds"])
    in_time = (one for one in situation.line.signals if one.at and since - skew <= one.at <= until + skew)
    own = firsts_of((one for one in in_time if one.trust is Trust.NODE), lambda one: (one.name, one.kind, one.node))
    found = (
        Hypothesis(mechanism, one, tuple(_points(situation, mechanism, one, DECISIVE)))
        for mechanism in situation.mechanisms
        for one in own
        if mechanism.outlook is not Outlook.STOP and mechanism.strength(one) == DECISIVE
    )
    return max(found, key=lambda one: one.score, default=None)


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
    for weight, signal in doubts(situation, mechanism, lead):
        yield Point(weight, weights.points[weight], signal)
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
    elif mechanism.trusts_job and lead.trust is Trust.JOB and lead.node and continues_after(situation, lead):
        yield Point("clean_node_log", weights.points["clean_node_log"])


def _confirmed(situation: Situation, mechanism: Mechanism, lead: Signal) -> Iterator[Point]:
    names = {lead.name}
    for one in situation.firsts:
        if len(names) > _MAX_CONFIRMED:
            return
        if one.name not in names and mechanism.strength(one) is not None and timing(situation, one) is None:
            names.add(one.name)
            yield Point("confirmed", situation.weights.points["confirmed"], one)


def _earlier_cause(situation: Situation, mechanism: Mechanism, lead: Signal) -> Signal | None:
    """Return an earlier signal that can have caused `lead` by another failure mechanism, or None.

    A signal that `mechanism` itself can cause does not count.
    """
    for one in situation.firsts:
        if one is lead or one.role is not Role.INITIATING or not situation.line.is_before(one, lead):
            continue
        if mechanism.can_cause(one) or timing(situation, one) is not None:
            continue
        for other in situation.mechanisms:
            if one.handled and other.outlook is Outlook.STOP:
                continue
            is_sign = other.name != mechanism.name and other.strength(one) is not None and other.can_cause(lead)
            if is_sign and not (other.expects_node and one.trust is Trust.JOB):
                return one
    return None


def _is_clean(situation: Situation, mechanism: Mechanism, lead: Signal) -> bool:
    """Return whether logs of nodes cover the first failure of the job, and no node reports the mechanism.

    If the signal `lead` names a node, only that node counts.
    """
    spans = [one for one in situation.spans if one.trust is Trust.NODE and covers(one, situation.line)]
    nodes = {one.node for one in spans}
    own = [one for one in situation.leads if one.trust is Trust.NODE and mechanism.strength(one) is not None]
    if lead.node is not None:
        return lead.node in nodes and lead.node not in {one.node for one in own}
    return bool(spans) and not own
