"""The step runner: runs one step of an attempt with its lease, deadline and task token, and recovers attempts.

The state machine calls a step, a retry calls it again after a crash, and the sweep calls it for a probe. All three use
this runner, so a step contains only its own work. For the duration of the lease after a call, the sweep does not touch
the attempt.

An execution of Step Functions drives each attempt. The sweep calls `recover_attempt` for each attempt that is due.

- A waiting step is probed again. When it has a result, its execution is resumed.
- An execution that never started is started.
- An execution is lost if it ended without ending its attempt, or if it makes no progress between two steps. If the
  attempt has no intent and its node is still quarantined or draining, the case is queued again. Otherwise, a new
  attempt continues at the first step without an outcome. If the case has already had too many attempts, the case is
  escalated to an operator instead.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from enum import StrEnum

from msgspec import Struct

from faultbridge.decide import entry_builder
from faultbridge.model.cases import Case
from faultbridge.model.entries import Transition
from faultbridge.model.enums import Actor, CaseStatus, NodeStatus, WaitingFor
from faultbridge.model.errors import Conflict, FaultbridgeError, Rejected, Transient
from faultbridge.model.log import log_cause
from faultbridge.model.nodes import NodeKey, NodeState
from faultbridge.model.policy import Limits
from faultbridge.model.storage import items, keys
from faultbridge.model.times import earliest
from faultbridge.model.values import replace
from faultbridge.record.append import Revise
from faultbridge.record.ports.messaging import ExecutionStatus
from faultbridge.record.ports.table import Table
from faultbridge.record.queries import cluster_control
from faultbridge.record.rulebook import rules_of
from faultbridge.repair.attempt.step_context import (
    LEASE,
    AttemptSuperseded,
    StepAlreadyFinished,
    StepContext,
    StepOutcome,
    StepRequest,
    StepResult,
    StepTools,
    escalate_case,
    execution_input,
    live_attempt,
    requeue_case,
    retry_time,
    schedule_probe,
    start_or_resume_step,
    update_attempt,
    waiting,
)
from faultbridge.repair.steps import (
    await_successor,
    close_case,
    drain_node,
    follow_provider,
    release_instance,
    repair_in_place,
    verify_instance,
)

DEFAULT_TIMEOUT = timedelta(minutes=30)


class Step(Struct, frozen=True):
    """A step's function, its function after the deadline (None: it never waits), and the deadline."""

    run: Callable[[StepContext], StepResult]
    on_timeout: Callable[[StepContext, str], StepResult] | None = None
    timeout: Callable[[Limits], timedelta] = lambda _: DEFAULT_TIMEOUT


STEPS: Mapping[str, Step] = {
    drain_node.NAME: Step(drain_node.drain_node, drain_node.on_timeout, lambda limits: limits.drain_deadline),
    release_instance.NAME: Step(release_instance.release_instance, release_instance.on_timeout),
    follow_provider.NAME: Step(
        follow_provider.follow_provider, follow_provider.on_timeout, lambda limits: limits.follow_deadline
    ),
    repair_in_place.NAME: Step(
        repair_in_place.repair_in_place, repair_in_place.on_timeout, lambda limits: limits.repair_deadline
    ),
    await_successor.NAME: Step(
        await_successor.await_successor, await_successor.on_timeout, lambda limits: limits.launch_deadline
    ),
    verify_instance.NAME: Step(
        verify_instance.verify_instance, verify_instance.on_timeout, lambda limits: limits.verify_deadline
    ),
    close_case.RETURN: Step(close_case.return_to_service, close_case.on_return_timeout),
    close_case.CLOSE: Step(close_case.close_case),
    close_case.FAIL: Step(close_case.record_failure),
}


