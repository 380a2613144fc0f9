"""The step ReleaseInstance: records the intent, then releases the instance that the intent names.

To release an instance is to have it terminated and replaced. After the intent, which is the point of no return, a
repeated call of the step continues the release. It repeats the provider call only if a probe has shown that the
instance still exists. Every call is about the instance of the intent, so a late or repeated call can affect no other
instance.
"""

from __future__ import annotations

from datetime import datetime

from faultbridge.model.cases import ACCEPTED, DRAIN, RELEASED, Intent, Phase, Reason
from faultbridge.model.cluster.state import Control
from faultbridge.model.cluster.vacancies import mark_gone, owed_successor, releases
from faultbridge.model.entries import Transition
from faultbridge.model.enums import NodeStatus, ProviderFailure, WaitingFor
from faultbridge.model.errors import Transient
from faultbridge.model.nodes import NodeState
from faultbridge.model.storage.node_rows import read_vacancies
from faultbridge.model.values import replace
from faultbridge.record.ports.compute import CallResult
from faultbridge.record.ports.presence import Presence
from faultbridge.record.queries import unhealthy_nodes
from faultbridge.repair import volumes
from faultbridge.repair.attempt.intent import collect_logs, commit_intent, stop_before_intent, stop_for_new_incident
from faultbridge.repair.attempt.step_context import (
    StepContext,
    StepOutcome,
    StepResult,
    live_attempt,
    move_node,
    waiting,
)
from faultbridge.repair.steps.follow_provider import finish_if_gone
from faultbridge.repair.successor import launch, sources
from faultbridge.repair.successor.sources import PAGE_DRAIN_AFTER, ending_wait, page_overdue_wait
from faultbridge.repair.volumes import refuse_release

NAME = "release_instance"
EFFECT_UNKNOWN = frozenset({ProviderFailure.AMBIGUOUS, ProviderFailure.TIMEOUT})


def release_instance(context: StepContext) -> StepResult:
    """Check the release, record the intent, and release the instance; a later call continues."""
    intent = context.attempt.intent
    if intent is not None:
        return _continue_after_intent(context, intent)
    stopped = stop_before_intent(context) or finish_if_gone(context)
    refused = None if stopped else _refused_release(context)
    if refused is not None:
        return context.requeue(*refused, delay=False, counts=False)
    return stopped or _commit_and_release(context)


def on_timeout(context: StepContext, reason: str) -> StepResult:
    """End the release after its deadline.

    - After the intent, the point of no return, the case is escalated to an operator, because it is unknown whether the
      instance was released.
    - Before the intent, the case is escalated if volumes are still attached or no attempt is left.
    - Before the intent, in all other situations, the case is queued again.
    """
    if context.attempt.intent is None:
        if volumes.waits_for_volumes(context):
            return volumes.before_intent(context, "timed_out", reason)
        return context.retry_or_escalate(WaitingFor.WAIT, reason)
    unknown = Reason(f"it is unknown whether the old instance was released: {reason}", ProviderFailure.AMBIGUOUS)
    draft = context.entry("inconclusive", reason=reason, failure=unknown.failure)
    context = context.commit(lambda state, now: Transition(mark_gone(state, now)))
    return context.escalate_to_operator(unknown, draft)


def _commit_and_release(context: StepContext) -> StepResult:
    instance_id = context.instance_id
    if instance_id is None:
        return _handle_refusal(context, CallResult(ProviderFailure.NOT_FOUND, "the node has no known instance"))
    if context.state.placement.group is None:
        answer = CallResult(ProviderFailure.NOT_FOUND, "the node has no group to replace it from")
        return _handle_refusal(context, answer)
    refused = volumes.refuse_unmovable(context)
    if refused is not None:
        return refused
    if context.launcher is not None:  # raises Misconfigured if no configured type has the node's number of GPUs
        launch.launch_request(context, context.state.placement.group)
    found = sources.find_capacity(context, instance_id, context.state.placement.group)
    if found.result is not None:
        return found.result
    # After the question about capacity: a case that waits for capacity does not collect its logs with each attempt.
    context, stopped = collect_logs(context)
    if stopped is None and context.moves_volumes:
        stopped = stop_for_new_incident(context)
    if stopped is None:
        context, stopped = volumes.detach_volumes(context, instance_id, found.spare)
    if stopped is not None:
        return stopped

    def permits(control: Control) -> bool:
        # The nodes without an instance are read after the controls, whose version each intent changes.
        return sources.is_left(context, found, control) and _refused_release(context) is None

    types = launch.types_to_launch(context, found.source) if context.launcher else ()
    context = commit_intent(context, found.facts, found.text, spare=found.spare, instance_types=types, permits=permits)
    intent = context.attempt.intent
    return _release(context, intent) if intent else waiting("the intent was withdrawn")


