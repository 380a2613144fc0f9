"""Replacement detection: updates a node whose instance another controller changed or removed.

If faults in the cluster open cases, such an instance is verified before the node serves again. Otherwise, no
verification would run: a node in service then keeps serving and is marked as never verified.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct

from faultbridge.decide import entry_builder
from faultbridge.decide.case_moves import (
    LABEL,
    Rules,
    due_at,
    fault_drafts,
    start_ignoring,
    stop_ignoring,
)
from faultbridge.decide.fold.expire import end_all
from faultbridge.decide.instance_pairing import may_change_instance, waits_for_provider
from faultbridge.model import names
from faultbridge.model.cases import EXTERNAL
from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.cluster.vacancies import mark_gone
from faultbridge.model.entries import Draft, Transition
from faultbridge.model.enums import Actor, Isolation, NodeStatus, NoteKind
from faultbridge.model.log import log_cause
from faultbridge.model.nodes import (
    Ignored,
    Incarnation,
    Instance,
    NodeKey,
    NodeState,
    Placement,
    left_behind,
    narrowest,
)
from faultbridge.model.storage.writes import Write
from faultbridge.model.times import truncate
from faultbridge.model.values import replace
from faultbridge.record.append import Append
from faultbridge.record.ports.table import Table
from faultbridge.record.rulebook import Rulebook
from faultbridge.repair.registry.roster import AliasChange, alias_writes, row_update, usable_names
from faultbridge.repair.registry.verification import escalate_vacant, move_node, require_verification

CODE = "cloud.instance_replaced"
MAX_FORMER_INSTANCES = 8


class ReplacementDetection(Struct, frozen=True):
    """Records instance changes that a sync of the inventory found; a repeated call changes nothing."""

    table: Table
    append: Append
    rulebook: Rulebook

    def update_instance(self, config: ClusterConfig, node: str, instance: Instance) -> bool:
        """Update an instance's metadata; False if it does not back the node or the node is retired."""
        key = NodeKey(config.cluster, node)

        def revise(state: NodeState, now: datetime) -> Transition:
            current = state.incarnation
            if current is None or not _is_backed_by(state, instance.instance_id) or state.status is NodeStatus.RETIRED:
                return Transition(state)
            updated = replace(state, placement=_placement(state, instance, state.placement.domains))
            updated, drafts = _apply_opt_out(updated, instance, now)
            aliases = _alias_change(state, instance, current.since, former=None)
            writes = (*alias_writes(self.table, aliases, now), row_update(updated, instance))
            return Transition(updated, drafts, writes)

        after = self.append(key, revise, actor=Actor.INVENTORY).state
        return _is_backed_by(after, instance.instance_id) and after.status is not NodeStatus.RETIRED

    def vacate(self, config: ClusterConfig, node: str, instance_id: str) -> bool:
        """Take a node out of service because its instance is gone without a release by Faultbridge.

        Returns True if the node then has the status provisioning. The node is not changed if another instance backs the
        node, if the node is retired, or if a repair controls it. A case that waits, also for the provider's repair,
        permits the change. A node without a case that already waits for a successor is escalated to an operator after
        `launch_deadline`.
        """
        reason, rules = f"{EXTERNAL}: {instance_id} is gone", self.rulebook.rules(config)

        def revise(state: NodeState, now: datetime) -> Transition:
            current = state.incarnation
            if current is None or not _is_backed_by(state, instance_id) or not may_change_instance(state):
                return Transition(state)
            gone = mark_gone(state, now)
            if state.status is NodeStatus.PROVISIONING:
                since, deadline = current.gone_since, rules.policy.limits.launch_deadline
                alone = state.live_case is None or waits_for_provider(state)
                overdue = alone and since is not None and now - since >= deadline
                return escalate_vacant(gone, instance_id, rules, now) if overdue else Transition(gone)
            draft = entry_builder.status_change(state, NodeStatus.PROVISIONING, now, reason)
            return Transition(replace(gone, status=NodeStatus.PROVISIONING), (draft,))

        key = NodeKey(config.cluster, node)
        result = self.append(key, revise, actor=Actor.INVENTORY)
        vacated = result.state.status is NodeStatus.PROVISIONING
        if result.entries or not vacated:
            decision = "node_vacated" if vacated else "node_not_vacated"
            text = reason if vacated else f"{reason}, but {_why_not_vacated(result.state, instance_id)}"
            log_cause(decision, reason=text, cluster=config.cluster, node=node, instance_id=instance_id)
        return vacated

    def attach_replacement(self, config: ClusterConfig, node: str, instance: Instance) -> bool:
        """Attach an instance of another controller; False if the node's instance may not be changed."""
        rules, key = self.rulebook.rules(config), NodeKey(config.cluster, node)

        def revise(state: NodeState, now: datetime) -> Transition:
            if not may_change_instance(state) or _is_backed_by(state, instance.instance_id):
                return Transition(state)
            former = state.instance_id
            replaced = _with_instance(state, instance, now)
            since = replaced.incarnation.since if replaced.incarnation else now
            aliases = _alias_change(state, instance, since, former)
            writes: tuple[Write, ...] = (
                *alias_writes(self.table, aliases, now),
                row_update(replaced, instance),
            )
            changed = _replaced(state, replaced, former, rules, now)
            return Transition(replace(changed.state, due_at=due_at(changed.state, now)), changed.drafts, writes)

        after = self.append(key, revise, actor=Actor.INVENTORY).state
        attached = _is_backed_by(after, instance.instance_id)
        decision = "instance_replaced_externally" if attached else "replacement_left_to_repair"
        reason = f"the node is {after.status}" if attached else f"the node is retired or under repair ({after.status})"
        log_cause(decision, reason=reason, cluster=config.cluster, node=node, instance_id=instance.instance_id)
        return attached