class StepRunner(Struct, frozen=True):
    """Runs one step per call. Every call may be repeated."""

    tools: StepTools

    def run_step(self, payload: Mapping[str, object], token: str | None = None) -> dict[str, str]:
        """Run the step that a payload names, resume the execution with the result, and return the result.

        `token` is the Step Functions task token of the execution. A step without a result returns `waiting`, and the
        execution is resumed later by the recovery. Raises Transient if the caller must retry, and Rejected for a
        malformed payload or an unknown step.
        """
        request = StepRequest.read(payload)
        token = token or (str(payload["token"]) if payload.get("token") else None)
        result = self.run(request, token)
        if token is not None and result.outcome is not StepOutcome.WAITING:
            self.resume(request.step, token, result)
        return result.data(request.step)

    def resume(self, step: str, token: str, result: StepResult) -> bool:
        """Resume the execution that waits for a step. Returns False if no execution waits."""
        return self.tools.workflow.resume(token, result.data(step))

    def run(self, request: StepRequest, token: str | None) -> StepResult:
        """Run one step until it has a result or must wait; `token` is its Step Functions task token, or None."""
        step = STEPS.get(request.step)
        if step is None:
            raise Rejected("unknown_step", f"unknown step: {request.step!r}; known: {', '.join(STEPS)}")
        state = self.tools.append.read(request.key)
        context = StepContext(self.tools, request, rules_of(self.tools.rulebook, request.key.cluster), state)
        try:
            return self._run_fenced(step, context, token)
        except StepAlreadyFinished as finished:
            return finished.result
        except AttemptSuperseded:
            closed = _result_if_closed(state, request)
            if closed is None:
                context.log("attempt_superseded", "the attempt of this call is not the live one")
            return closed or StepResult(StepOutcome.SUPERSEDED)

    def _run_fenced(self, step: Step, context: StepContext, token: str | None) -> StepResult:
        context.fence(context.state)
        if step.on_timeout is None:
            return step.run(context)
        name, timeout = context.request.step, step.timeout(context.rules.policy.limits)
        context = context.commit(lambda state, now: Transition(start_or_resume_step(state, name, token, now, timeout)))
        try:
            result = step.run(context)
        except Transient as error:
            context.log("step_retried", str(error))
            result = waiting(str(error))
        except FaultbridgeError as error:
            # A retry does not help, and no caller records this error: treat it like any other failure of a step.
            text = f"{type(error).__name__}: {error}"
            context.log("step_failed", text, logging.ERROR)
            request = replace(context.request, error=text)
            return close_case.record_failure(replace(context, request=request, state=self._reread(context)))
        return self._wait(step, context, result) if result.outcome is StepOutcome.WAITING else result

    def _wait(self, step: Step, context: StepContext, result: StepResult) -> StepResult:
        context = replace(context, state=self._reread(context))
        timed_out = context.attempt.deadline is not None and context.attempt.deadline <= self.tools.clock.now()
        if timed_out and step.on_timeout is not None:
            context.log("step_timed_out", result.reason)
            return step.on_timeout(context, result.reason)
        context.commit(lambda state, now: Transition(schedule_probe(state, now, self.tools.probe_interval)))
        return result

    def _reread(self, context: StepContext) -> NodeState:
        state = self.tools.append.read(context.state.key)
        context.fence(state)
        return state


def _result_if_closed(state: NodeState, request: StepRequest) -> StepResult | None:
    """Return `done` if the step `close` is called again after it resolved the case; None otherwise."""
    case = state.case
    if case is None or request.step != close_case.CLOSE or case.status is not CaseStatus.RESOLVED:
        return None
    return StepResult(StepOutcome.DONE) if (case.id, case.attempts) == (request.case, request.attempt) else None


BEFORE_INTENT = frozenset({NodeStatus.QUARANTINED, NodeStatus.DRAINING})
MAX_LOST_EXECUTIONS = 3
"""How many executions may be lost beyond the policy's attempts before the case is escalated to an operator."""

MAX_LEASES = 5
"""An execution without progress between two steps counts as lost after this many leases.

Later calls of that execution are superseded.
"""


class RecoveryResult(StrEnum):
    """What one call did to recover an interrupted repair attempt.

    - `nothing`: the node has no attempt that was due.
    - `waiting`: the attempt's current step has no result yet.
    - `answered`: the step has a result, with which its waiting execution was resumed.
    - `running`: the execution still runs.
    - `started`: the execution had never started, and was started.
    - `recovered`: the execution was lost, and a new attempt continues.
    - `given_back`: the execution was lost, and the case was queued again or escalated to an operator.
    """

    NOTHING = "nothing"
    WAITING = "waiting"
    ANSWERED = "answered"
    RUNNING = "running"
    STARTED = "started"
    RECOVERED = "recovered"
    GIVEN_BACK = "given_back"


def recover_attempt(runner: StepRunner, key: NodeKey) -> RecoveryResult:
    """Recover the repair attempt of one node, if it is due. The call may be repeated at any time."""
    state = runner.tools.append.read(key)
    case = state.live_case
    attempt = case.attempt if case and case.status is CaseStatus.IN_PROGRESS else None
    due_at = earliest(attempt.probe_at, attempt.deadline) if attempt else None
    if case is None or attempt is None or due_at is None or due_at > runner.tools.clock.now():
        return RecoveryResult.NOTHING
    if attempt.step is not None and attempt.task_token is not None:
        if attempt.step not in attempt.steps:
            return _probe_step(runner, key, case, attempt.step, attempt.task_token)
        # The outcome is recorded, but the execution may not have received it.
        runner.resume(attempt.step, attempt.task_token, StepResult(StepOutcome(attempt.steps[attempt.step])))
    return _check_execution(runner.tools, state, case)


def _probe_step(runner: StepRunner, key: NodeKey, case: Case, step: str, token: str) -> RecoveryResult:
    result = runner.run(StepRequest(step, key, case.id, case.attempts), token)
    if result.outcome is not StepOutcome.WAITING:
        runner.resume(step, token, result)
        return RecoveryResult.ANSWERED
    if runner.tools.workflow.status(case.execution) is ExecutionStatus.RUNNING:
        return RecoveryResult.WAITING
    return _check_execution(runner.tools, runner.tools.append.read(key), case)


