"""Seating: who sits in a node after somebody else changed it, and what is known of whoever sits there.

Where Faultbridge repairs, a machine that came without our intent is verified before it serves. Where it only observes,
nobody would verify it: the node goes on serving, marked unverified, like one that was imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.cases import EXTERNAL, RepairAction, WaitingFor
from faultbridge.domain.catalog import Scope
from faultbridge.domain.clusters import ClusterConfig
from faultbridge.domain.edges import Actor, CaseStatus, NodeStatus
from faultbridge.domain.entries import Draft
from faultbridge.domain.faults import Action, Component, ComponentType, Severity
from faultbridge.domain.nodes import (
    DomainKind,
    Ignored,
    Incarnation,
    Isolation,
    NodeKey,
    NodeState,
    Placement,
    narrowest,
)
from faultbridge.domain.times import truncate
from faultbridge.ledger.append import Append
from faultbridge.pipeline import entry_builder
from faultbridge.pipeline.decide.case_moves import due_at, move_case
from faultbridge.pipeline.decide.instance_pairing import may_change_instance, waits_for_provider
from faultbridge.pipeline.decide.open_case import Cause, Rules, open_case
from faultbridge.pipeline.decide.opt_out import start_ignoring, stop_ignoring
from faultbridge.pipeline.fold.expire import end_scopes
from faultbridge.ports import Table
from faultbridge.registry.aliases import Renaming, renamed, usable
from faultbridge.registry.instances import Sitter
from faultbridge.rules.rulebook import Rulebook
from faultbridge.storage import keys
from faultbridge.storage.writes import Update, Value, Write

CODE = "cloud.instance_replaced"
RULE = "inventory"
LABEL = "label"
MAX_FORMER = 8
MAX_NAMES = 20


@dataclass(frozen=True, slots=True)
class ReplacementDetection:
    """Writes what the inventory found of nodes that are registered; each call twice is each call once."""

    table: Table
    append: Append
    rulebook: Rulebook

    def refresh(self, config: ClusterConfig, node: str, sitter: Sitter) -> bool:
        """Take note of what the machine that sits in a node is called and shares; False where another sits there."""
        key = NodeKey(config.cluster, node)

        def revise(state: NodeState, now: datetime) -> Transition:
            sitting = state.incarnation
            if sitting is None or not _sits(state, sitter.instance_id) or state.status is NodeStatus.RETIRED:
                return Transition(state)
            known, drafts = _labelled(
                replace(state, placement=_seat(state, sitter, state.placement.domains)), sitter, now
            )
            renaming = _renaming(state, sitter, sitting.since, former=None)
            return Transition(known, drafts, (*renamed(self.table, renaming, now), _roster(known, config, sitter)))

        after = self.append(key, revise, actor=Actor.INVENTORY, config=config).state
        return _sits(after, sitter.instance_id) and after.status is not NodeStatus.RETIRED

    def vacate(self, config: ClusterConfig, node: str, instance_id: str) -> bool:
        """Take a node out of service whose instance went without our intent; False where that is not for us to do."""

        def revise(state: NodeState, now: datetime) -> Transition:
            held = state.live_case is not None and not waits_for_provider(state)
            if not _sits(state, instance_id) or held or state.status is NodeStatus.PROVISIONING:
                return Transition(state)
            draft = entry_builder.status_change(
                state, NodeStatus.PROVISIONING, now, f"{EXTERNAL}: {instance_id} is gone"
            )
            return Transition(replace(state, status=NodeStatus.PROVISIONING), (draft,))

        key = NodeKey(config.cluster, node)
        after = self.append(key, revise, actor=Actor.INVENTORY, config=config).state
        return after.status is NodeStatus.PROVISIONING

    def replace_instance(self, config: ClusterConfig, node: str, sitter: Sitter) -> bool:
        """Node a machine that came without our intent; False where the node's own repair goes on instead."""
        rules = self.rulebook.rules(config)

        def revise(state: NodeState, now: datetime) -> Transition:
            if not may_change_instance(state) or _sits(state, sitter.instance_id):
                return Transition(state)
            former = state.incarnation.instance_id if state.incarnation else None
            seated = _seated(state, sitter, now)
            since = seated.incarnation.since if seated.incarnation else now
            beside: tuple[Write, ...] = (
                *renamed(self.table, _renaming(state, sitter, since, former), now),
                _roster(seated, config, sitter),
            )
            changed = _changed(state, seated, former, rules, now)
            return Transition(replace(changed.state, due_at=_due(changed.state, now)), changed.drafts, beside)

        after = self.append(NodeKey(config.cluster, node), revise, actor=Actor.INVENTORY, config=config).state
        return _sits(after, sitter.instance_id)


def _sits(state: NodeState, instance_id: str) -> bool:
    return state.incarnation is not None and state.incarnation.instance_id == instance_id


def _seated(state: NodeState, sitter: Sitter, now: datetime) -> NodeState:
    old = state.incarnation
    leaving = (old.instance_id,) if old and old.instance_id else ()
    since = truncate(sitter.launched_at) if sitter.launched_at else now
    number = (old.instance if old else 0) + 1
    return replace(
        state,
        incarnation=Incarnation(number, 1, sitter.instance_id, None, since),
        former_instances=(*state.former_instances, *leaving)[-MAX_FORMER:],
        placement=_seat(state, sitter, {}),
        devices=(),
        isolation=Isolation.NONE,
        orchestrator_lost_at=None,
        unverified=True,
    )


