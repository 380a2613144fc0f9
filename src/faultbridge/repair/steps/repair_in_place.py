"""The step RepairInPlace: resets the GPUs or reboots the instance, and waits until it is back.

No restart is started twice, because a repeated call finds the running restart by the token of the intent.
"""

from __future__ import annotations

from datetime import datetime

from faultbridge.decide.decide import decide
from faultbridge.decide.fold.expire import end_boot
from faultbridge.model.cases import Intent, Phase, Reason
from faultbridge.model.entries import Transition
from faultbridge.model.enums import NodeStatus, ProviderFailure, RepairAction
from faultbridge.model.errors import Transient
from faultbridge.model.nodes import NodeState
from faultbridge.model.values import replace
from faultbridge.record.ports.compute import CallResult, Restart, RestartState
from faultbridge.repair.attempt.intent import collect_logs, commit_intent, fail_step, stop_before_intent
from faultbridge.repair.attempt.step_context import (
    StepContext,
    StepOutcome,
    StepResult,
    enter_phase,
    live_attempt,
    move_node,
    update_attempt,
    waiting,
)
from faultbridge.repair.steps.follow_provider import finish_if_gone

NAME = "repair_in_place"
STARTED = frozenset({RestartState.RUNNING, RestartState.DONE, RestartState.FAILED})
UNREACHABLE = frozenset({ProviderFailure.NOT_FOUND, ProviderFailure.PROVIDER_ERROR})


def repair_in_place(context: StepContext) -> StepResult:
    """Apply the repair action of the attempt once, and wait until the instance is back."""
    intent = context.attempt.intent
    if intent is not None:
        return _check_restart(context, intent)
    if context.instance_id is None:
        return fail_step(context, "out_of_reach", "the node has no known instance", ProviderFailure.NOT_FOUND)
    stopped = stop_before_intent(context) or finish_if_gone(context)
    if stopped is None:
        context, stopped = collect_logs(context)
    if stopped is not None:
        return stopped
    context = commit_intent(context, {})
    intent = context.attempt.intent
    return _restart(context, intent) if intent else waiting("the intent was withdrawn")


def on_timeout(context: StepContext, reason: str) -> StepResult:
    """Continue with the next repair action after the deadline, because the instance is not back."""
    return fail_step(context, "timed_out", f"the instance did not come back in time: {reason}", ProviderFailure.TIMEOUT)


def _restart(context: StepContext, intent: Intent) -> StepResult:
    try:
        answer = context.restarter.restart(intent.repair_action, intent.instance_id, intent.token)
    except Transient as error:
        context.log("restart_unanswered", str(error), instance_id=intent.instance_id)
        answer = CallResult(ProviderFailure.AMBIGUOUS, str(error))
    if answer.ok:
        _record_start(context, answer.operation)
        return waiting(f"the {context.case.repair_action.value} has started")
    if answer.failure in UNREACHABLE:
        return fail_step(context, "out_of_reach", answer.reason, answer.failure)
    failure = answer.failure or ProviderFailure.PROVIDER_ERROR
    if not failure.retriable:
        draft = context.entry("refused", reason=answer.reason, failure=failure)
        return context.escalate_to_operator(Reason(answer.reason, failure), draft)
    # The restart may have started anyway: the next probe decides, not this call.
    return waiting(f"{failure.value}: {answer.reason}")


def _record_start(context: StepContext, operation: str | None) -> StepContext:
    def revise(state: NodeState, now: datetime) -> Transition:
        _, attempt = live_attempt(state)
        if attempt.operation == operation:
            return Transition(state)
        step = context.entry("begun", now, operation=operation, new_instance=context.instance_id)
        return Transition(enter_phase(update_attempt(state, operation=operation), Phase.ACTED, now), (step,))

    return context.commit(revise)


def _check_restart(context: StepContext, intent: Intent) -> StepResult:
    restart = context.restarter.status(intent.repair_action, intent.instance_id, intent.token)
    if restart.state in STARTED and restart.operation is not None and context.attempt.operation is None:
        context = _record_start(context, restart.operation)  # the answer of the call was lost
    if restart.state is RestartState.DONE:
        return _finish_restarted(context, intent, restart)
    gone = finish_if_gone(context)
    if gone is not None:
        return gone
    if restart.state is RestartState.FAILED:
        return fail_step(context, "failed", restart.reason, ProviderFailure.PROVIDER_ERROR)
    if restart.state is RestartState.ABSENT:
        return _restart(context, intent)
    return waiting(restart.reason or f"the {intent.repair_action.value} is running")


def _finish_restarted(context: StepContext, intent: Intent, restart: Restart) -> StepResult:
    def finished(state: NodeState, now: datetime) -> Transition:
        step = context.entry("back", now, operation=restart.operation, new_instance=intent.instance_id)
        state = update_attempt(state, operation=None, watched_since=now)
        rebooted = intent.repair_action is RepairAction.REBOOT_NODE
        decided = _record_boot(context, state, restart, now) if rebooted else Transition(state)
        state, draft = move_node(decided.state, NodeStatus.VALIDATING, now, "device or node back")
        return Transition(state, (step, *decided.drafts, draft))

    return context.finish(StepOutcome.DONE, Phase.AWAITING, finished)


def _record_boot(context: StepContext, state: NodeState, restart: Restart, now: datetime) -> Transition:
    """Record the new boot of the instance, unless records of the instance already reported it."""
    incarnation, intent = state.incarnation, context.attempt.intent
    if incarnation is None or intent is None:
        return Transition(state)
    if incarnation.since > intent.at and restart.boot_id in {None, incarnation.boot_id}:
        return Transition(state)
    boot = replace(incarnation, boot=incarnation.boot + 1, boot_id=restart.boot_id, since=now)
    ended = end_boot(replace(state, incarnation=boot), before=now, now=now)
    return decide(ended.state, ended.changes, context.rules, now)
