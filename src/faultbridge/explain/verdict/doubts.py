"""Reasons to doubt that a job with an error in its program would end again after a restart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from faultbridge.explain.signals.signal import FAILURES, Role, Signal, Trust
from faultbridge.explain.verdict.mechanisms import DECISIVE, Mechanism
from faultbridge.explain.verdict.situation import (
    HANG,
    Situation,
    covers,
    firsts_of,
    is_in_teardown,
    is_same_attempt,
    timing,
)
from faultbridge.model.enums import Outlook

NODE_DOMAINS = frozenset({"hardware", "network"})


def faults_shortly_before(situation: Situation) -> tuple[Signal, ...]:
    """Return the decisive faults that nodes reported shortly before the job failed, without outlook STOP.

    The range starts `fault_seconds` before `TimeLine.failing_since`, and ends `skew_seconds` after the first failure.
    """
    since, until = situation.line.failing_since, situation.line.failed_at
    if since is None or until is None:
        return ()
    limits = situation.weights.limits
    since -= timedelta(seconds=limits["fault_seconds"])
    until += timedelta(seconds=limits["skew_seconds"])
    own = (one for one in situation.line.signals if one.trust is Trust.NODE and one.role is not Role.CONTEXT)
    in_time = (one for one in own if one.at and since <= one.at <= until)
    return tuple(one for one in in_time if _is_of_hardware(situation, one))


def continues_after(situation: Situation, sign: Signal) -> bool:
    """Return whether a node's log continues more than `skew_seconds` after the job's line about the node.

    A line without a time counts as the job's first failure.
    """
    at = sign.at or situation.line.failed_at
    skew = timedelta(seconds=situation.weights.limits["skew_seconds"])
    logs = (one for one in situation.spans if one.trust is Trust.NODE and one.node == sign.node)
    return any(one.last_at is not None and (at is None or one.last_at > at + skew) for one in logs)


def _is_of_hardware(situation: Situation, one: Signal) -> bool:
    return any(
        mechanism.domain in NODE_DOMAINS and mechanism.outlook is not Outlook.STOP
        and mechanism.strength(one) == DECISIVE
        for mechanism in situation.mechanisms
    )  # fmt: skip


OWN_FAULT = "own_fault"
DOUBTS = frozenset({"handled", "teardown", "late", "failed_after_end", "one_node", "hardware_sign", OWN_FAULT})
"""Names of points against STOP. With one of them, nothing proves that the job would fail again."""

_MIN_RANKS_OF_NODE = 2
_COMPLETED = "job.completed"
_CANCELED, _INTERRUPTED = "scheduler.canceled", "scheduler.interrupted"
_NCCL, _CONNECTIONS, _CHAIN_LINES = "nccl.", ("socket.", "store."), 200
_SERVICES = ("service.", "storage.remote")
_PEERS_LOST = frozenset(
    {"nccl.remote_error", "nccl.system_error", "nccl.aborted", "nccl.monitor_abort", "rendezvous.failed"}
)
_OF_HARDWARE = frozenset({"cuda.ecc", "cuda.nvlink", "cuda.hardware_stack", "cuda.device_lost"})


def doubts(situation: Situation, mechanism: Mechanism, lead: Signal) -> Iterator[tuple[str, Signal]]:
    """Yield each reason, a name in `Weights.points`, to doubt that a job must stay stopped, and its signal."""
    if mechanism.outlook is not Outlook.STOP:
        return
    fault = next(iter(faults_shortly_before(situation)), None)
    if fault is not None:
        yield OWN_FAULT, fault
    if lead.trust is Trust.NODE:
        if _keeps_returning_on_one_node(situation, lead):
            yield "one_node", lead
        return
    yield from _doubts_about_an_error(situation, mechanism, lead)


def _doubts_about_an_error(situation: Situation, mechanism: Mechanism, lead: Signal) -> Iterator[tuple[str, Signal]]:
    if lead.handled:
        yield "handled", lead
    earlier = _failure_before(situation, lead) or _failure_long_before(situation, lead)
    if earlier is not None:
        yield "late", earlier
    if lead.name == _COMPLETED:
        failed = next((one for one in situation.firsts if _is_failure_after(situation, lead, one)), None)
        if failed is not None:
            yield "failed_after_end", failed
    sign = next((one for one in situation.firsts if one.name in _OF_HARDWARE and one.trust is Trust.JOB), None)
    if sign is not None:
        yield "hardware_sign", sign
    other = _error_of_another_node(situation, lead) or _earlier_on_the_same_rank(situation, mechanism, lead)
    if other is not None:
        yield "one_node", other


def _failure_long_before(situation: Situation, lead: Signal) -> Signal | None:
    """Return the first failure if it came long before `lead`, unless `lead` was survived before."""
    symptom, skew = situation.line.symptom, timedelta(seconds=situation.weights.limits["skew_seconds"])
    is_again = any((one.name, one.said) == (lead.name, lead.said) for one in situation.line.recovered)
    is_long = symptom is not None and symptom.at and lead.at and lead.at - symptom.at > skew
    return symptom if is_long and not is_again else None


def _keeps_returning_on_one_node(situation: Situation, lead: Signal) -> bool:
    """Return whether only one node reports the fault `lead`, repeatedly over a long time."""
    same = [one for one in situation.line.signals if one.trust is Trust.NODE and one.name == lead.name]
    times = [at for one in same for at in (one.at, one.last_at) if at]
    nodes = {one.node for one in situation.spans if one.trust is Trust.NODE}
    is_repeated = bool(times) and max(times) - min(times) > timedelta(
        seconds=situation.weights.limits["recovered_seconds"]
    )
    return is_repeated and {one.node for one in same} < nodes and len({one.node for one in same}) == 1


def _failure_before(situation: Situation, lead: Signal) -> Signal | None:
    """Return an earlier failure of the attempt that may be the reason for `lead` (`_can_be_the_reason`).

    NCCL reports a mismatch only after the timeout that the mismatch caused, so its errors have no such reason.
    """
    if lead.name.startswith(_NCCL):
        return None
    line = situation.line
    others = (one for one in line.signals if one is not lead and one.trust is Trust.JOB and one.name != lead.name)
    failures = (one for one in others if one.role in FAILURES and not one.handled)
    earlier = (one for one in failures if line.is_before(one, lead) and is_same_attempt(situation, one, lead))
    return next((one for one in earlier if _can_be_the_reason(situation, lead, one)), None)


def _can_be_the_reason(situation: Situation, lead: Signal, earlier: Signal) -> bool:
    """Return whether an earlier failure can be the reason for the later error `lead`.

    The first case that applies determines the result:

    - `earlier` is a hang: True. If `lead` had caused the hang, `lead` would have come minutes before the hang was
      reported.
    - `lead` is an interrupt: True, unless `earlier` is a lost connection. Launchers interrupt the ranks of a failed
      job.
    - `lead` is a cancellation: True, because users cancel a failed job. It is False if `earlier` is a lost connection,
      a failed request to a service, or a process that the cancellation ended.
    - `earlier` is a loss of peers, on the same rank or without a rank: True.
    - `earlier` is an error shortly above `lead` in the same file, on the same rank or without a rank. The result is
      True if `lead` was raised while another error was handled, and `earlier` is no sign of a mechanism with the
      outlook STOP.
    - Otherwise False.
    """
    if earlier.name == HANG:
        return True
    if lead.name == _INTERRUPTED:
        return not earlier.name.startswith(_CONNECTIONS)
    if lead.name == _CANCELED:
        # A scheduler signals the processes as it cancels a job, and the request of a helper may fail at any time.
        is_sent = earlier.role is Role.CASCADE and earlier.name.startswith("process.")
        return not is_sent and not earlier.name.startswith(_CONNECTIONS + _SERVICES)
    is_same_rank = earlier.rank is None or earlier.rank == lead.rank
    if is_same_rank and earlier.name in _PEERS_LOST:
        return True
    is_near = earlier.file == lead.file and (lead.line or 0) - (earlier.line or 0) <= _CHAIN_LINES
    stops = (one for one in situation.mechanisms if one.outlook is Outlook.STOP)
    return lead.is_chained and is_near and is_same_rank and not any(one.strength(earlier) for one in stops)


def _is_failure_after(situation: Situation, end: Signal, one: Signal) -> bool:
    """Return whether a hang or first sign came after the program's end, which breaks connections."""
    is_failure = one.name == HANG or (one.role is Role.INITIATING and one.name != _COMPLETED and not one.handled)
    return one.trust is Trust.JOB and is_failure and situation.line.is_before(end, one)


