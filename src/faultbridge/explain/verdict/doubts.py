"""Reasons to doubt that a job with an error in its program would end again after a restart."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import timedelta

from faultbridge.explain.signals.signal import FAILURES, Role, Signal, Trust
from faultbridge.explain.verdict.mechanisms import DECISIVE, NODE_DOMAINS, Mechanism
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


def faults_shortly_before(situation: Situation) -> tuple[Signal, ...]:
    """Return the decisive faults that nodes reported shortly before the job failed, without outlook STOP.

    The range starts `fault_seconds` before `TimeLine.failing_since`, and ends `skew_seconds` after the first failure.
    """
    own = _while_failing(situation, situation.weights.limits["fault_seconds"])
    return tuple(one for one in own if one.role is not Role.CONTEXT and any(_proven(situation, one, NODE_DOMAINS)))


def _while_failing(situation: Situation, seconds_before: int) -> Iterator[Signal]:
    """Yield what the nodes themselves reported while the job failed, if that time is known."""
    since, until, limits = situation.line.failing_since, situation.line.failed_at, situation.weights.limits
    if since is None or until is None:
        return
    since, until = since - timedelta(seconds=seconds_before), until + timedelta(seconds=limits["skew_seconds"])
    for one in situation.line.signals:
        if one.trust is Trust.NODE and one.at and since <= one.at <= until:
            yield one


def _proven(situation: Situation, one: Signal, domains: AbstractSet[str] = frozenset()) -> Iterator[Mechanism]:
    """Yield the mechanisms, but those with the outlook STOP, that a signal proves; by default of all domains."""
    for each in situation.mechanisms:
        is_wanted = each.outlook is not Outlook.STOP and (not domains or each.domain in domains)
        if is_wanted and each.strength(one) == DECISIVE:
            yield each


def continues_after(situation: Situation, sign: Signal) -> bool:
    """Return whether a node's log continues after the job's line about it, or after the first failure if untimed."""
    at = sign.at or situation.line.failed_at
    skew = timedelta(seconds=situation.weights.limits["skew_seconds"])
    logs = (one for one in situation.spans if one.trust is Trust.NODE and one.node == sign.node)
    return any(one.last_at is not None and (at is None or one.last_at > at + skew) for one in logs)


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
    if lead.handled:
        yield "handled", lead
    failed = (one for one in situation.firsts if lead.name == _COMPLETED and _is_failure_after(situation, lead, one))
    signs = (one for one in situation.firsts if one.name in _OF_HARDWARE and one.trust is Trust.JOB)
    reasons = {
        "late": _failure_before(situation, lead) or _failure_long_before(situation, lead),
        "failed_after_end": next(failed, None),
        "hardware_sign": next(signs, None),
        "one_node": _error_of_another_node(situation, lead) or _earlier_on_the_same_rank(situation, mechanism, lead),
    }
    yield from ((reason, one) for reason, one in reasons.items() if one is not None)


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
    least = timedelta(seconds=situation.weights.limits["recovered_seconds"])
    is_repeated = bool(times) and max(times) - min(times) > least
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
    """Return whether an earlier failure can be the reason for the later error `lead`; the first case decides."""
    # Had `lead` caused the hang, it would have come minutes before the hang was reported.
    if earlier.name == HANG:
        return True
    if lead.name == _INTERRUPTED:  # launchers interrupt the ranks of a failed job
        return not earlier.name.startswith(_CONNECTIONS)
    if lead.name == _CANCELED:
        # Users cancel a failed job; but the scheduler signals the processes as it cancels a job, connections are lost
        # then, and the request of a helper may fail at any time.
        is_sent = earlier.role is Role.CASCADE and earlier.name.startswith("process.")
        return not is_sent and not earlier.name.startswith(_CONNECTIONS + _SERVICES)
    is_same_rank = earlier.rank is None or earlier.rank == lead.rank
    if is_same_rank and earlier.name in _PEERS_LOST:
        return True
    # An error raised while another one was handled: the other one, unless it means STOP too.
    is_near = earlier.file == lead.file and (lead.line or 0) - (earlier.line or 0) <= _CHAIN_LINES
    stops = (one for one in situation.mechanisms if one.outlook is Outlook.STOP)
    return lead.is_chained and is_near and is_same_rank and not any(one.strength(earlier) for one in stops)


def _is_failure_after(situation: Situation, end: Signal, one: Signal) -> bool:
    """Return whether a hang or first sign came after the program's end, which breaks connections."""
    is_failure = one.name == HANG or (one.role is Role.INITIATING and one.name != _COMPLETED and not one.handled)
    return one.trust is Trust.JOB and is_failure and situation.line.is_before(end, one)


def _error_of_another_node(situation: Situation, lead: Signal) -> Signal | None:
    """Return a signal which shows that two or more ranks, all on one node, have the error `lead`, or None.

    `lead` itself shows it if most ranks of the node have it, and the job has other nodes. Otherwise, a signal of a rank
    on another node shows that the other ranks had time to print the error.
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


def is_unchecked(situation: Situation, lead: Signal) -> bool:
    """Return whether one process of the job shows the error `lead` alone, and no log of a node covers the failure."""
    logs = (one for one in situation.spans if one.trust is Trust.NODE and covers(one, situation.line))
    return not any(logs) and lead.trust is Trust.JOB and len(_with_same_error(situation, lead)[0]) < _MIN_RANKS_OF_NODE


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


def hypotheses(situation: Situation) -> list[Hypothesis]:
    """Return the best hypothesis for each mechanism with a possible first signal, the best first."""
    best = [found for one in situation.mechanisms if (found := _best(situation, one)) is not None]
    return sorted(best, key=lambda one: (-one.score, situation.line.signals.index(one.lead), one.mechanism.name))


def own_fault(situation: Situation) -> Hypothesis | None:
    """Return the best hypothesis with a decisive fault that a node reported while the job failed, or None.

    A decisive fault is enough to prove a mechanism. Mechanisms with the outlook STOP do not count. The clocks may
    differ by `skew_seconds`.
    """
    own = _while_failing(situation, situation.weights.limits["skew_seconds"])
    found = (
        Hypothesis(mechanism, one, tuple(_points(situation, mechanism, one, DECISIVE)))
        for one in firsts_of(own, lambda one: (one.name, one.kind, one.node))
        for mechanism in _proven(situation, one)
    )
    return max(found, key=lambda one: (one.score, -situation.mechanisms.index(one.mechanism)), default=None)


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