def _check_execution(tools: StepTools, state: NodeState, case: Case) -> RecoveryResult:
    status = tools.workflow.status(case.execution)
    if status is ExecutionStatus.MISSING:
        _log_recovery(state, case, "execution_started_late", "the execution was admitted but never started")
        tools.workflow.start(case.execution, execution_input(state.key, case))
    stalled = case.attempt is not None and case.attempt.tries >= MAX_LEASES
    if status is ExecutionStatus.FAILED or status is ExecutionStatus.SUCCEEDED or stalled:
        ended = f"the execution ended with status {status.value}, but its attempt is still live"
        _log_recovery(state, case, "execution_lost", "no progress between two steps" if stalled else ended)
        return _replace_execution(tools, state, case)
    _append_unless_moved(tools, state, case, _extend_lease)
    return RecoveryResult.RUNNING if status is ExecutionStatus.RUNNING else RecoveryResult.STARTED


def _replace_execution(tools: StepTools, state: NodeState, case: Case) -> RecoveryResult:
    limits = rules_of(tools.rulebook, state.key.cluster).policy.limits
    if case.counted_attempts >= limits.attempts + MAX_LOST_EXECUTIONS:
        reason = f"{case.attempts} executions were lost"
        _append_unless_moved(tools, state, case, lambda now, at: escalate_case(now, at, reason))
        _log_recovery(state, case, "attempt_escalated", reason)
        return RecoveryResult.GIVEN_BACK
    attempt = case.attempt
    if attempt is not None and attempt.intent is None and state.status in BEFORE_INTENT:
        _append_unless_moved(tools, state, case, _requeue_lost)
        _log_recovery(state, case, "attempt_requeued", "the execution was lost before its intent")
        return RecoveryResult.GIVEN_BACK
    next_case = _append_unless_moved(tools, state, case, _start_next_attempt).live_case
    if next_case is not None and (next_case.id, next_case.attempts) == (case.id, case.attempts + 1):
        try:
            tools.workflow.start(next_case.execution, execution_input(state.key, next_case))
        except Transient as error:
            # The attempt is recorded; the next recovery finds its execution missing and starts it.
            _log_recovery(state, next_case, "execution_start_failed", str(error))
    return RecoveryResult.RECOVERED


def _append_unless_moved(tools: StepTools, state: NodeState, case: Case, revise: Revise) -> NodeState:
    def unless_moved(now: NodeState, at: datetime) -> Transition:
        current = now.live_case
        if current is None or (current.id, current.attempts) != (case.id, case.attempts):
            return Transition(now)
        return revise(now, at) if current.status is CaseStatus.IN_PROGRESS else Transition(now)

    return tools.append(state.key, unless_moved, actor=Actor.SWEEP, current=state).state


def _extend_lease(state: NodeState, now: datetime) -> Transition:
    _, attempt = live_attempt(state)
    return Transition(update_attempt(state, probe_at=now + LEASE, tries=attempt.tries + 1))


def _requeue_lost(state: NodeState, now: datetime) -> Transition:
    case, _ = live_attempt(state)
    reason = f"execution {case.execution} was lost before its intent"
    return requeue_case(state, now, WaitingFor.WAIT, reason, not_before=retry_time(case, now))


def _start_next_attempt(state: NodeState, now: datetime) -> Transition:
    """Start a new attempt at the lost step; the intent and all recorded outcomes are kept."""
    case, attempt = live_attempt(state)
    number = case.attempts + 1
    reason = f"execution {case.execution} was lost; attempt {number} continues at the same step"
    next_case = replace(case, attempts=number)
    state = update_attempt(
        replace(state, case=next_case),
        number=number,
        step=None,
        tries=0,
        task_token=None,
        deadline=None,
        probe_at=now + LEASE,
    )
    step = entry_builder.step(next_case, attempt.step or "admission", "lost", now, reason=reason)
    return Transition(state, (step,))


def _log_recovery(state: NodeState, case: Case, decision: str, reason: str) -> None:
    key = state.key
    log_cause(
        decision,
        reason=reason,
        level=logging.WARNING,
        cluster=key.cluster,
        node=key.node,
        case_id=case.id,
        attempt=case.attempts,
        execution=case.execution,
    )


def release_leaked_slots(table: Table, cluster: str) -> tuple[str, ...]:
    """Release slots whose case is not in repair, unless another writer changed them; return the cases."""
    control = cluster_control(table, cluster)
    case_keys = {keys.case(case): case for case in control.holders}
    cases = table.get_many(case_keys) if case_keys else {}
    leaked = tuple(
        case
        for key, case in case_keys.items()
        if key not in cases or cases[key]["status"] != CaseStatus.IN_PROGRESS.value
    )
    if not leaked:
        return ()
    try:
        table.write(items.control_update(control, removed=tuple(("holders", case) for case in leaked)))
    except Conflict as conflict:
        # The slots changed in the meantime; the next sweep checks them again.
        log_cause("leaked_slots_kept", reason=str(conflict), cluster=cluster)
        return ()
    for case in leaked:
        reason = "the case holds a slot but is not in progress"
        log_cause("leaked_slot_released", reason=reason, level=logging.WARNING, cluster=cluster, case_id=case)
    return leaked
