"""Give up: the point of no return. The intent is committed first and names the instance; only then is it given up.

After the intent the step goes only forward. It never asks for the same thing again before a probe has shown that
nothing happened, and a late or repeated call can only hit an instance that is given up already.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.cases import Intent, Phase, WaitingFor
from faultbridge.domain.edges import NodeStatus
from faultbridge.domain.nodes import NodeState
from faultbridge.errors import Transient
from faultbridge.pipeline import entry_builder
from faultbridge.ports import CallResult as Reply
from faultbridge.ports import Presence, ProviderFailure
from faultbridge.repair.attempt.contract import Answer, Outcome
from faultbridge.repair.attempt.evidence import collecting
from faultbridge.repair.attempt.intent import commit, stopped_before
from faultbridge.repair.attempt.progress import moved
from faultbridge.repair.attempt.step_context import Work, waiting
from faultbridge.repair.steps.follow import taken_away
from faultbridge.repair.successor import capacity, launch

NAME = "release_instance"
UNCERTAIN = frozenset({ProviderFailure.AMBIGUOUS, ProviderFailure.TIMEOUT})


def release_instance(work: Work) -> Answer:
    """Give the instance up, once."""
    intent = work.attempt.intent
    if intent is not None:
        return _go_on(work, intent)
    return stopped_before(work) or taken_away(work, NAME) or collecting(work) or _begin(work)


def _begin(work: Work) -> Answer:
    if work.instance_id is None:
        return _refused(work, Reply(ProviderFailure.NOT_FOUND, "no instance is known to sit in the node"))
    if work.state.placement.group is None:
        return _refused(work, Reply(ProviderFailure.NOT_FOUND, "the node has no group that would fill it again"))
    launch.check(work)
    sought = capacity.seek(work, work.instance_id, work.state.placement.group)
    if sought.answer is not None:
        return sought.answer
    told = {"capacity_evidence": sought.evidence.value} | ({"spare": sought.spare} if sought.spare else {})
    work = commit(work, told, sought.spare)
    intent = work.attempt.intent
    return _act(work, intent) if intent else waiting("the intent was withdrawn")


def give_up_is_late(work: Work, reason: str) -> Answer:
    """Hand over what no probe could settle in time; without an intent nothing was given up, and it is tried again."""
    if work.attempt.intent is None:
        return work.retry_or_escalate(WaitingFor.WAIT, reason)
    draft = entry_builder.step(
        work.case, NAME, "inconclusive", work.tools.clock.now(), reason=reason, failure="AMBIGUOUS"
    )
    return work.escalate(f"AMBIGUOUS: nobody can tell whether the instance was given up: {reason}", draft)


def _act(work: Work, intent: Intent) -> Answer:
    try:
        reply = launch.still_missing(work) or work.provider.replace(intent.instance_id, intent.token)
    except Transient as error:
        reply = Reply(ProviderFailure.AMBIGUOUS, str(error))
    if reply.failure in {None, ProviderFailure.NOT_FOUND}:
        return _given_up(work, intent, reply)
    presence = work.provider.probe(intent.instance_id)
    if presence is Presence.GONE:
        return _given_up(work, intent, replace(reply, reason="a probe shows that it is gone"))
    if presence is Presence.UNKNOWN or reply.failure in UNCERTAIN:
        # It may still be on its way: the next probe decides, not this call.
        return waiting(f"{reply.failure.value if reply.failure else ''}: {reply.reason}")
    return _refused(work, reply)


def _go_on(work: Work, intent: Intent) -> Answer:
    presence = work.provider.probe(intent.instance_id)
    if presence is Presence.GONE:
        return _given_up(work, intent, Reply(reason="a probe shows that it is gone"))
    if presence is Presence.UNKNOWN:
        return waiting("the probe found nothing out")
    return _act(work, intent)


def _given_up(work: Work, intent: Intent, reply: Reply) -> Answer:
    def finish(state: NodeState, now: datetime) -> Transition:
        step = entry_builder.step(
            work.case,
            NAME,
            "released",
            now,
            reason=reply.reason,
            operation=reply.operation,
            old_instance=intent.instance_id,
        )
        state, draft = moved(state, NodeStatus.PROVISIONING, now, "old instance given up")
        return Transition(state, (step, draft))

    answer = work.settle(Outcome.DONE, Phase.ACTED, finish)
    capacity.there_is_some(work)
    return answer


def _refused(work: Work, reply: Reply) -> Answer:
    """Try again later, or hand over: the instance is alive, so nothing happened."""
    failure = reply.failure or ProviderFailure.PROVIDER_ERROR
    now, old = work.tools.clock.now(), work.instance_id
    draft = entry_builder.step(
        work.case, NAME, "refused", now, reason=reply.reason, failure=failure.value, old_instance=old
    )
    reason = f"{failure.value}: {reply.reason}"
    if not failure.retriable:
        return work.escalate(reason, draft)
    if failure is ProviderFailure.CAPACITY:
        return capacity.none_left(work, reply.reason)
    return work.retry_or_escalate(WaitingFor.WAIT, reason, draft)