def _error_of_another_node(situation: Situation, lead: Signal) -> Signal | None:
    """Return a signal which shows that only one node has the error `lead`, or None.

    At least two ranks must have the error, and all of them must be on one known node.

    - If these are more than half of the ranks of the node, and the job has other nodes, the result is `lead`.
    - Otherwise, the other ranks may have had no time to print the error. A signal of a rank on another node shows that
      they had this time, and is the result. The result is None if there is no such signal.
    """
    ranks, nodes = _with_same_error(situation, lead)
    if len(ranks) < _MIN_RANKS_OF_NODE or len(nodes) != 1 or None in nodes:
        return None
    of_node = {rank for rank, node in situation.nodes.items() if node in nodes}
    if 2 * len(ranks) > len(of_node) and len(of_node) < len(situation.nodes):
        return lead
    signals = (one for one in situation.line.signals if one.trust is Trust.JOB and one.rank is not None and one.node)
    return next((one for one in signals if one.node not in nodes), None)


def _earlier_on_the_same_rank(situation: Situation, mechanism: Mechanism, lead: Signal) -> Signal | None:
    """Return an equal error of a lone rank, from which the job recovered or that ended an earlier attempt, or None."""
    ranks, _ = _with_same_error(situation, lead)
    if mechanism.on_many_ranks is None or len(ranks) != 1:
        return None
    earlier = (*situation.line.recovered, *(one.error for one in situation.line.attempts[:-1] if one.error))
    return next((one for one in earlier if (one.name, one.rank) == (lead.name, lead.rank)), None)


