"""Relapse: a fault that returns during a probation needs a stronger repair action, then an operator."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from faultbridge.domain.cases import Case, RepairAction
from faultbridge.domain.conditions import Condition
from faultbridge.domain.copies import replace
from faultbridge.domain.faults import Family
from faultbridge.domain.nodes import NodeState
from faultbridge.domain.policy import Limits, Rule
from faultbridge.domain.probation import Probation
from faultbridge.pipeline.decide.repair_actions import next_higher

MAX_PROBATIONS = 8
"""Maximum probations of a node; the oldest is dropped first."""

_ORDER = list(RepairAction)


class Response(NamedTuple):
    """The repair action for a condition, or None if an operator must act.

    `probation` is the probation during which the condition is a relapse, or None if it is no relapse.
    """

    repair_action: RepairAction | None
    probation: Probation | None = None

    @property
    def text(self) -> str:
        """Return a phrase that names the repair after which the fault came back; empty without a relapse."""
        if self.probation is None:
            return ""
        return f"relapse after {self.probation.repair_action.value} of case {self.probation.case_id}"


def respond(state: NodeState, condition: Condition, rule: Rule, now: datetime) -> Response:
    """Return the repair action for a condition; after a relapse, stronger than that of the last repair.

    If the last repair only ran diagnostics, which change nothing, the repair action is not made stronger. An operator
    must act if the rule permits no stronger action. An operator must also act after a replacement, because the cause is
    probably outside of the instance.
    """
    required = rule.repair_action(condition.action)
    instance = state.incarnation.instance if state.incarnation else None
    probation = _find_relapse(state.probations, condition, instance, now)
    if probation is None or required is None or not probation.repair_action.needs_slot:
        return Response(required, probation)
    stronger = next_higher(probation.repair_action)
    if stronger is None:
        return Response(None, probation)
    sufficient = _ORDER[max(_ORDER.index(stronger), _ORDER.index(required)) :]
    return Response(next((one for one in sufficient if one in rule.repair_actions), None), probation)


def start_probation(state: NodeState, case: Case, family: Family | None, limits: Limits, now: datetime) -> NodeState:
    """Put a node on probation for the fault of a case whose repair was verified.

    A relapse (`Probation.is_relapse`) during the probation needs a stronger repair action. The node is unchanged if it
    has no instance, or if the policy sets no probation.
    """
    if state.incarnation is None or not limits.probation:
        return state
    until, instance = now + limits.probation, state.incarnation.instance
    return replace(state, probations=_begin_probation(state.probations, case, family, instance, until, now))


def _begin_probation(
    probations: Iterable[Probation], case: Case, family: Family | None, instance: int, until: datetime, now: datetime
) -> tuple[Probation, ...]:
    running = [one for one in probations if one.instance == instance and one.until > now and one.code != case.code]
    begun = Probation(case.id, case.code, case.component, case.repair_action, instance, until, family)
    return (*running, begun)[-MAX_PROBATIONS:]


def _find_relapse(
    probations: Iterable[Probation], condition: Condition, instance: int | None, now: datetime
) -> Probation | None:
    found = [one for one in probations if one.instance == instance and now < one.until and one.is_relapse(condition)]
    return max(found, key=lambda one: _ORDER.index(one.repair_action), default=None)
