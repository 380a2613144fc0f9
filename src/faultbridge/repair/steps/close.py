"""Close: node in service, case resolved, slot free, in one transaction."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.cases import EXTERNAL, Attempt, Case, RepairAction, Resolution
from faultbridge.domain.edges import Actor, CaseStatus, NodeStatus
from faultbridge.domain.faults import Severity
from faultbridge.domain.nodes import Isolation, NodeState
from faultbridge.errors import Transient
from faultbridge.pipeline.decide.decide import move_case
from faultbridge.repair.attempt.contract import Answer, Outcome
from faultbridge.repair.attempt.progress import live, moved
from faultbridge.repair.attempt.step_context import Work
from faultbridge.repair.steps import return_to_service, verify_node
from faultbridge.repair.successor import launch

NAME = "close"
RESOLUTIONS = {
    RepairAction.VERIFY: Resolution.RECOVERED,
    RepairAction.RESET_GPU: Resolution.REPAIRED,
    RepairAction.REBOOT_NODE: Resolution.REPAIRED,
    RepairAction.REPLACE_NODE: Resolution.REPLACED,
}


def close(work: Work) -> Answer:
    """Close the case of a node that was verified and returned."""
    if work.attempt.steps.get(return_to_service.NAME) != Outcome.DONE:
        return work.escalate("the case was to close before the node was returned")
    launch.end_what_is_left(work)
    try:
        work.commit(_closed, Actor.CLOSE)
    except _Overtaken:
        return _keep_out(work)
    return Answer(Outcome.DONE)


class _Overtaken(Exception):  # noqa: N818 - a fact, no error
    """Something was seen on the node since it was verified."""


def _keep_out(work: Work) -> Answer:
    """Keep work off the node again: it was let back, but its verification holds no more."""
    work = replace(work, state=work.tools.append.read(work.state.key))
    if work.rules.config.follows:
        return verify_node.overtaken(work, verify_node.seen_since(work.state))
    answer = work.orchestrator.cordon(work.member)
    if not answer.ok:
        raise Transient(f"the node was let back and cannot be kept out again: {answer.reason}")
    isolation = Isolation.CONFIRMED if work.orchestrator.applicable else Isolation.NOT_APPLICABLE
    work = work.commit(lambda state, _: Transition(replace(state, isolation=isolation)))
    return verify_node.overtaken(work, verify_node.seen_since(work.state))


def _closed(state: NodeState, now: datetime) -> Transition:
    case, attempt = live(state)
    if verify_node.seen_since(state):
        raise _Overtaken
    harmed = state.severity is not None and state.severity.rank >= Severity.WARNING.rank
    target = NodeStatus.DEGRADED if harmed else NodeStatus.HEALTHY
    reason = "verification passed, a condition remains" if harmed else "verification passed"
    state, draft = moved(replace(state, isolation=Isolation.NONE, unverified=False), target, now, reason)
    resolution = _resolution(case)
    resolved = replace(
        case,
        status=CaseStatus.RESOLVED,
        resolution=resolution,
        attempt=_at_rest(attempt),
        waiting_for=None,
        reason="",
        closed_at=now,
    )
    done = move_case(Transition(state, (draft,)), resolved, now, resolution.value)
    return Transition(done.state, done.drafts)


def _resolution(case: Case) -> Resolution:
    if case.cancelled:
        return Resolution.CANCELLED
    # Somebody else replaced the machine; ours was only the verification.
    attempt = case.attempt
    taken = attempt is not None and attempt.successor is not None and not _replaced_by_us(attempt)
    external = EXTERNAL in case.marks and (case.repair_action is RepairAction.VERIFY or taken)
    return Resolution.EXTERNAL if external else RESOLUTIONS[case.repair_action]


def _replaced_by_us(attempt: Attempt) -> bool:
    return attempt.intent is not None and attempt.intent.repair_action is RepairAction.REPLACE_NODE


def _at_rest(attempt: Attempt) -> Attempt:
    return replace(attempt, task_token=None, probe_at=None, deadline=None)
