"""Node orders: what a person orders about a node becomes a fault that a person told, and is treated like any other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.cases import Case, RepairAction, Resolution, WaitingFor
from faultbridge.domain.edges import Actor, CaseStatus, NodeStatus
from faultbridge.domain.faults import NODE_COMPONENT, Fault
from faultbridge.domain.nodes import NodeKey, NodeState
from faultbridge.errors import Rejected
from faultbridge.ledger.append import Append
from faultbridge.pipeline import entry_builder
from faultbridge.pipeline.decide.decide import move_case
from faultbridge.pipeline.decide.open_case import Rules
from faultbridge.pipeline.fold.changes import Arrival
from faultbridge.pipeline.observe import observe
from faultbridge.repair.case_orders import CaseOrder
from faultbridge.rules.rulebook import Rulebook, rules_of

SOURCE = "operator"
REPLACE, QUARANTINE = "operator.replace", "operator.quarantine"
UNDER_WAY = frozenset({NodeStatus.REPLACING, NodeStatus.PROVISIONING, NodeStatus.RETIRED})


@dataclass(frozen=True, slots=True)
class NodeOrders:
    """Takes what people order about nodes; refused where Faultbridge does not act on the cluster."""

    append: Append
    rulebook: Rulebook

    def replace(self, key: NodeKey, order: CaseOrder) -> NodeState:
        """Have a node replaced, within all that bounds repairs; a case that a person has goes back to the machine."""

        def revise(state: NodeState, rules: Rules, now: datetime) -> Transition:
            if state.status in UNDER_WAY:
                raise Rejected("not_replaceable", f"{key.node} is {state.status}; no instance of it can be given up")
            told = self._tell(state, REPLACE, order, rules, now)
            return _handed_back(told, RepairAction.REPLACE_NODE, now, "an operator ordered a replacement")

        return self._order(key, revise)

    def quarantine(self, key: NodeKey, order: CaseOrder) -> NodeState:
        """Keep work off a node until a person returns it or has it replaced."""

        def revise(state: NodeState, rules: Rules, now: datetime) -> Transition:
            if state.status is None or not state.status.in_service:
                raise Rejected("out_of_service", f"{key.node} is {state.status} and serves nobody")
            told = self._tell(state, QUARANTINE, order, rules, now)
            case = told.state.live_case
            if case is None or case.isolate:
                return told
            return replace(told, state=replace(told.state, case=replace(case, isolate=True)))

        return self._order(key, revise)

    def give_back(self, key: NodeKey, order: CaseOrder) -> NodeState:
        """Take a case back from a person who mended its node: it is verified, and serves again."""

        def revise(state: NodeState, _: Rules, now: datetime) -> Transition:
            case = state.live_case
            if case is None or case.status is not CaseStatus.ESCALATED:
                raise Rejected("not_with_a_person", f"no case of {key.node} waits for a person who has it")
            noted = Transition(state, (order.note("return", now, case_id=case.id),))
            if state.status is not None and state.status.in_service:
                ended = replace(case, status=CaseStatus.RESOLVED, resolution=Resolution.BY_OPERATOR, closed_at=now)
                return _moved(noted, ended, now, "returned by an operator")
            return _handed_back(noted, RepairAction.VERIFY, now, "returned by an operator")

        return self._order(key, revise)

    def _tell(self, state: NodeState, code: str, order: CaseOrder, rules: Rules, now: datetime) -> Transition:
        """Let the person's word be a fault, and the person's name stand beside it."""
        text = order.reason or "ordered by an operator"
        arrival = Arrival(Fault(SOURCE, code, NODE_COMPONENT, text), now, "")
        catalog = self.rulebook.catalog()
        told = observe(state, [arrival], rebooted=False, rules=rules, catalog=catalog, now=now)
        case = told.state.live_case
        note = order.note(code.removeprefix("operator."), now, case_id=case.id if case else None)
        return Transition(told.state, (*told.drafts, note))

    def _order(self, key: NodeKey, revise: Callable[[NodeState, Rules, datetime], Transition]) -> NodeState:
        rules = rules_of(self.rulebook, key.cluster)
        if not rules.config.acts:
            raise Rejected("not_acting", f"Faultbridge repairs nothing in {key.cluster}: see cluster set --mode")

        def known(state: NodeState, now: datetime) -> Transition:
            if not state.registered:
                raise Rejected("unknown_node", f"{key.stream} is not registered")
            return revise(state, rules, now)

        return self.append(key, known, actor=Actor.CLI, config=rules.config).state


def _handed_back(revision: Transition, repair_action: RepairAction, now: datetime, reason: str) -> Transition:
    """Queue a case that a person had, with all its attempts before it; the node is out of service as it was."""
    state, case = revision.state, revision.state.live_case
    if case is None or case.status is not CaseStatus.ESCALATED:
        return revision
    if state.status is NodeStatus.FAILED:
        draft = entry_builder.status_change(state, NodeStatus.QUARANTINED, now, reason)
        state = replace(state, status=NodeStatus.QUARANTINED)
        revision = replace(revision, state=state, drafts=(*revision.drafts, draft))
    queued = replace(
        case,
        status=CaseStatus.QUEUED,
        repair_action=repair_action,
        uncounted=case.attempts,
        attempt=None,
        approval=None,
    )
    # What the node is found to have by now counts, not what the case was once opened for.
    queued = replace(queued, severity=state.severity or case.severity, cancelled=repair_action is RepairAction.VERIFY)
    queued = replace(queued, waiting_for=WaitingFor.BUDGET, not_before=None)
    return _moved(revision, queued, now, reason)


def _moved(revision: Transition, case: Case, now: datetime, reason: str) -> Transition:
    done = move_case(Transition(revision.state, revision.drafts), case, now, reason)
    return replace(revision, state=done.state, drafts=done.drafts)
