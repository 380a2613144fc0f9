"""State changes of an attempt that has not ended: start a step, schedule a probe, record an outcome."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from faultbridge.domain.cases import Attempt, Case, Phase
from faultbridge.domain.copies import replace
from faultbridge.domain.edges import NodeStatus
from faultbridge.domain.entries import Draft
from faultbridge.domain.nodes import NodeState
from faultbridge.pipeline import entry_builder
from faultbridge.pipeline.decide.case_moves import due_at
from faultbridge.repair.attempt.step_contract import AttemptSuperseded, StepOutcome

LEASE = timedelta(minutes=3)
"""Longer than any call of a step: until the lease ends, the sweep leaves the attempt alone."""

MAX_PROBE_INTERVAL = timedelta(minutes=10)
MAX_PROBE_DOUBLINGS = 16
"""Limits the exponent of the doubling; the interval reaches its maximum long before."""


def live_attempt(state: NodeState) -> tuple[Case, Attempt]:
    """Return the live case of a node, and its attempt. Raises AttemptSuperseded if either is missing.

    A case is live until it is resolved or expires.
    """
    case = state.live_case
    if case is None or case.attempt is None:
        raise AttemptSuperseded
    return case, case.attempt


def update_attempt(
    state: NodeState,
    marks: Mapping[str, datetime] | None = None,
    **changes: Any,  # noqa: ANN401 - fields of Attempt
) -> NodeState:
    """Change fields of the node's current attempt, and compute the node's next timer.

    The timer is the time at which the sweep, which runs every minute, must check the node. `marks`, if given, replaces
    `Case.marks`.
    """
    case, attempt = live_attempt(state)
    changed = replace(case, attempt=replace(attempt, **changes), marks=case.marks if marks is None else marks)
    return replace(state, case=changed, due_at=due_at(state, case=changed))


def start_or_resume_step(
    state: NodeState, step: str, token: str | None, now: datetime, timeout: timedelta
) -> NodeState:
    """Start a step, or resume the step if the attempt is already in it.

    A started step gets a deadline after `timeout`; a resumed step keeps its deadline. `token` is the Step Functions
    task token of this call. A resumed step keeps its stored token if `token` is None.
    """
    _, attempt = live_attempt(state)
    if attempt.step == step:
        return update_attempt(state, task_token=token or attempt.task_token, probe_at=now + LEASE)
    return update_attempt(
        state, step=step, since=now, tries=0, deadline=now + timeout, task_token=token, probe_at=now + LEASE
    )


def schedule_probe(state: NodeState, now: datetime, first: timedelta) -> NodeState:
    """Schedule the next probe of a waiting step; `first` is the time until the first probe of the step."""
    _, attempt = live_attempt(state)
    at = probe_time(attempt.tries, attempt.deadline, now, first)
    return update_attempt(state, tries=attempt.tries + 1, probe_at=at)


def probe_time(tries: int, deadline: datetime | None, now: datetime, first: timedelta) -> datetime:
    """Return when a step is probed next: not later than its deadline, unless the deadline has passed.

    The interval is `first` before the first probe. It doubles with each try, up to `MAX_PROBE_INTERVAL`.
    """
    at = now + min(first * (1 << min(tries, MAX_PROBE_DOUBLINGS)), MAX_PROBE_INTERVAL)
    return min(at, deadline) if deadline is not None and deadline > now else at


def enter_phase(state: NodeState, phase: Phase, now: datetime) -> NodeState:
    """Move the attempt into a phase, such as draining. The case records when it first entered each phase."""
    case, _ = live_attempt(state)
    return update_attempt(state, {phase.value: now, **case.marks}, phase=phase)


def record_outcome(state: NodeState, step: str, outcome: StepOutcome, phase: Phase, now: datetime) -> NodeState:
    """Record the outcome of a step, and move the attempt into the next phase.

    The Step Functions task token is kept until the next step starts. If the execution did not receive the outcome, the
    recovery can therefore send the outcome again.
    """
    case, attempt = live_attempt(state)
    steps, marks = {**attempt.steps, step: outcome.value}, {phase.value: now, **case.marks}
    return update_attempt(state, marks, phase=phase, steps=steps, tries=0, deadline=None, probe_at=now + LEASE)


def stop_timers(attempt: Attempt) -> Attempt:
    """Remove task token, probe time and deadline from an attempt that has ended."""
    return replace(attempt, task_token=None, probe_at=None, deadline=None)


def move_node(state: NodeState, target: NodeStatus, now: datetime, reason: str) -> tuple[NodeState, Draft]:
    """Change the status of a node, and draft the entry that records the change."""
    return replace(state, status=target), entry_builder.status_change(state, target, now, reason)