def _with_same_error(situation: Situation, lead: Signal) -> tuple[set[int], set[str | None]]:
    same = [
        one
        for one in situation.line.signals
        if one.said and one.rank is not None and (one.name, one.said) == (lead.name, lead.said)
    ]
    return {one.rank for one in same if one.rank is not None}, {one.node for one in same}


def is_on_many_ranks(situation: Situation, mechanism: Mechanism, one: Signal) -> bool:
    """Return whether many ranks or nodes' own sources, on two or more nodes, show the same error.

    Ranks whose nodes are unknown count for an error in the numbers: no single node explains it.
    """
    many = situation.weights.limits["many_ranks"]
    ranks, nodes = _with_same_error(situation, one)
    shown = (each for each in situation.leads if each.trust is Trust.NODE and mechanism.strength(each) is not None)
    own = {each.node for each in shown if timing(situation, each) is None}
    is_apart = len(nodes - {None}) > 1 or (mechanism.domain == "numerical" and nodes == {None})
    return len(own) >= many or (len(ranks) >= many and is_apart)


_MAX_CONFIRMED = 2


@dataclass(frozen=True, slots=True)
class Point:
    """One piece of evidence for or against a hypothesis, with the name of its weight."""

    weight: str
    points: int
    signal: Signal | None = None


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A possible cause of a job's failure; `lead` is the signal that may have started the failure."""

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
    """Return the best hypothesis for each mechanism with a possible first signal, the best first."""
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
    """Return whether logs of the nodes cover the first failure, and none reports the mechanism."""
    spans = [one for one in situation.spans if one.trust is Trust.NODE and covers(one, situation.line)]
    nodes = {one.node for one in spans}
    own = [one for one in situation.leads if one.trust is Trust.NODE and mechanism.strength(one) is not None]
    if lead.node is not None:
        return lead.node in nodes and lead.node not in {one.node for one in own}
    return bool(spans) and not own