def _changed(state: NodeState, seated: NodeState, former: str | None, rules: Rules, now: datetime) -> Transition:
    """End what was wrong with the machine that left, and begin the verification of the one that came."""
    reason = f"{EXTERNAL}: {former or 'an empty seat'} was replaced by somebody else"
    ended = end_scopes(seated, Scope, at=now, reason=reason)
    faults = tuple(entry_builder.fault_change(one, ended.state, rules.catalog, rules.policy) for one in ended.changes)
    told = Transition(ended.state, (*faults, _note(seated, former, reason, now)))
    if state.status is not None and state.status.in_service and not rules.config.opens_cases:
        return told
    if state.status is not NodeStatus.PROVISIONING:
        told = _to(told, NodeStatus.PROVISIONING, reason, now)
    told = _to(told, NodeStatus.VALIDATING, "a new instance was seen, generation raised", now)
    return _verified_next(told, reason, rules, now)


def _to(decided: Transition, target: NodeStatus, reason: str, now: datetime) -> Transition:
    draft = entry_builder.status_change(decided.state, target, now, reason)
    return Transition(replace(decided.state, status=target), (*decided.drafts, draft))


def _verified_next(decided: Transition, reason: str, rules: Rules, now: datetime) -> Transition:
    """Leave a case that asks for a verification only: the one that is there, or a new one."""
    live = decided.state.live_case
    if live is None:
        decided = _opened(decided, rules, now, reason)
        live = decided.state.live_case
    if live is None:
        return decided
    if live.attempt is not None and live.status is CaseStatus.IN_PROGRESS:
        # The attempt that waited for this goes on by itself, at once.
        attempt = replace(live.attempt, probe_at=now)
        followed = replace(live, attempt=attempt, marks={**live.marks, EXTERNAL: now})
        return Transition(replace(decided.state, case=followed), decided.drafts)
    waiting = replace(
        live,
        status=CaseStatus.QUEUED,
        repair_action=RepairAction.VERIFY,
        waiting_for=WaitingFor.BUDGET,
        not_before=None,
        uncounted=live.attempts if live.status is CaseStatus.ESCALATED else live.uncounted,
        reason=reason,
        marks={**live.marks, EXTERNAL: now},
    )
    if live.status is CaseStatus.QUEUED:
        return Transition(replace(decided.state, case=waiting), decided.drafts)
    return move_case(decided, waiting, now, reason)


def _opened(decided: Transition, rules: Rules, now: datetime, reason: str) -> Transition:
    cause = Cause(CODE, Component(ComponentType.NODE), Severity.WARNING, Action.RUN_DIAGNOSTICS)
    return open_case(decided, cause, rules, now, rule=RULE, repair_action=RepairAction.VERIFY, reason=reason)


def _note(state: NodeState, former: str | None, text: str, now: datetime) -> Draft:
    sitting = state.incarnation
    facts = {"old_instance": former, "new_instance": sitting.instance_id if sitting else None}
    case = state.live_case
    return entry_builder.note(kind="inventory", text=text, at=now, case_id=case.id if case else None, facts=facts)


def _due(state: NodeState, now: datetime) -> datetime | None:
    # Only a tick may call a node healthy; one that serves on with nothing wrong any more is due at once.
    return now if state.status is NodeStatus.DEGRADED else due_at(state)


def _seat(state: NodeState, sitter: Sitter, known: Mapping[str, str]) -> Placement:
    names, before = usable(sitter.names, state.key.node)[-MAX_NAMES:], state.placement
    domains = {**known, **sitter.domains}
    return replace(
        before,
        instance_type=sitter.instance_type or before.instance_type,
        domain=narrowest(domains) or before.domain,
        domains=domains,
        host_names=names,
        aliases=tuple(name for name in before.aliases if name not in names),
        slot=sitter.slot or before.slot,
    )


def _labelled(state: NodeState, sitter: Sitter, now: datetime) -> tuple[NodeState, tuple[Draft, ...]]:
    """Leave a node alone as long as its label says so; what a person ordered is the person's to take back."""
    by_label = state.ignored is not None and state.ignored.by == LABEL
    if sitter.opted_out == by_label or (state.ignored is not None and not by_label):
        return state, ()
    word = "opted out by its label" if sitter.opted_out else "its label opts it out no more"
    note = entry_builder.note(kind="inventory", text=word, at=now, facts={"opted_out": sitter.opted_out})
    labelled = start_ignoring(state, Ignored(LABEL, now)) if sitter.opted_out else stop_ignoring(state, now)
    return labelled, (note,)


def _renaming(state: NodeState, sitter: Sitter, since: datetime, former: str | None) -> Renaming:
    begin = usable(sitter.names, state.key.node)[-MAX_NAMES:]
    return Renaming(state.key, sitter.instance_id, since, begin, state.placement.host_names, former)


def _roster(state: NodeState, config: ClusterConfig, sitter: Sitter) -> Update:
    written: dict[tuple[str, ...], Value] = {
        ("generation",): state.incarnation.instance if state.incarnation else 0,
        ("instance",): sitter.instance_id,
        ("described",): sitter.instance_id,
        ("type",): state.placement.instance_type,
        ("domain",): state.placement.domain,
        ("zone",): state.placement.domains.get(DomainKind.ZONE),
        ("names",): list(state.placement.host_names),
        ("slot",): state.placement.slot,
        ("opted_out",): sitter.opted_out,
    }
    return Update(keys.roster(state.key.cluster, config.shard(state.key.node), state.key.node), set=written)
