"""The step DrainNode: waits until running work has left the node; it is evicted only if the fault already ended it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from faultbridge.decide.fold.expire import ORDERED_REPLACEMENT
from faultbridge.decide.governing_rules import believed, orchestrator_timed_out, reason_to_proceed, rests_on_claims
from faultbridge.decide.work import work_stays
from faultbridge.model.cases import DRAIN, HELD_SINCE, Phase, Reason
from faultbridge.model.catalog import LOST
from faultbridge.model.cluster.config import KARPENTER
from faultbridge.model.entries import Transition
from faultbridge.model.enums import Isolation, NodeStatus, ProviderFailure, RepairAction, WaitingFor
from faultbridge.model.errors import Transient
from faultbridge.model.nodes import NodeState
from faultbridge.model.values import replace
from faultbridge.record.ports.compute import CallResult, Verdict
from faultbridge.record.ports.orchestrator import Orchestrator
from faultbridge.repair.attempt.intent import stop_for_incident, stop_for_update, stop_if_excluded
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
from faultbridge.repair.isolate import end_backoff, page_overdue
from faultbridge.repair.steps.close_case import request_cordon
from faultbridge.repair.steps.follow_provider import finish_if_gone
from faultbridge.repair.steps.verify_instance import joined_findings
from faultbridge.repair.successor.sources import PAGE_DRAIN_AFTER, ending_wait, page_for_work, page_overdue_wait

NAME = "drain"
LATE = ProviderFailure.TIMEOUT
NO_ORCHESTRATOR = "the cluster has no orchestrator"
IN_PLACE = frozenset({RepairAction.RESET_GPU, RepairAction.REBOOT_NODE})


def drain_node(context: StepContext) -> StepResult:
    """Drain the node, or leave it to the provider if the provider repairs the cluster.

    - If the step leaves the node to the provider, none of the following applies.
    - The attempt ends if an incident affects the node. Unless it only verifies the node, the attempt also ends if the
      case is canceled, the group is being updated, or the node is excluded from repairs.
    - If the instance is gone, the step finishes as `gone`.
    - If the cluster has no orchestrator, nothing is drained. A repair continues once no process uses the GPUs.
    """
    if context.rules.config.follows_provider:
        return _leave_to_provider(context)
    ended = context.stop_if_canceled() or stop_for_incident(context) or stop_for_update(context)
    ended = ended or stop_if_excluded(context) or finish_if_gone(context)
    if ended is not None:
        return ended
    if context.state.status is NodeStatus.QUARANTINED:
        context = context.commit(_start_draining)
    orchestrator = context.orchestrator
    if not orchestrator.applicable:
        return _wait_for_processes(context) or _finish_drained(context, "not_applicable", NO_ORCHESTRATOR)
    return _result_of(*_cordon_and_drain(context, orchestrator))


def on_timeout(context: StepContext, reason: str) -> StepResult:
    """End the drain after its deadline.

    - If the orchestrator does not answer, the case is queued again, and an operator is paged, except for a claim.
    - If running work stays (`work_stays`), the case is queued again until the node is idle.
    - If the drain could not start, the case is queued again, or escalated after the last permitted attempt. This is
      so even for a lost node, because the jobs had no time to leave.
    - If the drain started and the node is proven lost, or an operator ordered its replacement, a repair of the instance
      continues. A verification does not continue, because diagnostics never run beside work.
    - In every other situation, the case is queued again, or escalated after the last permitted attempt.
    """
    if context.state.orchestrator_lost_at is not None and not rests_on_claims(context.state, context.case):
        return _hold(context, reason)
    if work_stays(context.state, context.case):
        return _wait_until_idle(context, reason)
    if context.state.status is NodeStatus.QUARANTINED:
        return context.retry_or_escalate(WaitingFor.WAIT, Reason(f"the drain could not begin: {reason}", LATE))
    ordered = any(one.code == ORDERED_REPLACEMENT for one in context.state.active())
    lost = any(one.work in LOST and one.action.opens_case for one in believed(context.state).active())
    if context.case.repair_action is not RepairAction.VERIFY and (ordered or lost):
        return _finish_drained(context, "forced", f"not drained in time, but the node is lost: {reason}")
    draft = context.entry("held", reason=reason, failure=LATE)
    return context.retry_or_escalate(WaitingFor.WAIT, Reason(f"work did not leave in time: {reason}", LATE), draft)


def _wait_until_idle(context: StepContext, reason: str) -> StepResult:
    """Queue the case again until no work runs on the node. The attempt does not count, because nothing failed."""
    text = f"running work stays, because the fault did not end it: {reason}"
    draft = context.entry("held", reason=text, failure=LATE)
    return context.requeue(WaitingFor.IDLE, text, draft, counts=False)


def _wait_for_processes(context: StepContext) -> StepResult | None:
    """Queue the repair again while a process uses the GPUs of a node whose work stays; None if it may continue.

    Without an orchestrator, only the processes show running work. Diagnostics look for them when they start, also for
    what only claims report. If the instance does not answer, the repair continues, because its fault is proven.
    """
    diagnosis = context.case.repair_action is RepairAction.VERIFY
    if diagnosis or context.instance_id is None or not work_stays(context.state, context.case):
        return None
    found = context.verifier.processes(context.instance_id, context.case.execution)
    if found.verdict is Verdict.PENDING:
        return waiting("the processes on the GPUs are being listed")
    return _wait_until_idle(context, joined_findings(found.findings)) if found.verdict is Verdict.OCCUPIED else None


def _result_of(context: StepContext, answer: CallResult, stays: bool) -> StepResult:  # noqa: FBT001 - of one caller
    waits = stays and answer.failure is not None and answer.failure.retriable
    if waits and (not answer.inconclusive or rests_on_claims(context.state, context.case)):
        return _wait_until_idle(context, answer.reason)
    if answer.inconclusive:
        return _without_orchestrator(context, answer.reason)
    if answer.failure is None:
        return _finish_drained(context, "drained", answer.reason)
    if answer.failure.retriable:
        if context.rules.config.provider == KARPENTER:  # elsewhere, the deadline of the drain ends the wait
            page_overdue_wait(context, DRAIN, context.attempt.since, answer.reason, PAGE_DRAIN_AFTER)
        page_for_work(context, answer.reason)
        return waiting(answer.reason)
    draft = context.entry("failed", reason=answer.reason, failure=answer.failure)
    return context.escalate_to_operator(Reason(answer.reason, answer.failure), draft)


def _leave_to_provider(context: StepContext) -> StepResult:
    """Finish as `follow`, or as `diagnose` if another instance came; a canceled case does not wait."""
    if context.state.status is NodeStatus.VALIDATING:
        return context.finish(StepOutcome.DIAGNOSE, Phase.VERIFYING, lambda state, _: Transition(state))
    if context.case.cancelled:
        # An operator canceled the case or returned the node: no repair of the provider follows.
        if context.state.status is NodeStatus.QUARANTINED:
            context = context.commit(_start_draining)
        return _finish_drained(context, "not_applicable", "an operator ended the wait for the provider")

    def finished(state: NodeState, now: datetime) -> Transition:
        step = context.entry("not_applicable", now, reason="the provider repairs the node")
        if state.status is not NodeStatus.QUARANTINED:
            return Transition(state, (step,))
        draining = _start_draining(state, now)
        return Transition(draining.state, (*draining.drafts, step))

    return context.finish(StepOutcome.FOLLOW, Phase.DRAINING, finished)


def _cordon_and_drain(context: StepContext, orchestrator: Orchestrator) -> tuple[StepContext, CallResult, bool]:
    """Drain the node, and return whether the result is about work that stays. An unconfirmed cordon comes first.

    If running work stays, only check whether the node is idle. What an idle node still runs leaves before a repair;
    diagnostics run beside it.

    From the second attempt, a confirmed cordon is repeated too, because the earlier attempt may have removed it.
    """
    if context.state.isolation not in {Isolation.REQUESTED, Isolation.CONFIRMED}:
        # The cluster was only observed, or had no orchestrator, when it went out of service.
        context = context.commit(request_cordon)
    stays = work_stays(context.state, context.case)
    recheck = context.state.isolation is Isolation.CONFIRMED and context.case.attempts > 1
    if recheck or context.state.isolation is Isolation.REQUESTED:
        answer = _answer(lambda: orchestrator.cordon(context.member))
        if not answer.ok and answer.failure is not ProviderFailure.NOT_FOUND:
            return context, answer, stays
        if answer.ok and context.state.isolation is Isolation.REQUESTED:
            context = context.commit(lambda state, _: Transition(replace(state, isolation=Isolation.CONFIRMED)))
    member, deadline = context.member, context.attempt.deadline or context.now
    answer = _answer(lambda: orchestrator.idle(member) if stays else orchestrator.drain(member, deadline))
    if stays and answer.ok and context.case.repair_action is not RepairAction.VERIFY:
        stays, answer = False, _answer(lambda: orchestrator.drain(member, deadline))
    if not answer.inconclusive and context.state.orchestrator_lost_at is not None:
        context = context.commit(_orchestrator_answers)
    return context, answer, stays


def _answer(call: Callable[[], CallResult]) -> CallResult:
    try:
        return call()
    except Transient as error:
        return CallResult(ProviderFailure.TIMEOUT, str(error), no_response=True)


def _orchestrator_answers(state: NodeState, now: datetime) -> Transition:
    """End the backoff, and extend the deadline by the outage, in which the drain made no progress."""
    _, attempt = live_attempt(state)
    lost_at = max(state.orchestrator_lost_at or now, attempt.since or now)
    later = update_attempt(state, deadline=(attempt.deadline or now) + (now - lost_at))
    return Transition(*end_backoff(later, now))


def _without_orchestrator(context: StepContext, reason: str) -> StepResult:
    if context.state.orchestrator_lost_at is None:
        context.log("orchestrator_unavailable", reason)
        context = context.commit(lambda state, now: Transition(replace(state, orchestrator_lost_at=now)))
    policy, now = context.rules.policy, context.now
    proof = reason_to_proceed(context.state, policy, now)
    if proof is not None and context.case.repair_action is not RepairAction.VERIFY:
        context.log("drain_forced", proof)
        return _finish_drained(context, "forced", proof)
    return _hold(context, reason) if orchestrator_timed_out(context.state, policy, now) else waiting(reason)


def _hold(context: StepContext, reason: str) -> StepResult:
    """Queue the case again, uncounted, and page once, because the orchestrator did not answer."""
    text = f"the orchestrator did not answer whether work still runs: {reason}"
    if not context.state.isolation_overdue:
        context = context.commit(lambda state, now: page_overdue(state, now, text))
    draft = context.entry("held", reason=text, failure=LATE)
    return context.requeue(WaitingFor.WAIT, Reason(text, LATE), draft, counts=False)


def _start_draining(state: NodeState, now: datetime) -> Transition:
    state, draft = move_node(state, NodeStatus.DRAINING, now, "attempt admitted")
    return Transition(enter_phase(state, Phase.DRAINING, now), (draft,))


def _finish_drained(context: StepContext, outcome: str, reason: str) -> StepResult:
    diagnosis = context.case.repair_action is RepairAction.VERIFY

    def finished(state: NodeState, now: datetime) -> Transition:
        step = context.entry(outcome, now, reason=reason)
        if not diagnosis or state.status is NodeStatus.VALIDATING:
            return Transition(state, (step,))  # another controller attached an instance: it is already `validating`
        state, draft = move_node(state, NodeStatus.VALIDATING, now, "diagnosis only")
        return Transition(state, (step, draft))

    if diagnosis:
        return context.finish(StepOutcome.DIAGNOSE, Phase.VERIFYING, finished)
    next_step = StepOutcome.REPAIR if context.case.repair_action in IN_PLACE else StepOutcome.DONE
    change = ending_wait(finished) if HELD_SINCE in context.case.marks else finished
    return context.finish(next_step, Phase.DRAINING, change)
