"""Drain: let the work that runs on the node leave before anything is done to it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.cases import Phase, RepairAction, WaitingFor
from faultbridge.domain.edges import NodeStatus
from faultbridge.domain.faults import Severity
from faultbridge.domain.nodes import Isolation, NodeState
from faultbridge.pipeline import entry_builder
from faultbridge.pipeline.decide.orchestrator_reach import impatient, proceeds
from faultbridge.ports import CallResult as Reply
from faultbridge.ports import Orchestrator, ProviderFailure
from faultbridge.repair.attempt.contract import Answer, Outcome
from faultbridge.repair.attempt.progress import moved, reached
from faultbridge.repair.attempt.step_context import Work, waiting
from faultbridge.repair.isolation_backoff import in_time_again, overdue
from faultbridge.repair.steps.follow import taken_away

NAME = "drain"
IN_PLACE = frozenset({RepairAction.RESET_GPU, RepairAction.REBOOT_NODE})


def drain(work: Work) -> Answer:
    """Drain the node; where there is no orchestrator the step says that it does not apply."""
    if work.rules.config.follows:
        return _followed(work)
    over = work.stop_if_cancelled() or taken_away(work, NAME)
    if over is not None:
        return over
    if work.state.status is NodeStatus.QUARANTINED:
        work = work.commit(_begin)
    orchestrator = work.orchestrator
    if not orchestrator.applicable:
        return _drained(work, "not_applicable", "the cluster has no orchestrator")
    return _outcome(*_asked(work, orchestrator))


def _outcome(work: Work, reply: Reply) -> Answer:
    if reply.no_response:
        return _without_orchestrator(work, reply.reason)
    if reply.failure is None:
        return _drained(work, "drained", reply.reason)
    if reply.failure.retriable:
        return waiting(reply.reason)
    now, failure = work.tools.clock.now(), reply.failure.value
    draft = entry_builder.step(work.case, NAME, "failed", now, reason=reply.reason, failure=failure)
    return work.escalate(f"{failure}: {reply.reason}", draft)


def _followed(work: Work) -> Answer:
    """Leave the node to the provider; one that it has seen to already is only verified."""
    if work.state.status is NodeStatus.VALIDATING:
        return work.settle(Outcome.DIAGNOSE, Phase.VERIFYING, lambda state, _: Transition(state))

    def finish(state: NodeState, now: datetime) -> Transition:
        step = entry_builder.step(work.case, NAME, "not_applicable", now, reason="the provider repairs")
        if state.status is not NodeStatus.QUARANTINED:
            return Transition(state, (step,))
        begun = _begin(state, now)
        return Transition(begun.state, (*begun.drafts, step))

    return work.settle(Outcome.FOLLOW, Phase.DRAINING, finish)


def drain_is_late(work: Work, reason: str) -> Answer:
    """Go on with a node that is of no use to its work; give back one that work still runs on."""
    if work.state.orchestrator_lost_at is not None:
        return _held(work, reason)
    if work.case.severity is Severity.FATAL:
        return _drained(work, "forced", f"not drained in time, but unusable: {reason}")
    now = work.tools.clock.now()
    draft = entry_builder.step(work.case, NAME, "held", now, reason=reason, failure="TIMEOUT")
    return work.retry_or_escalate(WaitingFor.WAIT, f"TIMEOUT: work did not leave in time: {reason}", draft)


def _asked(work: Work, orchestrator: Orchestrator) -> tuple[Work, Reply]:
    """Ask for the node's work to leave, and first that no new work comes: after an attempt it may be open to it."""
    unsure = work.state.isolation is Isolation.CONFIRMED and work.case.attempts > 1
    if unsure or work.state.isolation is Isolation.REQUESTED:
        reply = orchestrator.cordon(work.member)
        if not reply.ok and reply.failure is not ProviderFailure.NOT_FOUND:
            return work, reply
        if reply.ok and work.state.isolation is Isolation.REQUESTED:
            work = work.commit(lambda state, _: Transition(replace(state, isolation=Isolation.CONFIRMED)))
    reply = orchestrator.drain(work.member, work.attempt.deadline or work.tools.clock.now())
    if not reply.no_response and work.state.orchestrator_lost_at is not None:
        work = work.commit(lambda state, now: Transition(*in_time_again(state, now)))
    return work, reply


def _without_orchestrator(work: Work, reason: str) -> Answer:
    """Wait for an orchestrator that does not answer; only a machine that is proven dead is given up without it."""
    if work.state.orchestrator_lost_at is None:
        work = work.commit(lambda state, now: Transition(replace(state, orchestrator_lost_at=now)))
    policy, now = work.rules.policy, work.tools.clock.now()
    dead = proceeds(work.state, policy, now)
    if dead is not None:
        return _drained(work, "forced", dead)
    return _held(work, reason) if impatient(work.state, policy, now) else waiting(reason)


def _held(work: Work, reason: str) -> Answer:
    """Give the slot back until the orchestrator answers, and tell a person; no attempt is used up by it."""
    told = f"the orchestrator does not answer: {reason}"
    if not work.state.isolation_overdue:
        work = work.commit(lambda state, now: overdue(state, now, told))
    draft = entry_builder.step(work.case, NAME, "held", work.tools.clock.now(), reason=told, failure="TIMEOUT")
    return work.requeue(WaitingFor.WAIT, f"TIMEOUT: {told}", draft, counts=False)


def _begin(state: NodeState, now: datetime) -> Transition:
    state, draft = moved(state, NodeStatus.DRAINING, now, "attempt admitted")
    return Transition(reached(state, Phase.DRAINING, now), (draft,))


def _drained(work: Work, how: str, reason: str) -> Answer:
    diagnosis = work.case.repair_action is RepairAction.VERIFY

    def finish(state: NodeState, now: datetime) -> Transition:
        step = entry_builder.step(work.case, NAME, how, now, reason=reason)
        if not diagnosis or state.status is NodeStatus.VALIDATING:
            return Transition(state, (step,))  # a machine that somebody else put there is validating already
        state, draft = moved(state, NodeStatus.VALIDATING, now, "diagnosis only")
        return Transition(state, (step, draft))

    if diagnosis:
        return work.settle(Outcome.DIAGNOSE, Phase.VERIFYING, finish)
    outcome = Outcome.REPAIR if work.case.repair_action in IN_PLACE else Outcome.DONE
    return work.settle(outcome, Phase.DRAINING, finish)
