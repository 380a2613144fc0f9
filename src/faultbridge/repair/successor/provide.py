"""Provides a successor if the old instance of a node is gone and the case has no successor.

This happens if another controller terminated the old instance, or if the successor was terminated before it was
claimed. No instance is released, so no evidence of capacity is required: a launch shows whether there is capacity.
"""

from __future__ import annotations

from datetime import datetime

from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.cluster.capacity_sources import CapacitySource
from faultbridge.domain.nodes import NodeState
from faultbridge.errors import Transient
from faultbridge.pipeline import entry_builder
from faultbridge.ports import CallResult, Launcher, ProviderFailure
from faultbridge.repair.attempt.progress import live_attempt, update_attempt
from faultbridge.repair.attempt.step_context import StepContext
from faultbridge.repair.successor import capacity
from faultbridge.repair.successor.launch import SAME_TOKEN, free_launches, launch_request, types_to_launch
from faultbridge.repair.successor.sources import ask_spare_pool


def provide_successor(context: StepContext) -> tuple[StepContext, str]:
    """Take a ready spare or launch a successor, unless the case already has an instance.

    If the policy lists the spare pool first, a spare is taken before a launch. If the policy lists it after another
    source, a spare is taken only after a launch was refused. Returns the context after these changes, and why the
    launch failed, or ''.
    """
    launcher, group = context.launcher, context.state.placement.group
    if launcher is None or group is None or free_launches(context, launcher, launch_request(context, group)):
        return context, ""
    sources = context.rules.policy.capacity
    is_first = sources[:1] == (CapacitySource.SPARE_POOL,)
    taken = _take_spare(context, group) if is_first else None
    if taken is not None:
        return taken, ""
    context, answer = _launch(context, launcher, group)
    if answer.ok or answer.failure in SAME_TOKEN or is_first or CapacitySource.SPARE_POOL not in sources:
        return context, answer.reason
    taken = _take_spare(context, group)
    return (context, answer.reason) if taken is None else (taken, "")


def _take_spare(context: StepContext, group: str) -> StepContext | None:
    old = context.instance_id
    if old is None:
        return None
    found = capacity.CapacityCheck((ask_spare_pool(context, old, group),))
    spare = found.spare
    if spare is None:
        return None

    def revise(state: NodeState, now: datetime) -> Transition:
        case, _ = live_attempt(state)
        entry = entry_builder.step(
            case,
            capacity.NAME,
            "spare_taken",
            now,
            reason=found.text,
            old_instance=old,
            new_instance=spare,
            facts=found.facts,
        )
        return Transition(update_attempt(state, spare=spare), (entry,))

    context.log("spare_taken", "the old instance is gone and no successor runs", instance_id=spare)
    return context.commit(revise)


def _launch(context: StepContext, launcher: Launcher, group: str) -> tuple[StepContext, CallResult]:
    if context.attempt.launch_token is None:
        token, types = context.case.execution, context.attempt.instance_types or types_to_launch(context)
        context = context.commit(
            lambda state, _: Transition(update_attempt(state, launch_token=token, instance_types=types))
        )
    try:
        answer = launcher.launch(launch_request(context, group))
    except Transient as error:
        answer = CallResult(ProviderFailure.AMBIGUOUS, str(error))
    if not answer.ok:
        context.log("successor_launch_failed", answer.reason, failure=answer.failure)
    if not answer.ok and answer.failure not in SAME_TOKEN:
        context = context.commit(_use_next_token)
    return context, answer


def _use_next_token(state: NodeState, now: datetime) -> Transition:  # noqa: ARG001 - the signature of a change
    _, attempt = live_attempt(state)
    return Transition(update_attempt(state, launches=attempt.launches + 1))
