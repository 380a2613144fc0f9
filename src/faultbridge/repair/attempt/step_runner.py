"""The machine: finds the step that is asked for, keeps its lease, deadline and token, and gives the answer.

A step may be called by the state machine, called again after a crash, or looked after by the sweep; all three come
through here, so that a step itself only says what it does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.cases import Attempt
from faultbridge.domain.edges import CaseStatus
from faultbridge.domain.nodes import NodeState
from faultbridge.domain.policy import Limits
from faultbridge.errors import FaultbridgeError, Rejected, Transient
from faultbridge.repair.attempt.contract import Answer, Outcome, Request, Settled, Superseded
from faultbridge.repair.attempt.progress import postponed, under_way
from faultbridge.repair.attempt.step_context import Tools, Work
from faultbridge.repair.steps import (
    close,
    drain,
    follow,
    record_failure,
    release_instance,
    repair_in_place,
    return_to_service,
    verify_node,
)
from faultbridge.repair.successor import await_successor
from faultbridge.rules.rulebook import rules_of


@dataclass(frozen=True, slots=True)
class Step:
    """What a step does, for how long it may wait, and what it comes to when that time is over."""

    run: Callable[[Work], Answer]
    late: Callable[[Work, str], Answer] | None = None
    limit: Callable[[Limits], timedelta] = lambda _: timedelta(minutes=30)


STEPS: Mapping[str, Step] = {
    drain.NAME: Step(drain.drain, drain.drain_is_late, lambda limits: limits.drain_deadline),
    release_instance.NAME: Step(release_instance.release_instance, release_instance.give_up_is_late),
    follow.NAME: Step(follow.follow, follow.provider_stalls, lambda limits: limits.follow_deadline),
    repair_in_place.NAME: Step(
        repair_in_place.repair_in_place,
        repair_in_place.repair_is_late,
        lambda limits: limits.repair_deadline,
    ),
    await_successor.NAME: Step(
        await_successor.await_successor,
        await_successor.successor_is_late,
        lambda limits: limits.launch_deadline,
    ),
    verify_node.NAME: Step(verify_node.verify, verify_node.verify_is_late, lambda limits: limits.verify_deadline),
    return_to_service.NAME: Step(return_to_service.return_to_service, return_to_service.return_is_late),
    close.NAME: Step(close.close),
    record_failure.NAME: Step(record_failure.record_failure),
}


@dataclass(frozen=True, slots=True)
class StepRunner:
    """Runs steps of attempts; one call is one step, and every call may come twice."""

    tools: Tools

    def __call__(self, payload: Mapping[str, Any], token: str | None = None) -> dict[str, str]:
        """Run the step that a payload names and return its answer; a task token in it is answered as well.

        A step that must wait answers `waiting` and nobody under the token: `poke` does when there is something to
        say. Raises Transient when the caller should call again, Rejected for a payload that is none.
        """
        request = Request.read(payload)
        token = token or payload.get("token")
        answer = self.run(request, token)
        if token is not None and answer.outcome is not Outcome.WAITING:
            self.resume(request.step, token, answer)
        return answer.data(request.step)

    def resume(self, step: str, token: str, answer: Answer) -> bool:
        """Wake the execution that waits for a step; False when none does."""
        return self.tools.workflow.resume(token, answer.data(step))

    def run(self, request: Request, token: str | None) -> Answer:
        """Run one step to its answer, or to the point where it must wait."""
        step = STEPS.get(request.step)
        if step is None:
            raise Rejected("unknown_step", f"{request.step!r} is none of {', '.join(STEPS)}")
        state = self.tools.append.read(request.key)
        work = Work(self.tools, request, rules_of(self.tools.rulebook, request.key.cluster), state)
        try:
            return self._guarded(step, work, token)
        except Settled as known:
            return known.answer
        except Superseded:
            return _closed_already(state, request) or Answer(Outcome.SUPERSEDED)

    def _guarded(self, step: Step, work: Work, token: str | None) -> Answer:
        work.fence(work.state)
        if step.late is None:
            return step.run(work)
        work = self._begin(step, work, token)
        try:
            answer = step.run(work)
        except Transient as error:
            answer = Answer(Outcome.WAITING, str(error))
        except FaultbridgeError as error:
            # No repetition will help, and nobody but us hears of it: it is recorded like any other failure.
            told = replace(work.request, error=f"{type(error).__name__}: {error}")
            return record_failure.record_failure(replace(work, request=told, state=self._again(work)))
        return self._wait(step, work, answer) if answer.outcome is Outcome.WAITING else answer

    def _begin(self, step: Step, work: Work, token: str | None) -> Work:
        limit = step.limit(work.rules.policy.limits)

        def revise(state: NodeState, now: datetime) -> Transition:
            return Transition(under_way(state, work.request.step, token, now, limit))

        return work.commit(revise)

    def _wait(self, step: Step, work: Work, answer: Answer) -> Answer:
        work = replace(work, state=self._again(work))
        late = work.attempt.deadline is not None and work.attempt.deadline <= self.tools.clock.now()
        if late and step.late is not None:
            return step.late(work, answer.reason)
        work.commit(lambda state, now: Transition(postponed(state, now, self.tools.probe)))
        return answer

    def _again(self, work: Work) -> NodeState:
        """Read the node as the step left it, and make sure that it is still the step's to write."""
        state = self.tools.append.read(work.state.key)
        work.fence(state)
        return state


def _closed_already(state: NodeState, request: Request) -> Answer | None:
    """Answer a repeated close like the first one."""
    case = state.case
    if case is None or request.step != close.NAME or case.status is not CaseStatus.RESOLVED:
        return None
    return Answer(Outcome.DONE) if (case.id, case.attempts) == (request.case, request.attempt) else None


def step_of(attempt: Attempt) -> str | None:
    """Return the step that an attempt waits in, or None where the machine is between two steps."""
    return attempt.step if attempt.step not in attempt.steps else None
