"""Operator orders about a case: approve or deny its next repair attempt, acknowledge it, or cancel it.

An order under a request key of its client is executed once, however often it is sent.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from msgspec import Struct

from faultbridge.decide import entry_builder
from faultbridge.decide.case_moves import Rules, drop_approval, due_at, fault_drafts, move_case, resolve_case
from faultbridge.decide.fold.expire import end_orders
from faultbridge.model.canonical_json import canonical_json
from faultbridge.model.cases import ACKNOWLEDGED, APPROVED, DENIED, Approval, Case, Reason
from faultbridge.model.entries import Draft, Transition
from faultbridge.model.enums import Actor, CaseStatus, NoteKind, RepairAction, Resolution, WaitingFor
from faultbridge.model.errors import Rejected, UnknownName
from faultbridge.model.nodes import NodeKey, NodeState
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.writes import Absent, Item, Put
from faultbridge.model.times import to_milliseconds, to_text
from faultbridge.model.values import replace
from faultbridge.record.append import Append
from faultbridge.record.ports.table import Table
from faultbridge.record.rulebook import Rulebook, rules_of

KEPT = timedelta(days=7)
"""How long an executed order is recorded under its key."""


class RequestKey(Struct, frozen=True):
    """The key of a request, which belongs to one person, and the digest of what the request orders."""

    token: str
    digest: str

    def is_executed(self, table: Table) -> bool:
        """Return whether the order was executed; raises Rejected `key_reused` if the key named another order."""
        found = table.get(keys.order(self.token))
        if found is not None and found["digest"] != self.digest:
            raise Rejected("key_reused", "the key was used for another order; give each order a key of its own")
        return found is not None

    def executed(self, now: datetime) -> Put:
        """Return the write that records the order as executed; a concurrent execution makes it a conflict."""
        expires_at = to_milliseconds(now + KEPT) // 1000
        row: Item = {"digest": self.digest, "expires_at": expires_at}
        return Put(items.item(keys.order(self.token), now, row), when=Absent())


def request_key(person: str, key: str, order: object) -> RequestKey:
    """Return the request key for an order (plain JSON) that a person gave under a key."""
    token = hashlib.sha256(f"{person}\n{key}".encode()).hexdigest()
    return RequestKey(token, hashlib.sha256(canonical_json(order).encode()).hexdigest())


Revise = Callable[[NodeState, datetime], Transition]


def once(table: Table, request: RequestKey | None, revise: Revise) -> Revise:
    """Return a function that computes the transition of an order unless the order was executed under its key.

    The transition records the key in its own transaction. A transition without entries changes nothing, so its key is
    not recorded.
    """
    if request is None:
        return revise

    def revised(state: NodeState, now: datetime) -> Transition:
        if request.is_executed(table):
            return Transition(state)
        transition = revise(state, now)
        if not transition.drafts:
            return transition
        return replace(transition, writes=(*transition.writes, request.executed(now)))

    return revised


def withdraw_orders(transition: Transition, rules: Rules, now: datetime) -> Transition:
    """End the conditions that operator orders opened on a node, and add their entries."""
    ended = end_orders(transition.state, at=now)
    return replace(transition, state=ended.state, drafts=(*transition.drafts, *fault_drafts(ended, rules)))


class OperatorOrder(Struct, frozen=True):
    """The operator who gave an order, and the reason that the operator stated.

    With `request`, the order is executed at most once under this key of its client.
    """

    operator: str | None = None
    reason: str = ""
    request: RequestKey | None = None

    @property
    def person(self) -> str:
        """Return the operator's name, or `unknown`."""
        return self.operator or "unknown"

    @property
    def text(self) -> str:
        """Return the operator's reason, or `no reason given`."""
        return self.reason or "no reason given"

    def note(
        self,
        verb: str,
        at: datetime,
        *,
        case_id: str | None = None,
        facts: Mapping[str, object] | None = None,
        stage: str | None = None,
    ) -> Draft:
        """Return the note that records the order; the stage `over` answers a request for approval."""
        return entry_builder.note(
            kind=NoteKind.APPROVAL if stage else NoteKind.OPERATOR,
            text=f"{verb}{': ' if self.reason else ''}{self.reason}",
            at=at,
            case_id=case_id,
            facts={"order": verb, "reason": self.reason, **(facts or {})},
            operator=self.operator,
            stage=stage,
        )


