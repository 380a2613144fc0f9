"""Ladder: at which rung an attempt begins, and which follows where it was not enough."""

from __future__ import annotations

from typing import NamedTuple

from faultbridge.domain.cases import Case, Rung
from faultbridge.domain.nodes import NodeState
from faultbridge.domain.policy import Policy, Rule


class Choice(NamedTuple):
    """The rung of the next attempt, None where a person must act, and why it is not the case's own."""

    rung: Rung | None
    reason: str = ""


def choose(state: NodeState, case: Case, policy: Policy) -> Choice:
    """Choose the rung of the next attempt; a node that recovered before its first one is verified, not replaced."""
    if case.attempts == 0 and not any(condition.action.opens_case for condition in state.active()):
        return Choice(Rung.VERIFY, "nothing is wrong any more; verified before it serves again")
    if case.rung is Rung.VERIFY or case.rung in _rule(case, policy).ladder:
        return Choice(case.rung)
    found = next_rung(case, policy, at_least=case.rung)
    if found is None:
        return Choice(None, f"rule {case.rule} permits no rung from {case.rung.value} on")
    return Choice(found, f"rule {case.rule} permits no {case.rung.value}; {found.value} is the next rung permitted")


def wanted(state: NodeState, case: Case, policy: Policy) -> Rung:
    """Return the highest rung that anything active on the node asks for, never a milder one than the case's own."""
    asked = (
        policy.rule_for(one, state.key.cluster, state.seat.instance_type).rung(one.action)
        for one in state.active()
        if one.action.opens_case and one.known_incarnation
    )
    order = list(Rung)
    return max((case.rung, *(rung for rung in asked if rung is not None)), key=order.index)


def next_rung(case: Case, policy: Policy, *, at_least: Rung) -> Rung | None:
    """Return the mildest rung from here on that the case's rule permits, or None."""
    order = list(Rung)
    ladder = _rule(case, policy).ladder
    return next((rung for rung in order[order.index(at_least) :] if rung in ladder), None)


def above(rung: Rung) -> Rung | None:
    """Return the rung that follows, or None at the end of the ladder."""
    order = list(Rung)
    following = order[order.index(rung) + 1 :]
    return following[0] if following else None


def _rule(case: Case, policy: Policy) -> Rule:
    return next((rule for rule in policy.rules if rule.name == case.rule), Rule(case.rule))
