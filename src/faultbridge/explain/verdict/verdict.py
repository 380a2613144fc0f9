"""The verdict: the failure mechanism, the nodes to leave out, and whether the hardware is the cause."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from faultbridge.explain.signals.read_files import Evidence
from faultbridge.explain.signals.signal import Signal, Trust, rank_of_file
from faultbridge.explain.verdict.doubts import (
    DOUBTS,
    OWN_FAULT,
    Hypothesis,
    continues_after,
    faults_shortly_before,
    hypotheses,
    is_on_many_ranks,
    is_unchecked,
    own_fault,
)
from faultbridge.explain.verdict.mechanisms import DECISIVE, NODE_DOMAINS, Mechanism, Weights
from faultbridge.explain.verdict.situation import (
    NamedRank,
    Situation,
    TimeLine,
    covers,
    in_time,
    is_in_teardown,
    named_ranks,
    time_line,
)
from faultbridge.model.enums import Outlook
from faultbridge.model.verdicts import Hardware

UNKNOWN = "unknown"
NO_DUMP = "collective.no_dump"
_MIN_SHARED = 3
_OF_OTHERS = ("service.", "dns.")
"""Errors of a service that the rank asked: they say nothing about the rank's own node."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What ended a job, and whether the job may restart.

    - `cause` is None if no failure mechanism is likely enough.
    - `nodes` are left out of the restart.
    - `check` are other nodes that must be tested before the restart, because they have a fault, or because only the job
      or its dumps name them. `checks` are the signals that name these nodes, one for a node.
    - `named_ranks` are ranks that the job's logs single out; their nodes are in `check`.
    - `is_shared` is True if most nodes, at least three, show the cause. Then they are tested and not left out.
    """

    outlook: Outlook
    cause: Hypothesis | None
    ranked: tuple[Hypothesis, ...]
    nodes: tuple[str, ...]
    check: tuple[str, ...]
    checks: tuple[Signal, ...]
    named_ranks: tuple[NamedRank, ...]
    is_shared: bool
    hardware: Hardware
    line: TimeLine

    @property
    def domain(self) -> str:
        """Return the domain of the cause, such as `hardware` or `network`, or `unknown` without a cause."""
        return self.cause.mechanism.domain if self.cause else UNKNOWN


def decide(
    evidence: Evidence,
    mechanisms: Sequence[Mechanism],
    weights: Weights,
    nodes: Mapping[int, str],
    affected: AbstractSet[str] = frozenset(),
) -> Verdict:
    """Return the verdict on the evidence about one job.

    A node in `affected` had a fault while the job ran: it is left out of the restart or tested, and the hardware is not
    ruled out.
    """
    job_nodes = set(nodes.values())
    signals = [one for one in evidence.signals if not job_nodes or one.node is None or one.node in job_nodes]
    line = time_line(signals, evidence.spans, weights.limits)
    situation = Situation(line, evidence.spans, mechanisms, weights, nodes)
    ranked = hypotheses(situation)
    cause = _cause(situation, ranked)
    if cause is not None:
        ranked = [cause, *(one for one in ranked if one.mechanism is not cause.mechanism)]
    blamed, check = _nodes(situation, cause) if cause else ((), ())
    fleet = job_nodes or {one.node for one in evidence.spans if one.node}
    is_shared = len(blamed) >= _MIN_SHARED and 2 * len(blamed) > len(fleet)
    outlook = _outlook(situation, cause, ranked, blamed=bool(blamed) and not is_shared)
    excluded = blamed if outlook is Outlook.RESTART_WITHOUT else ()
    no_dump = (one for one in line.signals if one.name == NO_DUMP)
    absent = {one.node for one in no_dump if one.node and not (cause and cause.mechanism.can_cause(one))}
    faults = faults_shortly_before(situation) if cause and (excluded or OWN_FAULT in cause.weights) else ()
    faulty = {one.node for one in faults if one.node}
    # A node with a fault of its own is left out, or tested, in place of one that only the job names.
    tested = {*(faulty or excluded or check), *absent, *(blamed if is_shared else ()), *affected}
    read = {rank_of_file(one.file) for one in evidence.spans} - {None}
    # With logs of single ranks, a rank without a log shows nothing.
    known = {rank: node for rank, node in nodes.items() if not read or rank in read}
    singled_out = named_ranks(line, known) if outlook is not Outlook.STOP or cause is None else ()
    tested |= {node for one in singled_out if (node := nodes.get(one.rank)) and not excluded}
    check = tuple(sorted(tested.difference(excluded)))
    is_clear = cause is not None and _is_clear(situation, cause, outlook)
    hardware = _hardware(situation, cause, ranked, fleet, faulty.union(affected, excluded), is_clear=is_clear)
    checks = tuple(_checks(situation, cause, check, [*faults, *(one.signal for one in singled_out if one.signal)]))
    return Verdict(outlook, cause, tuple(ranked), excluded, check, checks, singled_out, is_shared, hardware, line)


def _cause(situation: Situation, ranked: Sequence[Hypothesis]) -> Hypothesis | None:
    """Return the hypothesis about the cause of the failure, or None if no hypothesis has enough points.

    The cause is the first of these that exists:

    1. The likeliest hypothesis, if it leaves nodes out of the restart and is more than a scheduler's report.
    2. The likeliest hypothesis, if a node's own source proves it.
    3. A decisive fault that a node reported while the job failed (`own_fault`).
    4. For a scheduler's report: a hypothesis that a node's own source proves and that explains the report.
    5. The likeliest hypothesis.
    """
    first = ranked[0] if ranked and ranked[0].score >= situation.weights.limits["named"] else None
    if first is None:
        return None
    # A scheduler sees only that a node is gone; the node's own source can state why.
    is_only_of_job = first.mechanism.trusts_job and first.lead.trust is Trust.JOB
    leaves_nodes_out = _own_outlook(situation, first) is Outlook.RESTART_WITHOUT and _nodes(situation, first)[0]
    if leaves_nodes_out and not is_only_of_job:
        return first
    if _is_shown_by_node(first):
        return first
    shown = (one for one in ranked if _is_shown_by_node(one) and one.mechanism.can_cause(first.lead))
    return own_fault(situation) or (next(shown, None) if is_only_of_job else None) or first


def _is_shown_by_node(one: Hypothesis) -> bool:
    return one.lead.trust is Trust.NODE and one.mechanism.strength(one.lead) == DECISIVE


def _outlook(situation: Situation, cause: Hypothesis | None, ranked: Sequence[Hypothesis], *, blamed: bool) -> Outlook:
    """Return the outlook of the cause, or `RESTART` if that is not justified.

    `RESTART_WITHOUT` requires blamed nodes. `STOP` requires a cause without doubt and a margin to each other one, or
    attempts that repeat themselves.
    """
    if cause is None:
        return Outlook.STOP if _repeats(situation, cause) else Outlook.RESTART
    outlook = _own_outlook(situation, cause)
    if outlook is Outlook.RESTART_WITHOUT:
        return outlook if blamed else Outlook.RESTART
    if _repeats(situation, cause):
        return Outlook.STOP
    near = (one for one in ranked if cause.score - one.score < situation.weights.limits["stop_margin"])
    if outlook is Outlook.STOP and any(_own_outlook(situation, one) is not Outlook.STOP for one in near):
        return Outlook.RESTART
    return Outlook.RESTART if outlook is Outlook.STOP and cause.weights & DOUBTS else outlook


def _repeats(situation: Situation, cause: Hypothesis | None) -> bool:
    """Return whether so many attempts ended with the same error, without progress, that the next one will."""
    is_of_place = cause is not None and cause.mechanism.domain in {"platform", "hardware"}
    return not is_of_place and len(situation.line.repeated) >= situation.weights.limits["same_attempts"]


def _own_outlook(situation: Situation, one: Hypothesis) -> Outlook:
    many = one.mechanism.on_many_ranks
    if many and is_on_many_ranks(situation, one.mechanism, one.lead):
        return many
    hours, after = one.mechanism.after_hours, one.mechanism.after_progress
    if hours and situation.line.has_worked_long:
        return hours
    if after and situation.line.has_started_well:
        return after
    unchecked = one.mechanism.unchecked
    return unchecked if unchecked and is_unchecked(situation, one.lead) else one.mechanism.outlook


def _nodes(situation: Situation, cause: Hypothesis) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the blamed nodes, and the nodes that signals of the cause name without proof.

    A signal blames its node if it fits the time of the failure and comes from the node's own source. With `trusts_job`,
    a signal of the job blames its node too, unless a log of the node continues after it. No node is blamed if the cause
    is neither in hardware nor in the network, and its outlook is not `RESTART_WITHOUT`.
    """
    mechanism = cause.mechanism
    signs = [(one, one.node) for one in situation.line.signals if one.node and mechanism.strength(one) is not None]
    if not mechanism.is_of_nodes:
        is_named = mechanism.domain == "numerical"
        return (), tuple(sorted({node for one, node in signs if is_named or one.trust is Trust.DUMP}))
    timely = [(one, node) for one, node in signs if in_time(situation, one)]
    trusts = mechanism.trusts_job
    own = {node for one, node in timely if one.trust is Trust.NODE or (trusts and not continues_after(situation, one))}
    return tuple(sorted(own)), tuple(sorted({node for one, node in signs if not one.name.startswith(_OF_OTHERS)} - own))


