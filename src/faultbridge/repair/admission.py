"""Admission: the state changes when a queued case is admitted to repair, refused or only simulated."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from faultbridge.decide import entry_builder
from faultbridge.decide.admit import HOUR, WITH_SEVERAL_REASONS, Refused, recent_starts
from faultbridge.decide.case_moves import Rules, due_at, move_case
from faultbridge.decide.governing_rules import choose_repair_action
from faultbridge.model.cases import Approval, Attempt, Case, Phase, Reason
from faultbridge.model.cluster.config import Mode
from faultbridge.model.cluster.state import Control, Eviction
from faultbridge.model.entries import Transition
from faultbridge.model.enums import CaseStatus, NoteKind, RepairAction, Resolution, WaitingFor
from faultbridge.model.nodes import NodeState
from faultbridge.model.policy import Rule
from faultbridge.model.storage import keys
from faultbridge.model.storage.codec import dump
from faultbridge.model.storage.projections import first_loss
from faultbridge.model.storage.writes import Equals, Path, Update, Value
from faultbridge.model.times import to_text
from faultbridge.model.values import replace

START_GRACE = timedelta(minutes=2)
"""How long the execution of an admitted case may take to start before the sweep checks it."""

CAPACITY_CHECK_TIME = timedelta(minutes=5)
"""A group without capacity gets one replacement attempt in this time, which checks its capacity again."""

FORGET_DRY_AFTER = timedelta(hours=2)
"""A group without capacity counts as available again if no repair checked it for this long."""


class ReadyCase(Struct, frozen=True):
    """A queued case that may be admitted: its node is out of service and its next repair action is chosen.

    `governed_by` names the policy rules that apply to the repair.
    """

    state: NodeState
    case: Case
    repair_action: RepairAction
    governed_by: tuple[str, ...]
    reason: str = ""


class AdmittedBatch(Struct, frozen=True):
    """The nodes of one batch that were admitted; `full` if the other cases may not start now."""

    admitted: Sequence[NodeState] = ()
    full: bool = False


def admit_case(ready: ReadyCase, now: datetime) -> Transition:
    """Return the transition that starts a case's next attempt; no other code starts one."""
    number = ready.case.attempts + 1
    case = replace(
        ready.case,
        status=CaseStatus.IN_PROGRESS,
        repair_action=ready.repair_action,
        attempts=number,
        attempt=Attempt(number, Phase.ADMITTED, probe_at=now + START_GRACE),
        waiting_for=None,
        not_before=None,
        because=Reason(ready.reason),
        governed_by=ready.governed_by,
    )
    reason = f"admitted: {ready.reason}" if ready.reason else "admitted"
    return move_case(Transition(ready.state), case, now, reason)


def take_slots(control: Control, ready: Sequence[ReadyCase], now: datetime) -> Update:
    """Return the write that takes repair slots of the cluster for admitted cases."""
    holding = [one for one in ready if one.repair_action.needs_slot]
    taken: dict[Path, Value] = {("holders", one.case.id): to_text(now) for one in holding}
    if holding:
        starts = [*recent_starts(control, now), *(now for _ in holding)]
        taken["starts",] = [to_text(start) for start in starts]
    draining = {one.case.id: mode for one in ready if (mode := first_loss(one.state, one.case)) is not None}
    if draining:
        recent = {case: one for case, one in control.evictions.items() if one.at > now - HOUR}
        recent |= {case: Eviction(mode, now) for case, mode in draining.items()}
        taken["evictions",] = dump(recent)
    dry = _updated_dry_groups(control, holding, now)
    if dry != control.no_capacity_until:
        taken["no_capacity_until",] = {group: to_text(until) for group, until in dry.items()}
    return Update(
        keys.cluster_control(control.cluster),
        set=taken,
        add={"version": 1},
        when=Equals("version", control.version),
    )


def _updated_dry_groups(control: Control, holding: Sequence[ReadyCase], now: datetime) -> dict[str, datetime]:
    """Return until when each group without capacity waits; one that is checked now waits longer."""
    kept = {group: until for group, until in control.no_capacity_until.items() if until > now - FORGET_DRY_AFTER}
    checked = {one.state.placement.group for one in holding if one.repair_action is RepairAction.REPLACE_NODE}
    return {group: now + CAPACITY_CHECK_TIME if group in checked else until for group, until in kept.items()}


def record_refusal(state: NodeState, refusal: Refused, rule: Rule, now: datetime) -> Transition:
    """Record what a queued case waits for, if that changed, and request an approval that it needs."""
    case = state.live_case
    if case is None or not _is_queued(case, refusal.queued.case):
        return Transition(state)
    must_ask = refusal.waiting_for is WaitingFor.APPROVAL and case.pending_approval is None
    # An operator may have approved the repair after it was refused.
    action = refusal.queued.repair_action
    if must_ask and case.cancelled and action is not RepairAction.VERIFY:
        return Transition(state)  # it was canceled after it was refused: only its verification remains
    answered = must_ask and case.approves(action, case.attempts + 1)
    other_reason = refusal.waiting_for in WITH_SEVERAL_REASONS and case.reason != refusal.reason
    if (case.waiting_for is refusal.waiting_for and not must_ask and not other_reason) or answered:
        return Transition(state)
    draft = entry_builder.note(
        kind=NoteKind.REFUSED,
        text=refusal.reason,
        at=now,
        case_id=case.id,
        facts={"waiting_for": refusal.waiting_for.value, "rule": refusal.queued.rule, "policy": case.policy},
    )
    since = None if refusal.has_capacity and not case.wait_paged else case.capacity_since
    since = (since or now) if refusal.waiting_for is WaitingFor.CAPACITY else since
    waiting = replace(case, waiting_for=refusal.waiting_for, because=Reason(refusal.reason), capacity_since=since)
    if must_ask:
        answer_by, asking = now + rule.approval_deadline, refusal.queued.rule
        return ask_operator(replace(state, case=waiting), action, refusal.reason, now, answer_by, rule=asking)
    return Transition(replace(state, case=waiting), (draft,))


