"""Poke: look after an attempt whose time has come. It goes on where it stands, whoever forgot about it.

A waiting step is looked at again and its execution woken. An execution that never began is started; one that ended
without an answer is followed by a new attempt, which goes on at the first step without an outcome.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.cases import Attempt, Case, WaitingFor
from faultbridge.domain.edges import Actor, CaseStatus, NodeStatus
from faultbridge.domain.nodes import NodeKey, NodeState
from faultbridge.errors import Transient
from faultbridge.pipeline import entry_builder
from faultbridge.ports import ExecutionStatus
from faultbridge.repair.attempt.contract import Answer, Outcome, Request, execution_input
from faultbridge.repair.attempt.failed_attempts import again_at, escalated, requeued
from faultbridge.repair.attempt.progress import LEASE, live, with_attempt
from faultbridge.repair.attempt.step_runner import StepRunner, step_of
from faultbridge.rules.rulebook import rules_of

BEFORE_ANY_EFFECT = frozenset({NodeStatus.QUARANTINED, NodeStatus.DRAINING})
MAX_LOST = 3
"""How many executions beyond the policy's attempts may be lost before a person is asked."""

MAX_LEASES = 5
"""For how many leases an execution may seem to run between two steps before it is taken for lost; its calls, should
they come after all, are superseded."""


class RecoveredAttempts(StrEnum):
    """What came of one look."""

    NOTHING = "nothing"
    WAITING = "waiting"
    ANSWERED = "answered"
    RUNNING = "running"
    STARTED = "started"
    RECOVERED = "recovered"
    GIVEN_BACK = "given_back"


@dataclass(frozen=True, slots=True)
class RecoverAttempts:
    """Looks after attempts for the sweep; poking twice is poking once."""

    machine: StepRunner

    def __call__(self, key: NodeKey) -> RecoveredAttempts:
        """Look after the attempt of one node, if it is due."""
        state = self.machine.tools.append.read(key)
        case = state.live_case
        attempt = case.attempt if case and case.status is CaseStatus.IN_PROGRESS else None
        if case is None or attempt is None or not _due(attempt, self.machine.tools.clock.now()):
            return RecoveredAttempts.NOTHING
        step = step_of(attempt)
        if step is not None and attempt.task_token is not None:
            return self._look(key, case, step, attempt.task_token)
        if attempt.step is not None and attempt.task_token is not None:
            # The outcome is on the record; perhaps nobody told the execution.
            self.machine.resume(attempt.step, attempt.task_token, Answer(Outcome(attempt.steps[attempt.step])))
        return self._check_execution(state, case)

    def _look(self, key: NodeKey, case: Case, step: str, token: str) -> RecoveredAttempts:
        answer = self.machine.run(Request(step, key, case.id, case.attempts), token)
        if answer.outcome is Outcome.WAITING:
            return self._still_waited_for(key, case)
        self.machine.resume(step, token, answer)
        return RecoveredAttempts.ANSWERED

    def _still_waited_for(self, key: NodeKey, case: Case) -> RecoveredAttempts:
        if self.machine.tools.workflow.status(case.execution) is ExecutionStatus.RUNNING:
            return RecoveredAttempts.WAITING
        return self._check_execution(self.machine.tools.append.read(key), case)

    def _check_execution(self, state: NodeState, case: Case) -> RecoveredAttempts:
        workflow = self.machine.tools.workflow
        status = workflow.status(case.execution)
        if status is ExecutionStatus.MISSING:
            workflow.start(case.execution, execution_input(state.key, case))
        stalled = case.attempt is not None and case.attempt.tries >= MAX_LEASES
        if status is ExecutionStatus.FAILED or status is ExecutionStatus.SUCCEEDED or stalled:
            return self._recover(state, case)
        self._append(state, case, _lease)
        return RecoveredAttempts.RUNNING if status is ExecutionStatus.RUNNING else RecoveredAttempts.STARTED

    def _recover(self, state: NodeState, case: Case) -> RecoveredAttempts:
        """Follow up an execution that ended without ending the attempt."""
        limits = rules_of(self.machine.tools.rulebook, state.key.cluster).policy.limits
        if case.tried >= limits.attempts + MAX_LOST:
            reason = f"{case.attempts} executions were lost"
            self._append(state, case, lambda now, at: escalated(now, at, reason))
            return RecoveredAttempts.GIVEN_BACK
        attempt = case.attempt
        if attempt is not None and attempt.intent is None and state.status in BEFORE_ANY_EFFECT:
            self._append(state, case, _give_back)
            return RecoveredAttempts.GIVEN_BACK
        followed = self._append(state, case, _follow).live_case
        if followed is not None and (followed.id, followed.attempts) == (case.id, case.attempts + 1):
            with suppress(Transient):  # found missing and started when it is due again
                self.machine.tools.workflow.start(followed.execution, execution_input(state.key, followed))
        return RecoveredAttempts.RECOVERED

    def _append(self, state: NodeState, case: Case, revise: Callable[[NodeState, datetime], Transition]) -> NodeState:
        """Revise the node unless the attempt has come further or is over."""
        config = rules_of(self.machine.tools.rulebook, state.key.cluster).config

        def unless_moved(now: NodeState, at: datetime) -> Transition:
            current = now.live_case
            if current is None or (current.id, current.attempts) != (case.id, case.attempts):
                return Transition(now)
            return revise(now, at) if current.status is CaseStatus.IN_PROGRESS else Transition(now)

        return self.machine.tools.append(state.key, unless_moved, actor=Actor.SWEEP, config=config, current=state).state


def _due(attempt: Attempt, now: datetime) -> bool:
    times = [at for at in (attempt.probe_at, attempt.deadline) if at is not None]
    return bool(times) and min(times) <= now


def _lease(state: NodeState, now: datetime) -> Transition:
    _, attempt = live(state)
    return Transition(with_attempt(state, probe_at=now + LEASE, tries=attempt.tries + 1))


def _give_back(state: NodeState, now: datetime) -> Transition:
    case, _ = live(state)
    reason = f"execution {case.execution} was lost before its intent"
    return requeued(state, now, WaitingFor.WAIT, reason, not_before=again_at(case, now))


def _follow(state: NodeState, now: datetime) -> Transition:
    """Begin the next attempt where the lost one stood; what it settled and intended stays."""
    case, attempt = live(state)
    number = case.attempts + 1
    reason = f"execution {case.execution} was lost; attempt {number} goes on where it stood"
    followed = replace(case, attempts=number)
    state = with_attempt(
        replace(state, case=followed),
        number=number,
        step=None,
        tries=0,
        task_token=None,
        deadline=None,
        probe_at=now + LEASE,
    )
    return Transition(state, (entry_builder.step(followed, attempt.step or "admission", "lost", now, reason=reason),))
