"""The step runner: runs one step of an attempt with its lease, deadline and task token.

The state machine calls a step, a retry calls it again after a crash, and the sweep calls it for a probe. All three use
this runner, so a step contains only its own work. For the duration of the lease after a call, the sweep does not touch
the attempt.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from msgspec import Struct

from faultbridge.model.cases import Attempt
from faultbridge.model.entries import Transition
from faultbridge.model.enums import CaseStatus
from faultbridge.model.errors import FaultbridgeError, Rejected, Transient
from faultbridge.model.nodes import NodeState
from faultbridge.model.policy import Limits
from faultbridge.model.values import replace
from faultbridge.record.rulebook import rules_of
from faultbridge.repair.attempt.progress import schedule_probe, start_or_resume_step
from faultbridge.repair.attempt.step_context import StepContext, StepTools
from faultbridge.repair.attempt.step_contract import (
    AttemptSuperseded,
    StepAlreadyFinished,
    StepOutcome,
    StepRequest,
    StepResult,
    waiting,
)
from faultbridge.repair.steps import (
    await_successor,
    close_case,
    drain_node,
    follow_provider,
    record_failure,
    release_instance,
    repair_in_place,
    return_to_service,
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
    return_to_service.NAME: Step(return_to_service.return_to_service, return_to_service.on_timeout),
    close_case.NAME: Step(close_case.close_case),
    record_failure.NAME: Step(record_failure.record_failure),
}


class StepRunner(Struct, frozen=True):
    """Runs one step per call. Every call may be repeated."""

    tools: StepTools

    def run_step(self, payload: Mapping[str, Any], token: str | None = None) -> dict[str, str]:
        """Run the step that a payload names, resume the execution with the result, and return the result.

        `token` is the Step Functions task token of the execution. A step without a result returns `waiting`, and the
        execution is resumed later by the recovery. Raises Transient if the caller must retry, and Rejected for a
        malformed payload or an unknown step.
        """
        request = StepRequest.read(payload)
        token = token or payload.get("token")
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
        context = self._start(step, context, token)
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
            return record_failure.record_failure(replace(context, request=request, state=self._reread(context)))
        return self._wait(step, context, result) if result.outcome is StepOutcome.WAITING else result

    def _start(self, step: Step, context: StepContext, token: str | None) -> StepContext:
        name, timeout = context.request.step, step.timeout(context.rules.policy.limits)
        return context.commit(lambda state, now: Transition(start_or_resume_step(state, name, token, now, timeout)))

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
    if case is None or request.step != close_case.NAME or case.status is not CaseStatus.RESOLVED:
        return None
    return StepResult(StepOutcome.DONE) if (case.id, case.attempts) == (request.case, request.attempt) else None


def current_step(attempt: Attempt) -> str | None:
    """Return the step that the attempt is in, or None if the execution is between two steps."""
    return attempt.step if attempt.step not in attempt.steps else None