def _checks(
    situation: Situation, cause: Hypothesis | None, check: Sequence[str], faults: Sequence[Signal]
) -> Iterator[Signal]:
    """Yield the first signal that shows why a node must be tested, for each node in `check` that has one."""
    for node in check:
        for one in situation.line.signals:
            is_sign = one.name == NO_DUMP or one in faults or one.trust is Trust.NODE
            if one.node == node and (is_sign or (cause and cause.mechanism.strength(one))):
                yield one
                break


def _hardware(
    situation: Situation,
    cause: Hypothesis | None,
    ranked: Sequence[Hypothesis],
    fleet: set[str],
    doubtful: AbstractSet[str],
    *,
    is_clear: bool,
) -> Hardware:
    """Return the state of the hardware: `blamed`, `acquitted` (ruled out) or `undetermined`.

    `blamed` requires evidence from a node's own source. `acquitted` requires a clear other cause (`is_clear`), or own
    logs of all nodes (`fleet`) that cover the failure. It also requires that no node is `doubtful` (faulty or left
    out), and that no hypothesis in `ranked` about hardware or network has enough points to be the cause.
    """
    logs = (one for one in situation.spans if one.trust is Trust.NODE and covers(one, situation.line))
    checked = {one.node for one in logs if one.node}
    missing = fleet - checked
    others = (one.score for one in ranked if one.mechanism.domain in NODE_DOMAINS)
    is_likely = max(others, default=0) >= situation.weights.limits["named"]
    state = "undetermined"
    if cause and _is_blamed(situation, cause):
        state = "blamed"
    elif not doubtful and not is_likely and (is_clear or (checked and not missing)):
        state = "acquitted"
    return Hardware(state, tuple(sorted(checked)), tuple(sorted(missing)))


def _is_blamed(situation: Situation, cause: Hypothesis) -> bool:
    mechanism = cause.mechanism
    if mechanism.domain in NODE_DOMAINS and cause.lead.trust is Trust.NODE:
        return True
    own = (one for one in situation.line.signals if one.node and one.trust is Trust.NODE and in_time(situation, one))
    return mechanism.is_of_nodes and any(mechanism.strength(one) is not None for one in own)


def _is_clear(situation: Situation, cause: Hypothesis, outlook: Outlook) -> bool:
    """Return whether the cause rules out the hardware: no report of a scheduler does, and no error that it can have."""
    if cause.mechanism.trusts_job or cause.mechanism.may_be_hardware:
        return False
    is_shown = cause.mechanism.strength(cause.lead) == DECISIVE or outlook is Outlook.STOP
    return is_shown and not is_in_teardown(situation, cause.lead)
