"""Retirement: removes a node from its cluster, by an operator's order or after an update replaced it.

The timeline stays readable. The current aliases are deleted, the live case is resolved, and no action follows.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime

from msgspec import Struct

from faultbridge.decide import entry_builder
from faultbridge.decide.case_moves import Rules, fault_drafts, resolve_case
from faultbridge.decide.fold.expire import end_all
from faultbridge.decide.instance_pairing import VacantNode
from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.cluster.state import GroupStatus, ProviderStatus
from faultbridge.model.entries import Draft, Transition
from faultbridge.model.enums import Actor, CaseStatus, NodeStatus, NoteKind, Resolution
from faultbridge.model.errors import Rejected
from faultbridge.model.log import log_cause
from faultbridge.model.nodes import NodeKey, NodeState
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.writes import Delete, Equals, Put, Write
from faultbridge.model.values import replace
from faultbridge.record.append import Append
from faultbridge.record.ports.table import Table
from faultbridge.record.queries import cluster_config, registered
from faultbridge.record.rulebook import Rulebook
from faultbridge.repair.case_orders import OperatorOrder
from faultbridge.repair.registry.groups import Group, SyncResult
from faultbridge.repair.registry.roster import aliases_of, retired_row

REASON = "node removed"


class Retirement(Struct, frozen=True):
    """Removes nodes from their clusters; a repeated call changes nothing."""

    table: Table
    append: Append
    rulebook: Rulebook

    def retire(self, key: NodeKey, order: OperatorOrder) -> NodeState:
        """Remove a node from its cluster; raises `unknown_node`, or `past_intent` during a repair."""
        return self._retire(key, lambda now: order.note("retire", now), Actor.CLI, keeps_instance=True)

    def without_successor(self, key: NodeKey, instance_id: str, reason: str) -> NodeState:
        """Retire a node that gets no successor for this reason; raises `past_intent` during a repair."""
        text = f"retire: {instance_id} is gone, and {reason}"
        return self._retire(
            key,
            lambda now: entry_builder.note(kind=NoteKind.INVENTORY, text=text, at=now),
            Actor.INVENTORY,
            keeps_instance=False,
        )

    def _retire(
        self, key: NodeKey, note: Callable[[datetime], Draft], actor: Actor, *, keeps_instance: bool
    ) -> NodeState:
        rules = self.rulebook.rules(cluster_config(self.table, key.cluster))

        def revise(state: NodeState, now: datetime) -> Transition:
            if registered(state).status is NodeStatus.RETIRED:
                return Transition(state)
            writes = tuple(self._registry_writes(state, now, keeps_instance=keeps_instance))
            return Transition(*_retired(state, rules, note(now), now), writes)

        return self.append(key, revise, actor=actor).state

    def _registry_writes(self, state: NodeState, now: datetime, *, keeps_instance: bool) -> Iterator[Write]:
        """Yield the writes that record in the registry that a node is retired.

        They mark the roster row as retired, delete the aliases, and reduce the number of nodes that the cluster
        expects. The row is kept, because the archive, `verify` and `erase` find the timeline of the node through it.
        With `keeps_instance`, the row also keeps the instance id, so that a sync does not register the instance again.
        """
        yield retired_row(keys.roster(state.key.cluster, state.shard, state.key.node), keeps_instance=keeps_instance)
        instance = state.instance_id
        names = (state.key.node, *state.placement.aliases, *state.placement.host_names)
        aliases = aliases_of(state.key, names, instance)
        for key, stored in self.table.get_many(keys.alias(*alias) for alias in aliases).items():
            if items.read_alias(stored).key == state.key:
                yield Delete(key, when=Equals("valid_from", str(stored["valid_from"])))
        # The configuration is read here, so that a retry after a conflict reads it again.
        config = items.read_config(self.table.get(keys.cluster_config(state.key.cluster)) or {})
        fewer = replace(config, expected=max(config.expected - 1, 0), version=config.version + 1)
        yield Put(items.config_item(fewer, now), when=Equals("version", config.version))

    def retire_vacant(
        self,
        config: ClusterConfig,
        group: Group,
        vacancies: Iterable[VacantNode],
        result: SyncResult,
        gone_by: datetime | None = None,
        reason: str = "its group is complete without it",
    ) -> None:
        """Retire vacant nodes of a group that get no successor, and add their names to `result.retired`.

        A node is kept if a repair controls it, or if its retirement is rejected. With `gone_by`, a node is kept too
        unless the inventory found by this time that its instance is gone.
        """
        former = {str(row["node"]): row.get("instance") for row in group.missing}
        for vacancy in vacancies:
            instance_id = former.get(vacancy.node)
            if not vacancy.open or not instance_id:
                continue
            if gone_by is not None and (vacancy.gone_since is None or vacancy.gone_since > gone_by):
                continue
            try:
                self.without_successor(NodeKey(config.cluster, vacancy.node), str(instance_id), reason)
            except Rejected as error:
                log_cause("node_not_retired", reason=str(error), level=logging.WARNING, cluster=config.cluster)
            else:
                result.retired.append(vacancy.node)


def _retired(state: NodeState, rules: Rules, note: Draft, now: datetime) -> tuple[NodeState, tuple[Draft, ...]]:
    case = state.live_case
    attempt = case.attempt if case is not None and case.status is not CaseStatus.ESCALATED else None
    if case is not None and attempt is not None and attempt.intent is not None:
        text = f"the repair of {case.id} has passed its intent and only continues forward; wait until the case closes"
        raise Rejected("past_intent", text)
    ended = end_all(state, at=now, reason=REASON)
    transition = Transition(ended.state, fault_drafts(ended, rules))
    if case is not None:
        transition = resolve_case(transition, replace(case, attempt=None), now, Resolution.RETIRED, REASON)
    moved = entry_builder.status_change(transition.state, NodeStatus.RETIRED, now, REASON)
    drafts = (*transition.drafts, note, moved)
    return replace(transition.state, status=NodeStatus.RETIRED, due_at=None), drafts


def is_replaced(config: ClusterConfig, group: Group, status: ProviderStatus, now: datetime) -> bool:
    """Return whether an update completed a group with other nodes, in place of its vacant nodes.

    A vacant node has no serving instance. The result is True if all of these apply:

    - The group has an update hold. While the update runs, the hold counts until its deadline.
    - The provider reports the group as complete, and at least the desired number of its members serve.
    - Each serving member has a node. A member without a node may still be attached to a vacant node.
    """
    reported = status.groups.get(group.name)
    holds = (one for one in config.update_holds if one.group == group.name)
    if reported is None or group.unassigned or not any(one.until > now or not one.running for one in holds):
        return False
    # The members were read after the status: one of them may have left in between, and its successor still comes.
    return _is_complete(group, reported)


def _is_complete(group: Group, reported: GroupStatus) -> bool:
    return reported.complete and sum(member.serving for member in group.members.values()) >= reported.desired


def owes_no_successor(config: ClusterConfig, group: Group, status: ProviderStatus, now: datetime) -> bool:
    """Return whether a group without an update is complete without some nodes, as after a scale-in."""
    reported = status.groups.get(group.name)
    if reported is None or group.unassigned or config.update_hold(group.name, now) is not None:
        return False
    return _is_complete(group, reported)
