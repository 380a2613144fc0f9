"""Orders: what a person decides about one case, on the record with the caller's name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.cases import APPROVED, DENIED, Approval, Case, RepairAction, Resolution, WaitingFor
from faultbridge.domain.edges import Actor, CaseStatus
from faultbridge.domain.entries import Draft
from faultbridge.domain.nodes import NodeKey, NodeState
from faultbridge.errors import Rejected
from faultbridge.ledger.append import Append
from faultbridge.pipeline import entry_builder
from faultbridge.pipeline.decide.decide import due_at, move_case
from faultbridge.ports import Table
from faultbridge.rules.rulebook import Rulebook, rules_of
from faultbridge.storage import keys


@dataclass(frozen=True, slots=True)
class CaseOrder:
    """Who ordered it and why, in the person's own words."""

    operator: str | None = None
    reason: str = ""

    def note(
        self,
        word: str,
        at: datetime,
        *,
        case_id: str | None = None,
        facts: Mapping[str, object] | None = None,
        stage: str | None = None,
    ) -> Draft:
        """Draft the note of what was ordered in a word; with a `stage` it is the answer to a question."""
        return entry_builder.note(
            kind="approval" if stage else "operator",
            text=f"{word}{': ' if self.reason else ''}{self.reason}",
            at=at,
            case_id=case_id,
            facts={"order": word, **(facts or {})},
            operator=self.operator,
            stage=stage,
        )


@dataclass(frozen=True, slots=True)
class CaseOrders:
    """Takes the answers of people to cases that wait, and their orders to stop one."""

    table: Table
    append: Append
    rulebook: Rulebook

    def approve(self, case_id: str, order: CaseOrder, attempt: int | None = None) -> NodeState:
        """Let the attempt begin that was asked about; refused as `not_asked`, `too_late` or `answered` otherwise."""

        def revise(state: NodeState, case: Case, now: datetime) -> Transition:
            if _stands(case, attempt, granted=True):
                return Transition(state)
            question = _question(case, attempt, now)
            granted = replace(question, granted=True, operator=order.operator)
            waiting = replace(case, approval=granted, waiting_for=WaitingFor.BUDGET)
            state = replace(state, case=waiting)
            draft = _note(case, APPROVED, order, now, stage="over", attempt=question.attempt)
            return Transition(replace(state, due_at=due_at(state)), (draft,))

        return self._order(case_id, revise)

    def deny(self, case_id: str, order: CaseOrder, attempt: int | None = None) -> NodeState:
        """Refuse the attempt that was asked about: the case is the person's now. Errors as for `approve`."""

        def revise(state: NodeState, case: Case, now: datetime) -> Transition:
            if _stands(case, attempt, granted=False):
                return Transition(state)
            question = _question(case, attempt, now)
            reason = f"denied{': ' if order.reason else ''}{order.reason}"
            answered = replace(question, granted=False, operator=order.operator)
            draft = _note(case, DENIED, order, now, stage="over", attempt=question.attempt)
            settled = replace(state, case=replace(case, approval=answered))
            denied = replace(case, status=CaseStatus.ESCALATED, approval=answered, waiting_for=None, reason=reason)
            return _moved(Transition(settled, (draft,)), denied, now, reason)

        return self._order(case_id, revise)

    def cancel(self, case_id: str, order: CaseOrder) -> NodeState:
        """Give nothing up for this case any more; `past_intent` when something is being given up already.

        A node that still serves is left alone and its case ends. One that is kept off work is verified and returned.
        """

        def revise(state: NodeState, case: Case, now: datetime) -> Transition:
            if case.cancelled:
                return Transition(state)
            if case.attempt is not None and case.attempt.intent is not None:
                raise Rejected("past_intent", f"{case.id} has passed its intent and can only go forward")
            draft = _note(case, "cancelled", order, now)
            if case.status is CaseStatus.IN_PROGRESS:
                return Transition(replace(state, case=replace(case, cancelled=True)), (draft,))
            if case.status not in {CaseStatus.OPEN, CaseStatus.QUEUED}:
                raise Rejected("not_cancellable", f"{case.id} is {case.status.value}; a person has it already")
            if state.status is not None and state.status.in_service:
                ended = replace(case, status=CaseStatus.RESOLVED, waiting_for=None, cancelled=True, closed_at=now)
                ended = replace(ended, resolution=Resolution.CANCELLED, reason=order.reason)
                return _moved(Transition(state, (draft,)), ended, now, "cancelled")
            kept = replace(
                case, cancelled=True, repair_action=RepairAction.VERIFY, approval=None, waiting_for=WaitingFor.BUDGET
            )
            changed = replace(state, case=replace(kept, not_before=None))
            return Transition(replace(changed, due_at=due_at(changed)), (draft,))

        return self._order(case_id, revise)

    def _order(self, case_id: str, revise: Callable[[NodeState, Case, datetime], Transition]) -> NodeState:
        found = self.table.get(keys.case(case_id))
        if found is None:
            raise Rejected("unknown_case", f"there is no case {case_id}")
        key = NodeKey(str(found["cluster"]), str(found["node"]))

        def of_live(state: NodeState, now: datetime) -> Transition:
            case = state.live_case
            if case is None or case.id != case_id:
                raise Rejected("case_over", f"{case_id} has ended")
            return revise(state, case, now)

        config = rules_of(self.rulebook, key.cluster).config
        return self.append(key, of_live, actor=Actor.CLI, config=config).state


def _stands(case: Case, attempt: int | None, *, granted: bool) -> bool:
    """Whether the attempt was answered so before; the first answer stands, and another one is refused."""
    given = case.approval
    if given is None or given.granted is None or given.attempt != attempt:
        return False
    if given.granted is not granted:
        raise Rejected("answered", f"attempt {attempt} was {given.answer} already")
    return True


def _question(case: Case, attempt: int | None, now: datetime) -> Approval:
    question = case.asking
    if question is None or attempt not in {None, question.attempt}:
        which = f"attempt {attempt}" if attempt else "anything"
        raise Rejected("not_asked", f"{case.id} does not ask about {which}")
    if question.answer_by <= now:
        raise Rejected("too_late", f"{case.id} was to be answered by {question.answer_by:%Y-%m-%dT%H:%MZ}")
    return question


def _note(
    case: Case, word: str, order: CaseOrder, now: datetime, *, stage: str | None = None, attempt: int | None = None
) -> Draft:
    facts = {"rule": case.rule, "policy": case.policy} | ({"attempt": attempt} if attempt else {})
    return order.note(word, now, case_id=case.id, facts=facts, stage=stage)


def _moved(decided: Transition, case: Case, now: datetime, reason: str) -> Transition:
    done = move_case(decided, case, now, reason)
    return Transition(done.state, done.drafts)
