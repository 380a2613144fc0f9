"""Await: a new instance of the group takes the node of the one that was given up."""

from __future__ import annotations

from datetime import datetime

from faultbridge.domain.cases import Phase, RepairAction
from faultbridge.errors import Misconfigured
from faultbridge.pipeline import entry_builder
from faultbridge.ports import Candidate
from faultbridge.repair.attempt.contract import Answer, Outcome
from faultbridge.repair.attempt.step_context import Work, waiting
from faultbridge.repair.successor import launch
from faultbridge.repair.successor.claim import Taken, claim

NAME = "await_successor"


def await_successor(work: Work) -> Answer:
    """Claim the oldest unclaimed instance that the group launched after the intent, or wait for one."""
    group = work.state.placement.group
    if group is None:
        raise Misconfigured(f"{work.state.key.stream} has no group to find a successor in")
    for candidate in _candidates(work, group):
        if not candidate.running or candidate.instance_id == work.instance_id:
            continue
        try:
            return work.settle(Outcome.DONE, Phase.AWAITING, claim(work, candidate))
        except Taken:
            continue  # another node has it; the next one may be free
    refusal = launch.once_more(work)
    return waiting(f"no successor yet in {group}" + (f": {refusal}" if refusal else ""))


def _candidates(work: Work, group: str) -> tuple[Candidate, ...]:
    launcher = work.launcher
    if launcher is not None:
        return launcher.launched(launch.launch_request(work, group))
    return work.provider.candidates(group, _launched_after(work))


def _launched_after(work: Work) -> datetime:
    """Return when a successor may have been launched at the earliest: others may have done so before we noticed."""
    intent, sitting = work.attempt.intent, work.state.incarnation
    if intent is not None and intent.repair_action is RepairAction.REPLACE_NODE:
        return intent.at.replace(microsecond=0)
    if sitting is None:
        raise Misconfigured(f"{work.state.key.stream} has no intent to find a successor by")
    return sitting.since


def successor_is_late(work: Work, reason: str) -> Answer:
    """Hand over a node that nothing came for: the old instance is gone, so there is no way back."""
    old = work.attempt.intent.instance_id if work.attempt.intent else work.instance_id
    draft = entry_builder.step(
        work.case, NAME, "timed_out", work.tools.clock.now(), reason=reason, failure="TIMEOUT", old_instance=old
    )
    return work.escalate(f"TIMEOUT: {reason}", draft)
