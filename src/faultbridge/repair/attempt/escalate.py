"""Climb: what a repair action did not put right is tried at the next one; a replacement, as long as attempts are left."""

from __future__ import annotations

from faultbridge.domain.cases import RepairAction, WaitingFor
from faultbridge.domain.entries import Draft
from faultbridge.pipeline import entry_builder
from faultbridge.pipeline.decide.repair_actions import above, next_repair_action
from faultbridge.repair.attempt.contract import Answer
from faultbridge.repair.attempt.step_context import Work


def climb(work: Work, step: str, outcome: str, reason: str, failure: str) -> Answer:
    """End the attempt at a step that came to nothing, and go on at the next repair action or to a person."""
    now = work.tools.clock.now()
    attempt = work.attempt
    draft = entry_builder.step(
        work.case,
        step,
        outcome,
        now,
        reason=reason,
        failure=failure,
        operation=attempt.operation,
        new_instance=work.instance_id,
    )
    return go_on(work, f"{failure}: {reason}", draft)


def go_on(work: Work, reason: str, draft: Draft, *, at_least: RepairAction | None = None) -> Answer:
    """Put the case back for its next repair action; a replacement that is no good is replaced itself."""
    case, policy = work.case, work.rules.policy
    higher = next_repair_action(case, policy, at_least=at_least or above(case.repair_action) or case.repair_action)
    again = higher is case.repair_action
    if higher is None or case.cancelled or (again and case.tried >= policy.limits.attempts):
        return work.escalate(reason, draft)
    reason = f"{reason}; {higher.value} is {'tried again' if again else 'the next repair_action'}"
    # The list of repair actions is short: only what is tried again is bounded by the policy.
    return work.requeue(WaitingFor.BUDGET, reason, draft, repair_action=higher, later=False, counts=again)