class CaseOrders(Struct, frozen=True):
    """Accepts operator orders about cases; they raise `unknown_case`, or `case_over` after the end."""

    table: Table
    append: Append
    rulebook: Rulebook

    def approve(
        self, case_id: str, order: OperatorOrder, attempt: int | None = None, action: RepairAction | None = None
    ) -> NodeState:
        """Approve the repair that waits for approval, and return the state of its node.

        With `attempt` or `action`, only a request for this attempt or this repair action is approved. Raises Rejected:

        - `not_asked`: no such approval is requested.
        - `too_late`: the deadline of the request has passed.
        - `answered`: `attempt` is given, and its request was already denied. If it was already approved, nothing
          changes.
        """

        def revise(state: NodeState, case: Case, now: datetime) -> Transition:
            if _already_answered(case, attempt, action, granted=True):
                return Transition(state)
            approval = _open_approval(case, attempt, action, now)
            granted = replace(approval, granted=True, operator=order.operator)
            reason = f"{approval.repair_action.value} is approved and waits for admission"
            waiting = replace(case, approval=granted, waiting_for=WaitingFor.ADMISSION, because=Reason(reason))
            state = replace(state, case=waiting)
            draft = _note(case, APPROVED, order, now, answered=approval)
            return Transition(replace(state, due_at=due_at(state, now)), (draft,))

        return self._order(case_id, order, revise)

    def deny(
        self, case_id: str, order: OperatorOrder, attempt: int | None = None, action: RepairAction | None = None
    ) -> NodeState:
        """Deny the repair that waits for approval, and escalate its case; raises like `approve`."""

        def revise(state: NodeState, case: Case, now: datetime) -> Transition:
            if _already_answered(case, attempt, action, granted=False):
                return Transition(state)
            approval = _open_approval(case, attempt, action, now)
            reason = Reason(order.reason, lead=DENIED) if order.reason else Reason(DENIED)
            answered = replace(approval, granted=False, operator=order.operator)
            draft = _note(case, DENIED, order, now, answered=approval)
            state = replace(state, case=replace(case, approval=answered))
            denied = replace(case, status=CaseStatus.ESCALATED, approval=answered, waiting_for=None, because=reason)
            return move_case(Transition(state, (draft,)), denied, now, reason)

        return self._order(case_id, order, revise)

    def acknowledge(self, case_id: str, order: OperatorOrder) -> NodeState:
        """Make the operator the owner of a case, and repeat no urgent page about it for the policy's time.

        The order changes no repair. Returns the state of the node.
        """

        def revise(state: NodeState, case: Case, now: datetime) -> Transition:
            until = now + rules_of(self.rulebook, state.key.cluster).policy.limits.acknowledged_for
            owned = replace(case, owner=order.person, owner_note=order.reason, acknowledged_until=until)
            facts = {"order": ACKNOWLEDGED, "reason": order.reason, "until": to_text(until)}
            text = f"{ACKNOWLEDGED}{': ' if order.reason else ''}{order.reason}"
            note = entry_builder.note(
                kind=NoteKind.OPERATOR,
                text=text,
                at=now,
                case_id=case.id,
                facts=facts,
                operator=order.operator,
                stage="begun",
            )
            return Transition(replace(state, case=owned), (note,))

        return self._order(case_id, order, revise)

    def cancel(self, case_id: str, order: OperatorOrder) -> NodeState:
        """Cancel a case, so that no instance is released for it; returns the state of its node.

        - A running repair stops before its intent, the point of no return. A running verification continues.
        - Without a running attempt, the case of a node in service ends at once. A node out of service is verified and
          then returned to service.
        - Earlier orders to replace or quarantine the node are withdrawn.

        Raises Rejected `past_intent` after the intent, and `not_cancellable` if the case is escalated or absorbed.
        """

        def revise(state: NodeState, case: Case, now: datetime) -> Transition:
            if case.cancelled:
                return Transition(state)
            if case.attempt is not None and case.attempt.intent is not None:
                raise Rejected("past_intent", f"case is past its intent: {case.id}; wait until its attempt ends")
            rules = rules_of(self.rulebook, state.key.cluster)
            noted = withdraw_orders(Transition(state, (_note(case, "cancelled", order, now),)), rules, now)
            if case.status is CaseStatus.IN_PROGRESS:
                return replace(noted, state=replace(noted.state, case=replace(case, cancelled=True)))
            if case.status not in {CaseStatus.OPEN, CaseStatus.QUEUED}:
                text = f"case cannot be canceled in status {case.status.value}: {case.id}; an operator handles it"
                raise Rejected("not_cancellable", text)
            if state.status is not None and state.status.in_service:
                ended = replace(case, cancelled=True, because=Reason(order.reason))
                moved = resolve_case(noted, ended, now, Resolution.CANCELLED, "canceled")
                # Only a tick may set the status `healthy`, so the node is due at once.
                return replace(moved, state=replace(moved.state, due_at=now))
            return _queue_verification(noted, case, now)

        return self._order(case_id, order, revise)

    def _order(
        self, case_id: str, order: OperatorOrder, revise: Callable[[NodeState, Case, datetime], Transition]
    ) -> NodeState:
        found = self.table.get(keys.case(case_id))
        if found is None:
            raise UnknownName("case", case_id)
        key = NodeKey(str(found["cluster"]), str(found["node"]))

        def revise_live(state: NodeState, now: datetime) -> Transition:
            case = state.live_case
            if case is None or case.id != case_id:
                raise Rejected("case_over", f"case has ended: {case_id}")
            return revise(state, case, now)

        return self.append(key, once(self.table, order.request, revise_live), actor=Actor.CLI).state


