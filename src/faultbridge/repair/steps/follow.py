"""Follow: where the provider's own automation repairs, wait for what it does; a provider that stalls is a person's.

Nothing is done to the node here. What ends the wait is another instance or another boot in the node, or the provider's
word that the node is well again; all of them come through ingest and the inventory.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.cases import EXTERNAL, Phase
from faultbridge.domain.catalog import Scope
from faultbridge.domain.edges import Actor, NodeStatus
from faultbridge.domain.nodes import NodeState
from faultbridge.domain.times import latest
from faultbridge.pipeline import entry_builder
from faultbridge.pipeline.decide.decide import decide
from faultbridge.pipeline.decide.provider_repair import FOLLOW
from faultbridge.pipeline.fold.expire import end_scopes
from faultbridge.ports import Presence
from faultbridge.repair.attempt.contract import Answer, Outcome
from faultbridge.repair.attempt.progress import live, moved, with_attempt
from faultbridge.repair.attempt.step_context import Work, waiting

NAME = FOLLOW


def follow(work: Work) -> Answer:
    """Go on once the provider has done something; until then wait for as long as there is news of the trouble."""
    done = _done(work)
    if done is not None:
        return _followed(work, done)
    _wait_for_news(work)
    return waiting("the provider has not brought the node back")


def provider_stalls(work: Work, reason: str) -> Answer:
    """Hand over a node that the provider leaves as it is."""
    now = work.tools.clock.now()
    draft = entry_builder.step(
        work.case, NAME, "stalled", now, reason=reason, failure="TIMEOUT", old_instance=work.instance_id
    )
    return work.escalate(f"TIMEOUT: the provider stalls: {reason}", draft)


def _done(work: Work) -> str | None:
    """Tell what the provider has done, or None."""
    state, since = work.state, work.attempt.since
    if state.status is NodeStatus.VALIDATING:
        return "another instance is in the node"
    if state.status is NodeStatus.PROVISIONING or since is None:
        return None
    if state.incarnation is not None and state.incarnation.since > since:
        return "the instance was booted again"
    if not any(condition.action.opens_case for condition in state.active()):
        return "nothing is wrong with the node any more"
    return None


def _followed(work: Work, what: str) -> Answer:
    def finish(state: NodeState, now: datetime) -> Transition:
        case, _ = live(state)
        step = entry_builder.step(case, NAME, "repaired", now, reason=what, new_instance=work.instance_id)
        state = replace(state, case=replace(case, marks={**case.marks, EXTERNAL: case.marks.get(EXTERNAL, now)}))
        if state.status is NodeStatus.VALIDATING:
            return Transition(state, (step,))
        state, draft = moved(state, NodeStatus.VALIDATING, now, what)
        return Transition(state, (step, draft))

    return work.settle(Outcome.DONE, Phase.AWAITING, finish)


def _wait_for_news(work: Work) -> None:
    """Give the provider its whole time again from the last that was heard of the trouble."""
    attempt, limit = work.attempt, work.rules.policy.limits.follow_deadline
    heard = latest(attempt.since, *(condition.last_at for condition in work.state.active()))
    if heard is None or attempt.deadline is None:
        return
    deadline = max(attempt.deadline, heard + limit)
    work.commit(lambda state, _: Transition(with_attempt(state, deadline=deadline)))


def taken_away(work: Work, step: str) -> Answer | None:
    """Settle a step by which the instance is gone that others terminated; None where it is there or nobody can tell."""
    if not is_gone(work):
        return None
    reason = why_gone(work)

    def finish(state: NodeState, now: datetime) -> Transition:
        case, _ = live(state)
        told = entry_builder.step(case, step, "gone", now, reason=reason, old_instance=work.instance_id)
        state = replace(state, case=replace(case, marks={**case.marks, EXTERNAL: now}))
        ended = end_scopes(state, Scope, at=now, reason=reason)
        decided = decide(ended.state, ended.changes, work.rules, now)
        state, draft = moved(decided.state, NodeStatus.PROVISIONING, now, reason)
        return Transition(state, (told, *decided.drafts, draft))

    # It is what an inventory finds, and may write; a step only finds it sooner.
    return work.settle(Outcome.GONE, Phase.AWAITING, finish, Actor.INVENTORY)


def is_gone(work: Work) -> bool:
    """Tell whether the instance in the node is gone; False where nobody can tell."""
    if work.instance_id is None or work.state.placement.group is None or work.rules.config.follows:
        return False
    return work.provider.probe(work.instance_id) is Presence.GONE


def why_gone(work: Work) -> str:
    """Say in the record that others did it."""
    return f"{EXTERNAL}: {work.instance_id} was taken away by others"
