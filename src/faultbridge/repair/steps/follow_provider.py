"""The step FollowProvider: waits for the provider's own repair, and escalates if there is no progress.

This step changes nothing on the node: ingest and the inventory record another instance, another boot, or the end of
the faults, which end the wait.
"""

from __future__ import annotations

from datetime import datetime

from faultbridge.decide import entry_builder
from faultbridge.decide.decide import decide
from faultbridge.decide.fold.expire import end_all
from faultbridge.decide.instance_pairing import FOLLOW_STEP
from faultbridge.model.cases import EXTERNAL, Phase, Reason
from faultbridge.model.cluster.vacancies import mark_gone
from faultbridge.model.entries import Transition
from faultbridge.model.enums import Actor, NodeStatus, ProviderFailure
from faultbridge.model.nodes import NodeState, left_behind
from faultbridge.model.times import latest
from faultbridge.model.values import replace
from faultbridge.repair.attempt.step_context import (
    StepContext,
    StepOutcome,
    StepResult,
    live_attempt,
    move_node,
    update_attempt,
    waiting,
)

NAME = FOLLOW_STEP

MAX_FOLLOW_DEADLINES = 4
"""After this many deadlines the provider's repair is escalated, even if the fault is still reported."""


def follow_provider(context: StepContext) -> StepResult:
    """Finish the step once the provider repaired the node or the case is canceled; else wait."""
    change = _provider_change(context)
    if change is not None:
        return _finish_followed(context, change)
    _extend_deadline(context)
    return waiting("the provider has not repaired the node yet")


def on_timeout(context: StepContext, reason: str) -> StepResult:
    """Escalate the case after the deadline, because the provider did not repair the node."""
    late = Reason(f"the provider makes no progress: {reason}", ProviderFailure.TIMEOUT)
    draft = context.entry("stalled", reason=reason, failure=late.failure, old_instance=context.instance_id)
    return context.escalate_to_operator(late, draft)


def _provider_change(context: StepContext) -> str | None:
    state, since = context.state, context.attempt.since
    if state.status is NodeStatus.VALIDATING:
        return "another instance backs the node"
    if context.case.cancelled:
        return "an operator canceled the case"
    if state.status is NodeStatus.PROVISIONING or since is None:
        return None
    if state.incarnation is not None and state.incarnation.since > since:
        return "the instance was rebooted"
    if not any(condition.action.opens_case for condition in state.active()):
        return "the node has no fault that needs a repair"
    return None


def _finish_followed(context: StepContext, change: str) -> StepResult:
    def finished(state: NodeState, now: datetime) -> Transition:
        case, _ = live_attempt(state)
        step = entry_builder.step(case, NAME, "repaired", now, reason=change, new_instance=context.instance_id)
        state = replace(state, case=replace(case, marks={**case.marks, EXTERNAL: case.marks.get(EXTERNAL, now)}))
        if state.status is NodeStatus.VALIDATING:
            return Transition(state, (step,))
        state, draft = move_node(state, NodeStatus.VALIDATING, now, change)
        return Transition(state, (step, draft))

    return context.finish(StepOutcome.DONE, Phase.AWAITING, finished)


def _extend_deadline(context: StepContext) -> None:
    """Count the deadline from the latest report of a fault, up to `MAX_FOLLOW_DEADLINES` deadlines."""
    attempt, limit = context.attempt, context.rules.policy.limits.follow_deadline
    reported_at = latest(attempt.since, *(condition.last_at for condition in context.state.active()))
    if reported_at is None or attempt.deadline is None or attempt.since is None:
        return
    # A fault that is reported without end must not keep the case from an operator.
    deadline = max(attempt.deadline, min(reported_at + limit, attempt.since + MAX_FOLLOW_DEADLINES * limit))
    context.commit(lambda state, _: Transition(update_attempt(state, deadline=deadline)))


def finish_if_gone(context: StepContext) -> StepResult | None:
    """Finish the step as `gone` if another controller terminated the instance; return None otherwise."""
    if not is_gone(context):
        return None
    reason = gone_reason(context)

    def finished(state: NodeState, now: datetime) -> Transition:
        case, _ = live_attempt(state)
        entry = context.entry("gone", now, reason=reason, old_instance=context.instance_id)
        state = replace(state, case=replace(case, marks={**case.marks, EXTERNAL: now}))
        ended = end_all(state, at=now, reason=reason)
        decided = decide(ended.state, ended.changes, context.rules, now)
        state, drafts = mark_gone(decided.state, now), (entry, *decided.drafts)
        if state.status is not NodeStatus.PROVISIONING:  # the inventory may have found the loss before
            state, draft = move_node(state, NodeStatus.PROVISIONING, now, reason)
            drafts = (*drafts, draft)
        return Transition(state, drafts)

    # The inventory is the actor that may write this change; the step only detects it earlier.
    result = context.finish(StepOutcome.GONE, Phase.AWAITING, finished, Actor.INVENTORY)
    context.log("instance_gone", reason, instance_id=context.instance_id)
    return result


def is_gone(context: StepContext) -> bool:
    """Probe whether the instance is gone; False if it is unknown or the provider repairs it."""
    if context.instance_id is None or context.state.placement.group is None or context.rules.config.follows_provider:
        return False
    return context.provider.probe(context.instance_id).is_gone


def gone_reason(context: StepContext) -> str:
    """Return the text that is recorded as the reason if another controller terminated the instance."""
    volumes = left_behind(context.rules.policy.volumes, context.state.moving_volumes)
    return f"{EXTERNAL}: another controller terminated {context.instance_id}{volumes}"
