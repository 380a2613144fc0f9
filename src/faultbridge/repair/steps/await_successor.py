"""The step AwaitSuccessor: claims a new instance of the node's group, so that it backs exactly one node."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta

from faultbridge.decide.case_moves import fault_drafts, resolve_case
from faultbridge.decide.fold.expire import end_all
from faultbridge.model.cases import ACCEPTED, Phase, Reason
from faultbridge.model.entries import Transition
from faultbridge.model.enums import ProviderFailure, RepairAction, Resolution
from faultbridge.model.errors import Misconfigured, Transient
from faultbridge.model.nodes import NodeState
from faultbridge.model.values import replace
from faultbridge.record.ports.compute import LaunchedInstance, SuccessorNotNeeded
from faultbridge.repair.attempt.step_context import (
    StepContext,
    StepOutcome,
    StepResult,
    live_attempt,
    stop_timers,
    waiting,
)
from faultbridge.repair.successor import launch
from faultbridge.repair.successor.launch import InstanceTaken, claim
from faultbridge.repair.successor.sources import ending_wait, page_for_successor, provide_successor

NAME = "await_successor"
SETTLE = timedelta(minutes=3)
"""How long nothing must require a successor: controllers start the evicted pods again in this time."""


def await_successor(context: StepContext) -> StepResult:
    """Claim the oldest free running instance as the successor of the node, or wait for such an instance.

    - If the group launches instances itself, an instance counts if it was launched after the intent to replace the
      node. Without such an intent, it counts if it was launched after the last known boot of the old instance.
    - If the group launches instances on demand and nothing requires one, the case is resolved without a successor after
      `SETTLE`.
    - Otherwise, an instance counts if it was launched for the case, or taken from the spares for the case. If the case
      has none, a spare is taken or a successor is launched, as the policy permits.
    """
    group = context.state.placement.group
    if group is None:
        raise Misconfigured(f"no group to find a successor in: node {context.state.key.stream}; set the node's group")
    try:
        return _await(context, group)
    except SuccessorNotNeeded as none:
        return _resolve_without_demand(context, str(none))
    except Transient as error:
        # Services that fail for hours must not keep the wait from an operator.
        page_for_successor(context, f"no successor yet in {group}: {error}")
        raise


def _await(context: StepContext, group: str) -> StepResult:
    claimed = _claim_candidate(context, group)
    if claimed is not None:
        return claimed
    provided, refusal = provide_successor(context)
    if provided.attempt.spare != context.attempt.spare:
        claimed = _claim_candidate(provided, group)
    if claimed is not None:
        return claimed
    reason = f"no successor yet in {group}" + (f": {refusal}" if refusal else "")
    page_for_successor(provided, reason)
    return waiting(reason)


def _claim_candidate(context: StepContext, group: str) -> StepResult | None:
    for candidate in _candidates(context, group):
        if not candidate.running or candidate.instance_id == context.instance_id:
            continue
        slot = context.state.placement.slot
        if slot is not None and candidate.slot not in {None, slot}:  # the permanent id of the provider for a node
            continue
        untagged = launch.tag_spare(context, context.launcher, (candidate,)) if context.launcher else None
        if untagged is not None:
            return waiting(f"the spare {candidate.instance_id} cannot be tagged: {untagged.reason}")
        try:
            return context.finish(StepOutcome.DONE, Phase.AWAITING, ending_wait(claim(context, candidate)))
        except InstanceTaken as taken:
            context.log("successor_skipped", str(taken), instance_id=candidate.instance_id)
            continue  # the next candidate may be free
    return None


def _resolve_without_demand(context: StepContext, reason: str) -> StepResult:
    """Resolve the case without a successor, once nothing has required one for `SETTLE`.

    The faults of the released instance end. The inventory retires the node, or attaches an instance that starts later.
    """
    if context.now < (context.attempt.since or context.now) + SETTLE:
        return waiting(reason)

    def resolve(state: NodeState, now: datetime) -> Transition:
        case, attempt = live_attempt(state)
        ended = end_all(state, at=now, reason="the instance was released")
        over = Transition(ended.state, fault_drafts(ended, context.rules))
        case = replace(case, attempt=stop_timers(attempt), because=Reason())
        return resolve_case(over, case, now, Resolution.RELEASED_NO_DEMAND, reason)

    context.commit(resolve)
    context.log("released_no_demand", reason, logging.INFO)
    return StepResult(StepOutcome.STOPPED, reason)


def on_timeout(context: StepContext, reason: str) -> StepResult:
    """Escalate the case after the deadline, because no instance backs the node."""
    old = context.attempt.intent.instance_id if context.attempt.intent else context.instance_id
    late = Reason(reason, ProviderFailure.TIMEOUT)
    draft = context.entry("timed_out", reason=reason, failure=late.failure, old_instance=old)
    return context.escalate_to_operator(late, draft)


def _candidates(context: StepContext, group: str) -> tuple[LaunchedInstance, ...]:
    launcher = context.launcher
    if launcher is not None:
        return launch.case_launches(launcher, launch.launch_request(context, group))
    return context.provider.candidates(group, _launched_after(context))


def _launched_after(context: StepContext) -> datetime:
    """Return when the provider accepted the release, else the time of the intent, else of the last boot."""
    intent, incarnation = context.attempt.intent, context.state.incarnation
    if intent is not None and intent.repair_action is RepairAction.REPLACE_NODE:
        return max(intent.at, context.case.marks.get(ACCEPTED, intent.at)).replace(microsecond=0)
    if incarnation is None:
        raise Misconfigured(f"no intent and no instance to date a successor by: node {context.state.key.stream}")
    return incarnation.since