def ask_operator(
    state: NodeState,
    repair_action: RepairAction,
    reason: str,
    now: datetime,
    answer_by: datetime,
    *,
    by_rule: bool = True,
    rule: str | None = None,
) -> Transition:
    """Request an operator's approval of this repair action for the next attempt of a queued case.

    - `answer_by`: the deadline for the operator's answer.
    - `by_rule`: False if missing evidence of EC2 capacity, and no policy rule, requires the approval.
    - `rule`: the name of the policy rule that requires the approval; None means the rule of the case. The rule is added
      to the rules that govern the case, so that it applies to later attempts even if its fault has ended.

    For a canceled case, only a verification is requested, because its next attempt does nothing else.
    """
    case = state.live_case
    if case is None or (case.cancelled and repair_action is not RepairAction.VERIFY):
        return Transition(state)
    approval = Approval(case.attempts + 1, repair_action, now, answer_by, by_rule=by_rule)
    incarnation = state.incarnation
    facts = {
        "attempt": approval.attempt,
        "repair_action": repair_action.value,
        "answer_by": to_text(answer_by),
        "instance_id": incarnation.instance_id if incarnation else None,
        "rule": rule or case.rule,
        "policy": case.policy,
    }
    draft = entry_builder.note(kind=NoteKind.APPROVAL, text=reason, at=now, case_id=case.id, facts=facts, stage="begun")
    governed_by = tuple(dict.fromkeys((*case.governed_by, *([rule] if rule else ()))))
    state = replace(state, case=replace(case, approval=approval, governed_by=governed_by))
    return Transition(replace(state, due_at=due_at(state, now)), (draft,))


def escalate_queued(state: NodeState, case_id: str, reason: str, now: datetime) -> Transition:
    """Escalate a case to an operator if it is still queued; otherwise, the node is unchanged."""
    case = state.live_case
    if case is None or not _is_queued(case, case_id):
        return Transition(state)
    escalated = replace(case, status=CaseStatus.ESCALATED, waiting_for=None, because=Reason(reason))
    return move_case(Transition(state), escalated, now, reason)


def resolve_dry_run(
    state: NodeState, case_id: str, repair_action: RepairAction | None, reason: str, now: datetime
) -> Transition:
    """Resolve a queued case of a dry run, with a note about the repair action that was not started."""
    case = state.live_case
    if case is None or not _is_queued(case, case_id):
        return Transition(state)
    incarnation = state.incarnation
    text = f"would have started {repair_action.value}" if repair_action else "would have escalated to an operator"
    facts = {
        "isolate": case.isolate,
        "repair_action": repair_action.value if repair_action else None,
        "instance_id": incarnation.instance_id if incarnation else None,
        "rule": case.rule,
        "policy": case.policy,
    }
    draft = entry_builder.note(
        kind=NoteKind.WOULD_HAVE_DONE,
        text=f"{text}{': ' if reason else ''}{reason}",
        at=now,
        case_id=case.id,
        facts=facts,
    )
    resolved = replace(case, status=CaseStatus.RESOLVED, resolution=Resolution.DRY_RUN, waiting_for=None, closed_at=now)
    return move_case(Transition(state, (draft,)), resolved, now, "dry run")


def apply_dry_run(state: NodeState, case_id: str, rules: Rules, now: datetime) -> Transition:
    """Resolve, keep or escalate a queued case whose repair a dry run suppresses.

    - If the node is in service, the case is resolved.
    - If the node is out of service and the cluster is in mode `dry_run`, the case stays queued.
    - If the node is out of service and only the policy rule of the case is a dry run, a case that only verifies the
      node stays queued. Any other case is escalated to an operator.

    A node that is out of service keeps its case, because nothing would return the node to service without a case.
    """
    case = state.live_case
    if case is None or not _is_queued(case, case_id):
        return Transition(state)
    if state.status is not None and state.status.in_service:
        choice = choose_repair_action(state, case, rules.policy)
        return resolve_dry_run(state, case_id, choice.repair_action, choice.reason, now)
    if rules.config.mode is Mode.DRY_RUN or case.repair_action is RepairAction.VERIFY:
        return Transition(state)
    return escalate_queued(state, case_id, f"rule {case.rule} only reports, and the node is out of service", now)


def _is_queued(case: Case, case_id: str) -> bool:
    return case.id == case_id and case.status is CaseStatus.QUEUED
