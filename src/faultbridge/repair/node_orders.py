"""Operator orders about a node: replace, quarantine, return or ignore it.

An order to replace or quarantine is recorded as a fault of the source `operator`, so that all limits of repairs apply.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from msgspec import Struct

from faultbridge.decide import entry_builder
from faultbridge.decide.case_moves import (
    Rules,
    escalate_case,
    exclusion_reason,
    move_case,
    resolve_case,
    start_ignoring,
    stop_ignoring,
)
from faultbridge.decide.fold.changes import Arrival
from faultbridge.decide.fold.expire import ORDERED_QUARANTINE, ORDERED_REPLACEMENT
from faultbridge.decide.observe import observe
from faultbridge.model.entries import Transition
from faultbridge.model.enums import Actor, CaseStatus, NodeStatus, RepairAction, Resolution, WaitingFor
from faultbridge.model.errors import Rejected
from faultbridge.model.faults import NODE_COMPONENT, Fault
from faultbridge.model.nodes import Ignored, NodeKey, NodeState
from faultbridge.model.storage import keys
from faultbridge.model.storage.writes import Update
from faultbridge.model.values import replace
from faultbridge.record.append import Append, Revise
from faultbridge.record.queries import registered
from faultbridge.record.rulebook import Rulebook, rules_for_order
from faultbridge.repair.case_orders import OperatorOrder, once, withdraw_orders

SOURCE = "operator"
WITHOUT_INSTANCE = frozenset({NodeStatus.REPLACING, NodeStatus.PROVISIONING, NodeStatus.RETIRED})


class NodeOrders(Struct, frozen=True):
    """Accepts operator orders about nodes; they raise `unknown_cluster`, `unknown_node`, `not_acting`."""

    append: Append
    rulebook: Rulebook

    def replace(self, key: NodeKey, order: OperatorOrder, instance: str | None = None) -> NodeState:
        """Order the replacement of a node's instance, and return the state of the node.

        `instance` is the id of the instance that the operator saw. With None, the order is about the instance that
        backs the node now. The replacement starts as soon as all limits of repairs permit it. An escalated case is
        queued again. Raises Rejected `not_replaceable` if the node has no instance, and `instance_changed` if another
        instance than `instance` backs the node.
        """

        def revise(state: NodeState, rules: Rules, now: datetime) -> Transition:
            if state.status in WITHOUT_INSTANCE:
                raise Rejected("not_replaceable", f"no instance to replace: {key.node} is {state.status}")
            backing = state.instance_id
            if instance not in {None, backing}:
                now_on = f"{key.node} has {backing or 'no known instance'} now, and not {instance}"
                raise Rejected("instance_changed", f"the instance changed since you looked: {now_on}")
            case = state.live_case
            if case is not None and case.cancelled:  # a later order to replace the node revokes the cancellation
                state = replace(state, case=replace(case, cancelled=False))
            observed = self._observe_order(state, ORDERED_REPLACEMENT, order, rules, now)
            return _requeue_escalated(observed, RepairAction.REPLACE_NODE, now, "an operator ordered a replacement")

        return self._order(key, order, revise)

    def quarantine(self, key: NodeKey, order: OperatorOrder) -> NodeState:
        """Keep a node out of service until an operator returns or replaces it; returns the state of the node.

        The order is recorded as a fault, which opens a case if the node has none. The case is then escalated. Raises
        Rejected `in_progress` during a repair attempt, and `not_quarantinable` if the node has no instance. A node in
        service for which no case opens would stay in service, so the order is rejected: `excluded` if the node is
        excluded from repairs, `not_quarantinable` if a rule of the policy requires no repair.
        """

        def revise(state: NodeState, rules: Rules, now: datetime) -> Transition:
            if state.status is None or state.status in WITHOUT_INSTANCE:
                raise Rejected("not_quarantinable", f"no instance to quarantine: {key.node} is {state.status}")
            if state.live_case is not None and state.live_case.status is CaseStatus.IN_PROGRESS:
                case = state.live_case.id
                raise Rejected(
                    "in_progress", f"a repair is in progress: {case}; wait, or run 'faultbridge case cancel {case}'"
                )
            observed = self._observe_order(state, ORDERED_QUARANTINE, order, rules, now)
            if observed.state.live_case is None and state.status.in_service:
                raise _without_case(state, rules, now)
            return _keep_out(observed, f"taken out of service by an operator: {order.text}", now)

        return self._order(key, order, revise)

    def return_node(self, key: NodeKey, order: OperatorOrder) -> NodeState:
        """Return a node to service after an operator fixed it. If it is out of service, it is verified first.

        Raises Rejected `not_with_a_person` if the node has no escalated case. Unlike other node orders, this one
        is also accepted in mode `act` if the provider, and not Faultbridge, repairs the nodes of the cluster.
        """

        def revise(state: NodeState, rules: Rules, now: datetime) -> Transition:
            case = state.live_case
            if case is None or case.status is not CaseStatus.ESCALATED:
                raise Rejected(
                    "not_with_a_person", f"no escalated case: {key.node}; only an escalated node is returned"
                )
            noted = Transition(state, (order.note("return", now, case_id=case.id),))
            noted = withdraw_orders(noted, rules, now)
            if state.status is not None and state.status.in_service:
                moved = resolve_case(noted, case, now, Resolution.BY_OPERATOR, "returned by an operator")
                # Only a tick may set the status `healthy`, so the node is due at once.
                return replace(moved, state=replace(moved.state, due_at=now))
            return _requeue_escalated(noted, RepairAction.VERIFY, now, "returned by an operator")

        return self._order(key, order, revise, also_where_provider_repairs=True)

    def ignore(self, key: NodeKey, order: OperatorOrder, until: datetime | None = None) -> NodeState:
        """Exclude a node from repairs until a time, or without an end; accepted in every mode."""

        def revise(state: NodeState, now: datetime) -> Transition:
            ignored = Ignored(order.operator or "", now, until, order.reason)
            return Transition(start_ignoring(state, ignored), (order.note("ignore", now),))

        return self._append_order(key, order, revise)

    def end_ignore(self, key: NodeKey, order: OperatorOrder) -> NodeState:
        """End the exclusion of a node; a remaining label or tag excludes it again."""

        def revise(state: NodeState, now: datetime) -> Transition:
            if state.ignored is None:
                return Transition(state)
            # The row repeats the opt-out; a sync changes nothing while the row agrees with the label.
            unlisted = Update(keys.roster(key.cluster, state.shard, key.node), set={("opted_out",): False})
            return Transition(stop_ignoring(state, now), (order.note("heed", now),), (unlisted,))

        return self._append_order(key, order, revise)

    def _append_order(self, key: NodeKey, order: OperatorOrder, revise: Revise) -> NodeState:
        rules_for_order(self.rulebook, key.cluster)  # rejects an unregistered cluster
        given = once(self.append.table, order.request, lambda state, now: revise(registered(state), now))
        return self.append(key, given, actor=Actor.CLI).state

    def _observe_order(
        self, state: NodeState, code: str, order: OperatorOrder, rules: Rules, now: datetime
    ) -> Transition:
        arrival = Arrival(Fault(SOURCE, code, NODE_COMPONENT, order.text), now, "")
        catalog = self.rulebook.catalog()
        observed = observe(state, [arrival], rules=rules, catalog=catalog, now=now)
        case = observed.state.live_case
        note = order.note(code.removeprefix("operator."), now, case_id=case.id if case else None)
        return Transition(observed.state, (*observed.drafts, note))

    def _order(
        self,
        key: NodeKey,
        order: OperatorOrder,
        revise: Callable[[NodeState, Rules, datetime], Transition],
        *,
        also_where_provider_repairs: bool = False,
    ) -> NodeState:
        rules = rules_for_order(self.rulebook, key.cluster)
        if not (rules.config.acts or (also_where_provider_repairs and rules.config.follows_provider)):
            text = f"Faultbridge does not repair in this cluster: {key.cluster}; run 'faultbridge cluster set --mode'"
            raise Rejected("not_acting", text)
        return self._append_order(key, order, lambda state, now: revise(state, rules, now))


def _without_case(state: NodeState, rules: Rules, now: datetime) -> Rejected:
    node, reason = state.key.node, exclusion_reason(state, rules.config, now)
    if reason is None:
        text = f"{node} would stay in service: a rule of the policy requires no repair for {ORDERED_QUARANTINE}"
        return Rejected("not_quarantinable", text)
    return Rejected("excluded", f"{node} would stay in service: {reason}")


def _keep_out(transition: Transition, reason: str, now: datetime) -> Transition:
    """Escalate the case of a node that stays out of service until an operator acts."""
    case = transition.state.live_case
    if case is None:
        return transition
    kept = replace(case, isolate=True)
    if case.status is CaseStatus.ESCALATED:
        return replace(transition, state=replace(transition.state, case=kept))
    kept = replace(kept, not_before=None, incident=None, held_from=None, cancelled=False)
    return escalate_case(transition, kept, now, reason)


def _requeue_escalated(transition: Transition, repair_action: RepairAction, now: datetime, reason: str) -> Transition:
    """Queue an escalated case again. Its earlier attempts do not count; a `failed` node is quarantined.

    An open case that only waits to see whether an incident explains its fault is queued too, because without an
    incident it would be escalated. A case in any other status does not change.
    """
    state, case = transition.state, transition.state.live_case
    if case is None or not (case.status is CaseStatus.ESCALATED or case.awaits_correlation):
        return transition
    if state.status is NodeStatus.FAILED:
        draft = entry_builder.status_change(state, NodeStatus.QUARANTINED, now, reason)
        state = replace(state, status=NodeStatus.QUARANTINED)
        transition = replace(transition, state=state, drafts=(*transition.drafts, draft))
    queued = replace(
        case,
        status=CaseStatus.QUEUED,
        repair_action=repair_action,
        uncounted=case.attempts,
        attempt=None,
        approval=None,
    )
    # The current conditions of the node count, not those for which the case was opened.
    queued = replace(queued, severity=state.severity or case.severity, cancelled=repair_action is RepairAction.VERIFY)
    queued = replace(queued, waiting_for=WaitingFor.ADMISSION, not_before=None)
    return move_case(transition, queued, now, reason)
