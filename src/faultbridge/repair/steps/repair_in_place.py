"""Repair in place: reset the GPUs or boot the instance again, after an intent that names it, and wait until it is back.

What cannot be done, or comes to nothing in time, climbs: the instance is alive or hangs, and the next repair action takes it as
it is. Nothing is begun twice: the token of the intent finds what was begun before.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.cases import Intent, Phase, RepairAction
from faultbridge.domain.edges import NodeStatus
from faultbridge.domain.nodes import NodeState
from faultbridge.errors import Transient
from faultbridge.pipeline import entry_builder
from faultbridge.pipeline.decide.decide import decide
from faultbridge.pipeline.fold.expire import end_scopes
from faultbridge.pipeline.observe import REBOOT_ENDS
from faultbridge.ports import CallResult as Reply
from faultbridge.ports import ProviderFailure, Restart, RestartState
from faultbridge.repair.attempt import escalate, intent
from faultbridge.repair.attempt.contract import Answer, Outcome
from faultbridge.repair.attempt.evidence import collecting
from faultbridge.repair.attempt.progress import live, moved, reached, with_attempt
from faultbridge.repair.attempt.step_context import Work, waiting
from faultbridge.repair.steps.follow import taken_away

NAME = "repair_in_place"
OUT_OF_REACH = frozenset({ProviderFailure.NOT_FOUND, ProviderFailure.PROVIDER_ERROR})


def repair_in_place(work: Work) -> Answer:
    """Bring the instance back by the repair action of the attempt, once."""
    meant = work.attempt.intent
    if meant is not None:
        return _look(work, meant)
    if work.instance_id is None:
        return escalate.climb(work, NAME, "out_of_reach", "no instance is known to sit in the node", "NOT_FOUND")
    stopped = intent.stopped_before(work) or taken_away(work, NAME) or collecting(work)
    if stopped is not None:
        return stopped
    work = intent.commit(work, {})
    meant = work.attempt.intent
    return _act(work, meant) if meant else waiting("the intent was withdrawn")


def repair_is_late(work: Work, reason: str) -> Answer:
    """Climb when the instance does not come back: what hangs is no worse for being replaced."""
    return escalate.climb(work, NAME, "timed_out", f"it did not come back in time: {reason}", "TIMEOUT")


def _act(work: Work, meant: Intent) -> Answer:
    try:
        reply = work.restarter.restart(meant.repair_action, meant.instance_id, meant.token)
    except Transient as error:
        reply = Reply(ProviderFailure.AMBIGUOUS, str(error))
    if reply.ok:
        return _begun(work, reply)
    if reply.failure in OUT_OF_REACH:
        return escalate.climb(work, NAME, "out_of_reach", reply.reason, reply.failure.value)
    failure = reply.failure or ProviderFailure.PROVIDER_ERROR
    if not failure.retriable:
        now = work.tools.clock.now()
        draft = entry_builder.step(work.case, NAME, "refused", now, reason=reply.reason, failure=failure.value)
        return work.escalate(f"{failure.value}: {reply.reason}", draft)
    # It may be on its way all the same: a look decides, not this call.
    return waiting(f"{failure.value}: {reply.reason}")


def _begun(work: Work, reply: Reply) -> Answer:
    def revise(state: NodeState, now: datetime) -> Transition:
        _, attempt = live(state)
        if attempt.operation == reply.operation:
            return Transition(state)
        step = entry_builder.step(
            work.case, NAME, "begun", now, operation=reply.operation, new_instance=work.instance_id
        )
        return Transition(reached(with_attempt(state, operation=reply.operation), Phase.ACTED, now), (step,))

    work.commit(revise)
    return waiting("it has begun")


def _look(work: Work, meant: Intent) -> Answer:
    found = work.restarter.status(meant.repair_action, meant.instance_id, meant.token)
    if found.state is RestartState.DONE:
        return _back(work, meant, found)
    gone = taken_away(work, NAME)
    if gone is not None:
        return gone
    if found.state is RestartState.FAILED:
        return escalate.climb(work, NAME, "failed", found.reason, "PROVIDER_ERROR")
    if found.state is RestartState.ABSENT:
        return _act(work, meant)
    return waiting(found.reason or f"the {meant.repair_action.value} is running")


def _back(work: Work, meant: Intent, found: Restart) -> Answer:
    def finish(state: NodeState, now: datetime) -> Transition:
        step = entry_builder.step(
            work.case, NAME, "back", now, operation=found.operation, new_instance=meant.instance_id
        )
        state = with_attempt(state, operation=None, watched_since=now)
        decided = (
            _booted(work, state, found, now) if meant.repair_action is RepairAction.REBOOT_NODE else Transition(state)
        )
        state, draft = moved(decided.state, NodeStatus.VALIDATING, now, "device or node back")
        return Transition(state, (step, *decided.drafts, draft))

    return work.settle(Outcome.DONE, Phase.AWAITING, finish)


def _booted(work: Work, state: NodeState, found: Restart, now: datetime) -> Transition:
    """Begin the next boot of the instance, unless its own records told of it already."""
    sitting, meant = state.incarnation, work.attempt.intent
    if sitting is None or meant is None or (sitting.boot_id == found.boot_id and sitting.since > meant.at):
        return Transition(state)
    boot = replace(sitting, boot=sitting.boot + 1, boot_id=found.boot_id, since=now)
    ended = end_scopes(replace(state, incarnation=boot), REBOOT_ENDS, at=now, reason="reboot")
    return decide(ended.state, ended.changes, work.rules, now)
