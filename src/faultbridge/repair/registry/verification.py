"""Verification of instances that join a cluster: verification cases, and peers for joint tests."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from msgspec import Struct

from faultbridge.decide import entry_builder
from faultbridge.decide.case_moves import (
    LEAVING,
    Cause,
    Rules,
    drop_approval,
    escalate_case,
    exclusion_reason,
    move_case,
    open_case,
)
from faultbridge.model.cases import EXTERNAL, INSTANCE_ADDED, Reason
from faultbridge.model.catalog import Scope
from faultbridge.model.causation import moved_by
from faultbridge.model.conditions import Condition
from faultbridge.model.entries import Transition
from faultbridge.model.enums import CaseStatus, Isolation, NodeStatus, RepairAction, WaitingFor
from faultbridge.model.fault_enums import Action, ComponentType, Severity
from faultbridge.model.faults import Component
from faultbridge.model.nodes import NodeKey, NodeState
from faultbridge.model.policy import INVENTORY_RULE
from faultbridge.model.storage import items, keys
from faultbridge.model.values import replace
from faultbridge.record.ports.table import Clock, Table
from faultbridge.record.queries import query_all
from faultbridge.repair.spares.pool import read_spares

GONE = "cloud.instance_gone"
JOINED = "provider.instance_new"
"""The failure mode of the cases that verify an instance: it joined, or another controller replaced it."""


def verify_before_service(registered: Transition, rules: Rules, now: datetime) -> Transition:
    """Require that a newly registered instance is verified before it serves."""
    if registered.state.incarnation is None:
        return registered
    reason = f"{registered.state.incarnation.instance_id} joined the group and has not been verified"
    return require_verification(registered, INSTANCE_ADDED, reason, rules, now, external=False)


def move_node(transition: Transition, target: NodeStatus, reason: str, now: datetime) -> Transition:
    """Return the transition with the node in the status `target`, and with an entry about the change."""
    draft = entry_builder.status_change(transition.state, target, now, reason)
    return Transition(replace(transition.state, status=target), (*transition.drafts, draft))


def require_verification(
    transition: Transition, code: str, reason: str, rules: Rules, now: datetime, *, external: bool
) -> Transition:
    """Require a verification of the node's instance, in its live case or in a new case with this code.

    - A live case that waits for the provider's repair continues its attempt.
    - Any other live case is queued with the repair action `verify`.
    - If the node has no live case, a case with `code` as its fault code is opened and queued in the same way.

    `external` records that another controller replaced the instance. If Faultbridge isolates the nodes of the cluster,
    the orchestrator cordons the new instance until the verification has passed.
    """
    if rules.config.isolates:
        transition = replace(transition, state=replace(transition.state, isolation=Isolation.REQUESTED))
    required = _require(transition, code, reason, rules, now, external=external)
    return replace(required, writes=transition.writes)


def _require(
    transition: Transition, code: str, reason: str, rules: Rules, now: datetime, *, external: bool
) -> Transition:
    marks = {EXTERNAL: now} if external else {}
    live = transition.state.live_case
    if live is None:
        cause = Cause(code, JOINED, Component(ComponentType.NODE), Severity.WARNING, Action.RUN_DIAGNOSTICS)
        rule = INVENTORY_RULE if code != INSTANCE_ADDED else _rule_for(transition.state, cause, rules, now)
        verify = RepairAction.VERIFY
        transition = open_case(transition, cause, rules, now, rule=rule, repair_action=verify, reason=reason)
        live = transition.state.live_case
    if live is None:
        return transition
    if live.attempt is not None and live.status is CaseStatus.IN_PROGRESS:
        # The attempt waits for the provider's repair. A probe that is due now lets it continue at once.
        attempt = replace(live.attempt, probe_at=now)
        followed = replace(live, attempt=attempt, marks={**live.marks, **marks})
        return Transition(replace(transition.state, case=followed), transition.drafts)
    unapproved, over = drop_approval(live, now, "Approval no longer required: the instance was replaced.")
    transition = replace(transition, drafts=(*transition.drafts, *over))
    queued = replace(
        unapproved,
        status=CaseStatus.QUEUED,
        repair_action=RepairAction.VERIFY,
        waiting_for=WaitingFor.ADMISSION,
        not_before=None,
        incident=None,
        held_from=None,
        uncounted=live.attempts if live.status is CaseStatus.ESCALATED else live.uncounted,
        because=Reason(reason),
        marks={**live.marks, **marks},
    )
    if live.status is CaseStatus.QUEUED:
        return Transition(replace(transition.state, case=queued), transition.drafts)
    return move_case(transition, queued, now, reason)


def escalate_vacant(state: NodeState, instance_id: str, rules: Rules, now: datetime) -> Transition:
    """Open an escalated case for a node that has had no instance since `instance_id` was gone.

    The status change with which the node lost the instance is the cause of the case. Nothing changes if the node has a
    live case or is excluded from repairs, or in a cluster in which faults open no cases (`opens_cases`).
    """
    excluded = exclusion_reason(state, rules.config, now) is not None
    if state.live_case is not None or excluded or not rules.config.opens_cases:
        return Transition(state)
    waited = f"{rules.policy.limits.launch_deadline.total_seconds() / 3600:g} hours"
    reason = f"{instance_id} is gone, and its group launched no successor within {waited}"
    cause = Cause(GONE, LEAVING, Component(ComponentType.NODE), Severity.FATAL, Action.REPLACE_NODE)
    action = RepairAction.VERIFY if rules.config.follows_provider else RepairAction.REPLACE_NODE
    opened = open_case(Transition(state), cause, rules, now, rule=INVENTORY_RULE, repair_action=action, reason=reason)
    opened = replace(opened, drafts=moved_by(opened.drafts, state.status_event))
    case = opened.state.live_case
    return opened if case is None else escalate_case(opened, case, now, reason)


def _rule_for(state: NodeState, cause: Cause, rules: Rules, now: datetime) -> str:
    """Return the name of the policy rule for a cause, so that the approvals and windows of the rule apply."""
    parts = cause.code, cause.component, cause.severity, cause.action
    condition = Condition(*parts, Scope.INSTANCE, (), now, now, "", mode=cause.mode)
    return rules.policy.rule_for(condition, state.key.cluster, state.placement.instance_type).name


OPERATOR = "operator."
"""The prefix of the codes of operator orders, which are no faults of the node."""


class VerificationPeers(Struct, frozen=True):
    """Finds healthy instances without work, with which an instance under verification is tested."""

    table: Table
    clock: Clock

    def cluster_of(self, instance_id: str) -> str | None:
        """Return the cluster in which an instance backs a node or is a spare, or None if it is neither."""
        node = self._node_of(instance_id)
        if node is not None:
            return node.cluster
        clusters = (str(row["sk"]) for row in query_all(self.table, keys.CLUSTERS))
        spares = (spare for cluster in clusters for spare in read_spares(self.table, cluster))
        return next((spare.cluster for spare in spares if spare.instance_id == instance_id), None)

    def ready_spares(self, cluster: str) -> Iterator[str]:
        """Yield the instance ids of a cluster's spares that are ready and were verified in the last 24 hours."""
        now = self.clock.now()
        return (str(spare.instance_id) for spare in read_spares(self.table, cluster) if spare.serves(spare.group, now))

    def is_free(self, instance_id: str) -> bool:
        """Return whether an instance backs no node, or one that is quarantined without fault or repair."""
        node = self._node_of(instance_id)
        return node is None or _is_kept_out(items.read_state(node, self.table.get(keys.node_state(node))))

    def _node_of(self, instance_id: str) -> NodeKey | None:
        found = self.table.get(keys.alias("instance", instance_id))
        row = items.read_alias(found) if found else None
        return row.key if row is not None and row.valid_to is None else None


def _is_kept_out(state: NodeState) -> bool:
    case = state.live_case
    return (
        state.status is NodeStatus.QUARANTINED
        and (case is None or case.status is CaseStatus.ESCALATED)
        and all(one.code.startswith(OPERATOR) for one in state.active())
    )
