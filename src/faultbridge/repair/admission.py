"""Admission: what a node and its cluster's slots become when a case is admitted, refused or only talked about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.cases import Approval, Attempt, Case, Phase, RepairAction, Resolution, WaitingFor
from faultbridge.domain.clusters import Control
from faultbridge.domain.edges import CaseStatus
from faultbridge.domain.nodes import NodeState
from faultbridge.domain.policy import Rule
from faultbridge.domain.times import to_text
from faultbridge.pipeline import entry_builder
from faultbridge.pipeline.decide.admit import Refused, recent
from faultbridge.pipeline.decide.decide import due_at, move_case
from faultbridge.storage import keys
from faultbridge.storage.writes import Equals, Path, Update, Value

START_GRACE = timedelta(minutes=2)
"""How long an admitted case may go without a sign of its execution before the sweep looks after it."""

LOOKED_AT = timedelta(minutes=5)
FORGOTTEN = timedelta(hours=2)
"""A group without capacity is looked at by one repair at a time; nothing heard of it for so long, it counts as good."""


@dataclass(frozen=True, slots=True)
class Ready:
    """A case whose node is out of service, and the repair action at which its next attempt begins."""

    state: NodeState
    case: Case
    repair_action: RepairAction
    reason: str = ""


def admitted(ready: Ready, now: datetime) -> Transition:
    """Move a case into its next attempt; the only move by which an attempt begins."""
    number = ready.case.attempts + 1
    case = replace(
        ready.case,
        status=CaseStatus.IN_PROGRESS,
        repair_action=ready.repair_action,
        attempts=number,
        attempt=Attempt(number, Phase.ADMITTED, probe_at=now + START_GRACE),
        waiting_for=None,
        not_before=None,
        reason=ready.reason,
    )
    reason = f"admitted: {ready.reason}" if ready.reason else "admitted"
    moved = move_case(Transition(ready.state), case, now, reason)
    return Transition(moved.state, moved.drafts)


def take_slots(control: Control, ready: Sequence[Ready], now: datetime) -> Update:
    """Write the holders of slots and the times of their starts, if nobody changed the slots meanwhile."""
    holding = [one for one in ready if one.repair_action.needs_slot]
    taken: dict[Path, Value] = {("holders", one.case.id): to_text(now) for one in holding}
    if holding:
        starts = [*recent(control, now), *(now for _ in holding)]
        taken["starts",] = [to_text(start) for start in starts]
    dry = _looked_again(control, holding, now)
    if dry != control.dry:
        taken["dry",] = {group: to_text(until) for group, until in dry.items()}
    return Update(
        keys.cluster_control(control.cluster),
        set=taken,
        add={"version": 1},
        when=Equals("version", control.version),
    )


def _looked_again(control: Control, holding: Sequence[Ready], now: datetime) -> dict[str, datetime]:
    """Leave the groups alone that a repair now looks at again, and forget those that nobody looked at for long."""
    kept = {group: until for group, until in control.dry.items() if until > now - FORGOTTEN}
    groups = {one.state.placement.group for one in holding if one.repair_action is RepairAction.REPLACE_NODE}
    return {group: now + LOOKED_AT if group in groups else until for group, until in kept.items()}


def refused(state: NodeState, refusal: Refused, rule: Rule, now: datetime) -> Transition:
    """Note what a case waits for, where that is something else than before; for an approval a person is asked."""
    case = state.live_case
    if case is None or not _waits(case, refusal.queued.case) or case.waiting_for is refusal.waiting_for:
        return Transition(state)
    draft = entry_builder.note(
        kind="refused",
        text=refusal.reason,
        at=now,
        case_id=case.id,
        facts={"waiting_for": refusal.waiting_for.value, "rule": case.rule, "policy": case.policy},
    )
    waiting = replace(case, waiting_for=refusal.waiting_for, reason=refusal.reason)
    if refusal.waiting_for is WaitingFor.APPROVAL and case.asking is None:
        return asked(replace(state, case=waiting), refusal.reason, now, now + rule.approval_deadline)
    return Transition(replace(state, case=waiting), (draft,))


def asked(state: NodeState, reason: str, now: datetime, answer_by: datetime) -> Transition:
    """Ask a person about the next attempt of a waiting case."""
    case = state.live_case
    if case is None:
        return Transition(state)
    question = Approval(case.attempts + 1, now, answer_by)
    sitting = state.incarnation
    facts = {
        "attempt": question.attempt,
        "repair_action": case.repair_action.value,
        "answer_by": to_text(answer_by),
        "instance_id": sitting.instance_id if sitting else None,
        "rule": case.rule,
        "policy": case.policy,
    }
    draft = entry_builder.note(kind="approval", text=reason, at=now, case_id=case.id, facts=facts, stage="begun")
    state = replace(state, case=replace(case, approval=question))
    return Transition(replace(state, due_at=due_at(state)), (draft,))


def handed_over(state: NodeState, case_id: str, reason: str, now: datetime) -> Transition:
    """Give a waiting case to a person."""
    case = state.live_case
    if case is None or not _waits(case, case_id):
        return Transition(state)
    handed = replace(case, status=CaseStatus.ESCALATED, waiting_for=None, reason=reason)
    moved = move_case(Transition(state), handed, now, reason)
    return Transition(moved.state, moved.drafts)


def dry_run(
    state: NodeState, case_id: str, repair_action: RepairAction | None, reason: str, now: datetime
) -> Transition:
    """End a case with a note of what would have been done about it."""
    case = state.live_case
    if case is None or not _waits(case, case_id):
        return Transition(state)
    sitting = state.incarnation
    what = (
        f"would have begun repair action {repair_action.value}" if repair_action else "would have waited for a person"
    )
    facts = {
        "isolate": case.isolate,
        "repair_action": repair_action.value if repair_action else None,
        "instance_id": sitting.instance_id if sitting else None,
        "rule": case.rule,
        "policy": case.policy,
    }
    draft = entry_builder.note(
        kind="would_have_done",
        text=f"{what}{': ' if reason else ''}{reason}",
        at=now,
        case_id=case.id,
        facts=facts,
    )
    resolved = replace(case, status=CaseStatus.RESOLVED, resolution=Resolution.DRY_RUN, waiting_for=None, closed_at=now)
    moved = move_case(Transition(state, (draft,)), resolved, now, "dry run")
    return Transition(moved.state, moved.drafts)


def _waits(case: Case, case_id: str) -> bool:
    return case.id == case_id and case.status is CaseStatus.QUEUED
