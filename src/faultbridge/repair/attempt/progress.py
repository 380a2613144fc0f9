"""Progress: the attempt inside a node's state as its steps begin, wait and come to something."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from faultbridge.domain.cases import Attempt, Case, Phase
from faultbridge.domain.edges import NodeStatus
from faultbridge.domain.entries import Draft
from faultbridge.domain.nodes import NodeState
from faultbridge.pipeline import entry_builder
from faultbridge.pipeline.decide.decide import due_at
from faultbridge.repair.attempt.contract import Outcome, Superseded

LEASE = timedelta(minutes=3)
"""Longer than one call of a step may take: until then nobody else looks after the attempt."""

MAX_PAUSE = timedelta(minutes=10)


def live(state: NodeState) -> tuple[Case, Attempt]:
    """Return the live case and its attempt; raises Superseded where there is none."""
    case = state.live_case
    if case is None or case.attempt is None:
        raise Superseded
    return case, case.attempt


def with_attempt(state: NodeState, **changes: Any) -> NodeState:  # noqa: ANN401 - fields of Attempt
    """Change the live attempt, and with it the time at which the node is due."""
    case, attempt = live(state)
    changed = replace(state, case=replace(case, attempt=replace(attempt, **changes)))
    return replace(changed, due_at=due_at(changed))


def under_way(state: NodeState, step: str, token: str | None, now: datetime, limit: timedelta) -> NodeState:
    """Begin a step, or take it up again; a repeated call keeps its deadline."""
    _, attempt = live(state)
    if attempt.step == step:
        return with_attempt(state, task_token=token or attempt.task_token, probe_at=now + LEASE)
    return with_attempt(
        state, step=step, since=now, tries=0, deadline=now + limit, task_token=token, probe_at=now + LEASE
    )


def postponed(state: NodeState, now: datetime, first: timedelta) -> NodeState:
    """Let a step wait; the pause doubles with each look and never passes the deadline."""
    _, attempt = live(state)
    pause = min(first * (1 << min(attempt.tries, 16)), MAX_PAUSE)
    at = now + pause
    if attempt.deadline is not None and attempt.deadline > now:
        at = min(at, attempt.deadline)
    return with_attempt(state, tries=attempt.tries + 1, probe_at=at)


def reached(state: NodeState, phase: Phase, now: datetime) -> NodeState:
    """Bring the attempt into a phase; the first time is marked on the case."""
    case, _ = live(state)
    marked = replace(state, case=replace(case, marks={phase.value: now, **case.marks}))
    return with_attempt(marked, phase=phase)


def settled(state: NodeState, step: str, outcome: Outcome, now: datetime) -> NodeState:
    """Remember what a step came to; the token stays until the next step shows that the machine went on."""
    _, attempt = live(state)
    steps = {**attempt.steps, step: outcome.value}
    return with_attempt(state, steps=steps, tries=0, deadline=None, probe_at=now + LEASE)


def moved(state: NodeState, target: NodeStatus, now: datetime, reason: str) -> tuple[NodeState, Draft]:
    """Move the node and draft the entry that says so."""
    return replace(state, status=target), entry_builder.status_change(state, target, now, reason)