def _queue_verification(transition: Transition, case: Case, now: datetime) -> Transition:
    unapproved, over = drop_approval(case, now, "Approval no longer required: the case was canceled.")
    queued = replace(
        unapproved,
        status=CaseStatus.QUEUED,
        cancelled=True,
        repair_action=RepairAction.VERIFY,
        waiting_for=WaitingFor.ADMISSION,
        not_before=None,
    )
    state, drafts = transition.state, (*transition.drafts, *over)
    if case.status is not CaseStatus.QUEUED:
        return move_case(Transition(state, drafts), queued, now, "canceled")
    state = replace(state, case=queued)
    return Transition(replace(state, due_at=due_at(state, now)), drafts)


def _already_answered(case: Case, attempt: int | None, action: RepairAction | None, *, granted: bool) -> bool:
    given = case.approval
    if given is None or given.granted is None or given.attempt != attempt or not _is_about(given, attempt, action):
        return False
    if given.granted is not granted:
        raise Rejected("answered", f"attempt is already {given.answer}: {attempt}")
    return True


def _is_about(approval: Approval, attempt: int | None, action: RepairAction | None) -> bool:
    return attempt in {None, approval.attempt} and action in {None, approval.repair_action}


def _open_approval(case: Case, attempt: int | None, action: RepairAction | None, now: datetime) -> Approval:
    approval = case.pending_approval
    if approval is None or not _is_about(approval, attempt, action):
        named = f"attempt {attempt} of {case.id}" if attempt else case.id
        which = f"{action.value}, {named}" if action else named
        raise Rejected("not_asked", f"no approval is requested: {which}; run 'faultbridge case show {case.id}'")
    if approval.answer_by <= now:
        raise Rejected("too_late", f"the approval was due by {approval.answer_by:%Y-%m-%dT%H:%MZ}: {case.id}")
    return approval


def _note(case: Case, verb: str, order: OperatorOrder, now: datetime, *, answered: Approval | None = None) -> Draft:
    facts: dict[str, object] = {"rule": case.rule, "policy": case.policy}
    if answered is not None:
        facts |= {"attempt": answered.attempt, "repair_action": answered.repair_action.value}
    return order.note(verb, now, case_id=case.id, facts=facts, stage="over" if answered else None)