def _is_backed_by(state: NodeState, instance_id: str) -> bool:
    return state.incarnation is not None and state.incarnation.instance_id == instance_id


def _why_not_vacated(state: NodeState, instance_id: str) -> str:
    if state.status is NodeStatus.RETIRED:
        return "the node is retired"
    return "a repair controls the node" if _is_backed_by(state, instance_id) else "another instance backs the node"


def _with_instance(state: NodeState, instance: Instance, now: datetime) -> NodeState:
    former = state.incarnation
    former_ids = (former.instance_id,) if former and former.instance_id else ()
    since = truncate(instance.launched_at) if instance.launched_at else now
    number = (former.instance if former else 0) + 1
    return replace(
        state,
        incarnation=Incarnation(number, 1, instance.instance_id, None, since),
        former_instances=(*state.former_instances, *former_ids)[-MAX_FORMER_INSTANCES:],
        placement=_placement(state, instance, {}),
        devices=(),
        isolation=Isolation.NONE,
        orchestrator_lost_at=None,
        unverified=True,
    )


def _replaced(state: NodeState, replaced: NodeState, former: str | None, rules: Rules, now: datetime) -> Transition:
    """End the former instance's conditions; require a verification, unless faults open no cases."""
    reason = f"{EXTERNAL}: {former or 'no instance'} was replaced by another controller"
    ended = end_all(replaced, at=now, reason=reason)
    volumes = left_behind(rules.policy.volumes, replaced.moving_volumes) if former else ""
    transition = Transition(ended.state, (*fault_drafts(ended, rules), _note(replaced, former, reason + volumes, now)))
    if state.status is not None and state.status.in_service and not rules.config.opens_cases:
        # The orchestrator may have cordoned the node under its name; only its uncordon ends the request.
        return replace(transition, state=replace(transition.state, isolation=state.isolation))
    if state.status is not NodeStatus.PROVISIONING:
        transition = move_node(transition, NodeStatus.PROVISIONING, reason, now)
    transition = move_node(transition, NodeStatus.VALIDATING, "a new instance was found, generation raised", now)
    return require_verification(transition, CODE, reason, rules, now, external=True)


def _note(state: NodeState, former: str | None, text: str, now: datetime) -> Draft:
    current, case = state.incarnation, state.live_case
    facts = {"old_instance": former, "new_instance": current.instance_id if current else None}
    return entry_builder.note(
        kind=NoteKind.INVENTORY, text=text, at=now, case_id=case.id if case else None, facts=facts
    )


def _placement(state: NodeState, instance: Instance, known_domains: Mapping[str, str]) -> Placement:
    host_names, before = usable_names(instance.names, state.key.node), state.placement
    is_host = names.is_host_name(state.key.node, instance.names)
    domains = {**known_domains, **instance.domains}
    return replace(
        before,
        instance_type=instance.instance_type or before.instance_type,
        domain=narrowest(domains) or before.domain,
        domains=domains,
        host_names=host_names,
        aliases=tuple(name for name in before.aliases if name not in host_names),
        slot=instance.slot or before.slot,
        named_after=instance.instance_id if is_host else before.named_after,
    )


def _apply_opt_out(state: NodeState, instance: Instance, now: datetime) -> tuple[NodeState, tuple[Draft, ...]]:
    """Apply the opt-out of a tag or label, unless an operator already ignores the node."""
    ignored = state.ignored
    by_label = ignored is not None and ignored.by == LABEL
    if ignored is not None and by_label and instance.opted_out:
        # The label may have been removed while the tag stays, or the reverse.
        return start_ignoring(state, replace(ignored, kubernetes_node=instance.opt_out_node)), ()
    if instance.opted_out == by_label or (ignored is not None and not by_label):
        return state, ()
    text = "excluded from repair by its label" if instance.opted_out else "no longer excluded from repair by its label"
    note = entry_builder.note(kind=NoteKind.INVENTORY, text=text, at=now, facts={"opted_out": instance.opted_out})
    excluded = Ignored(LABEL, now, kubernetes_node=instance.opt_out_node)
    return start_ignoring(state, excluded) if instance.opted_out else stop_ignoring(state, now), (note,)


def _alias_change(state: NodeState, instance: Instance, since: datetime, former: str | None) -> AliasChange:
    added = usable_names(instance.names, state.key.node)
    return AliasChange(state.key, instance.instance_id, since, added, state.placement.host_names, former)