def _release(context: StepContext, intent: Intent) -> StepResult:
    try:
        kept = launch.ensure_successor(context) or refuse_release(context)
        answer = kept or context.provider.replace(intent.instance_id, intent.token)
    except Transient as error:
        context.log("release_unanswered", str(error), instance_id=intent.instance_id)
        answer = CallResult(ProviderFailure.AMBIGUOUS, str(error))
    if answer.ok:
        return _finish_released(context, intent, answer)
    presence = context.provider.probe(intent.instance_id)
    if presence is Presence.GONE:
        return _finish_released(context, intent, replace(answer, reason="a probe shows that the instance is gone"))
    if answer.since is not None:
        return _await_provider(context, answer.since, answer.reason)
    if presence is Presence.UNKNOWN or answer.failure in EFFECT_UNKNOWN:
        # The release may still be in progress: the next probe decides, not this call.
        return waiting(f"{answer.failure.value if answer.failure else ''}: {answer.reason}")
    if presence is Presence.UNLISTED:
        # No record of the instance is no proof that it is gone: a wrong region or role has none either.
        text = f"the provider lists {intent.instance_id} nowhere; it may run in another region or account"
        answer = replace(answer, reason=f"{answer.reason}; {text}")
    return _handle_refusal(context, answer)


def _await_provider(context: StepContext, since: datetime, reason: str) -> StepResult:
    """Record when the provider accepted the release, and wait until the instance is gone; page if it takes long."""
    if context.case.marks.get(ACCEPTED) != since:

        def accept(state: NodeState, _: datetime) -> Transition:
            case, _attempt = live_attempt(state)
            return Transition(replace(state, case=replace(case, marks={**case.marks, ACCEPTED: since})))

        context = context.commit(accept)
    page_overdue_wait(context, DRAIN, since, reason, PAGE_DRAIN_AFTER)
    return waiting(reason)


def _continue_after_intent(context: StepContext, intent: Intent) -> StepResult:
    presence = context.provider.probe(intent.instance_id)
    if presence is Presence.GONE:
        return _finish_released(context, intent, CallResult(reason="a probe shows that the instance is gone"))
    if presence is Presence.UNKNOWN:
        return waiting("the probe could not determine whether the instance is gone")
    refused = _refused_release(context)
    return waiting(refused[1]) if refused else _release(context, intent)


def _refused_release(context: StepContext) -> tuple[WaitingFor, str] | None:
    """Return why nodes without an instance forbid the release of the node's instance, or None.

    They forbid it if the policy permits no further one, or if the node's group has owed a successor for too long. A
    node that has lost its instance already is one of them, so its repair adds none.
    """
    node, group = context.state.key.node, context.state.placement.group
    vacancies = read_vacancies(unhealthy_nodes(context.tools.table, context.rules.config))
    if not releases(vacancies, node, context.case.repair_action):
        return None
    if owed := owed_successor(vacancies, node, group, context.case.repair_action, context.now):
        return WaitingFor.CAPACITY, owed
    # Two repairs that have both recorded their intent do not wait for each other.
    is_before_intent = context.attempt.intent is None
    others = sum(one.node != node and (one.released or is_before_intent) for one in vacancies)
    if others < context.rules.policy.limits.concurrent:
        return None
    return WaitingFor.BUDGET, f"{others} other nodes have no instance; the policy permits no further one"


def _finish_released(context: StepContext, intent: Intent, answer: CallResult) -> StepResult:
    def finished(state: NodeState, now: datetime) -> Transition:
        step = context.entry(
            "released", now, reason=answer.reason, operation=answer.operation, old_instance=intent.instance_id
        )
        case, _ = live_attempt(state)
        state = replace(state, case=replace(case, marks={**case.marks, RELEASED: now}))
        state, draft = move_node(mark_gone(state, now), NodeStatus.PROVISIONING, now, "old instance released")
        return Transition(state, (step, draft))

    result = context.finish(StepOutcome.DONE, Phase.ACTED, ending_wait(finished))
    sources.mark_group(context, until=None)
    return result


def _handle_refusal(context: StepContext, answer: CallResult) -> StepResult:
    """Retry the case later or escalate it, because the release was refused or is not possible.

    The instance was not released: a refused call had no effect.
    """
    failure = answer.failure or ProviderFailure.PROVIDER_ERROR
    draft = context.entry("refused", reason=answer.reason, failure=failure, old_instance=context.instance_id)
    reason = Reason(answer.reason, failure)
    if not failure.retriable:
        return context.escalate_to_operator(reason, draft)
    if failure is ProviderFailure.CAPACITY:
        return sources.requeue_without_capacity(context, answer.reason)
    return context.retry_or_escalate(WaitingFor.WAIT, reason, draft)
