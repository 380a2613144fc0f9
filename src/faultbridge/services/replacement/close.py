"""Close: node in service, case resolved, slot free, in one transaction."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from faultbridge.domain.cases import Attempt, Resolution, Rung
from faultbridge.domain.edges import Actor, CaseStatus, NodeStatus
from faultbridge.domain.faults import Severity
from faultbridge.domain.nodes import Isolation, NodeState
from faultbridge.services.append import Revision
from faultbridge.services.replacement import return_to_service
from faultbridge.services.replacement.outcomes import Answer, Outcome
from faultbridge.services.replacement.progress import live, moved
from faultbridge.services.replacement.work import Work
from faultbridge.stages.decide import Decided, due_at, move_case

NAME = "close"
RESOLUTIONS = {
    Rung.VERIFY: Resolution.RECOVERED,
    Rung.RESET: Resolution.REPAIRED,
    Rung.REBOOT: Resolution.REPAIRED,
    Rung.REPLACE: Resolution.REPLACED,
}


def close(work: Work) -> Answer:
    """Close the case of a node that was verified and returned."""
    if work.attempt.steps.get(return_to_service.NAME) != Outcome.DONE:
        return work.escalate("the case was to close before the node was returned")
    work.commit(_closed, Actor.CLOSE)
    return Answer(Outcome.DONE)


def _closed(state: NodeState, now: datetime) -> Revision:
    case, attempt = live(state)
    harmed = state.severity is not None and state.severity.rank >= Severity.WARNING.rank
    target = NodeStatus.DEGRADED if harmed else NodeStatus.HEALTHY
    reason = "verification passed, a condition remains" if harmed else "verification passed"
    state, draft = moved(replace(state, isolation=Isolation.NONE, unverified=False), target, now, reason)
    resolution = RESOLUTIONS[case.rung]
    resolved = replace(
        case,
        status=CaseStatus.RESOLVED,
        resolution=resolution,
        attempt=_at_rest(attempt),
        waiting_for=None,
        reason="",
        closed_at=now,
    )
    done = move_case(Decided(state, (draft,)), resolved, now, resolution.value)
    return Revision(replace(done.state, due_at=due_at(done.state)), done.drafts)


def _at_rest(attempt: Attempt) -> Attempt:
    return replace(attempt, task_token=None, probe_at=None, deadline=None)
