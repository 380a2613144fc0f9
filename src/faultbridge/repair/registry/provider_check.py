"""Provider check: records what the provider reports about a whole cluster, once per sync.

A condition of the provider never starts a repair of a node; the repairs of a group wait while its owner updates it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType

from msgspec import Struct

from faultbridge.decide.provider_conditions import (
    next_holds,
    open_conditions,
    target_size,
    update_conditions,
    with_ending_blocks,
)
from faultbridge.model.cluster.config import ClusterConfig, UpdateHold
from faultbridge.model.cluster.state import ClusterState, ProviderCondition, ProviderStatus
from faultbridge.model.nodes import Instance, NodeKey
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.writes import Item
from faultbridge.model.times import truncate
from faultbridge.model.values import replace
from faultbridge.record.ports.inventory import Inventory
from faultbridge.record.ports.table import Clock
from faultbridge.repair.cluster_status import ClusterRollup
from faultbridge.repair.registry.registration import Registration, owner_conflict
from faultbridge.repair.registry.roster import block_of


class ProviderCheck(Struct, frozen=True):
    """Records the provider's conditions, updates, target size and occupied nodes of a cluster."""

    inventories: Mapping[str, Inventory]
    rollup: ClusterRollup
    clock: Clock
    registration: Registration

    def record_status(
        self,
        config: ClusterConfig,
        rows: Mapping[str, Sequence[Item]],
        reported: Sequence[ProviderCondition] = (),
        ends: Mapping[str, datetime] = MappingProxyType({}),
    ) -> ProviderStatus:
        """Read, record and return the provider's status; without an answer, it raises and changes nothing.

        `ends` is when capacity blocks end. A group with nodes in a block that ends soon counts as updated.
        """
        registered = {group: len(of_group) for group, of_group in rows.items()}
        status = self.inventories[config.provider].provider_status(config, registered)
        blocks = {group: filter(None, map(block_of, of_group)) for group, of_group in rows.items()}
        status = with_ending_blocks(status, blocks, ends, truncate(self.clock.now()))
        conflict = owner_conflict(config, status.repair)
        if conflict is not None:
            status = replace(status, conditions=(*status.conditions, conflict))
        target = target_size(config.expected, registered, status)
        now = truncate(self.clock.now())
        holds = self._hold_updated_groups(config, registered, status, now)
        status = replace(status, conditions=(*status.conditions, *update_conditions(holds, status, now)))
        occupied = self._occupied_nodes(config, rows, status)

        def revise(before: ClusterState) -> ClusterState:
            provider = open_conditions(before.provider, reported, status, now)
            return replace(before, provider=provider, target=target, occupied=occupied)

        self.rollup.report_provider(config.cluster, revise)
        return status

    def record_cordons(self, config: ClusterConfig, rows: Iterable[Item], listed: Mapping[str, Instance]) -> None:
        """Record the nodes that others than Faultbridge cordoned, which the isolation budget counts."""
        cordoned = {one.instance_id for one in listed.values() if one.cordoned}
        names = sorted(str(row["node"]) for row in rows if row.get("instance") in cordoned and not row.get("retired"))
        self.rollup.report_provider(config.cluster, lambda before: replace(before, cordoned=tuple(names)))

    def block_ends(self, config: ClusterConfig, rows: Iterable[Item]) -> Mapping[str, datetime]:
        """Return when the capacity blocks of the cluster end, by id; without any call if no node runs in a block."""
        is_in_block = any(map(block_of, rows))
        return self.inventories[config.provider].block_ends(config) if is_in_block else {}

    def _occupied_nodes(
        self, config: ClusterConfig, rows: Mapping[str, Sequence[Item]], status: ProviderStatus
    ) -> dict[str, bool]:
        """Return the serving nodes that the provider occupies, and whether each was never verified."""
        names = sorted(
            str(row["node"])
            for group, reported in status.groups.items()
            for row in rows.get(group, ())
            if row.get("instance") in reported.occupied and not row.get("retired")
        )
        nodes = {keys.node_state(key): key for key in (NodeKey(config.cluster, name) for name in names)}
        found = self.registration.table.get_many(nodes) if nodes else {}
        states = [items.read_state(key, found.get(at)) for at, key in nodes.items()]
        serving = [one for one in states if one.status is not None and one.status.in_service]
        return {one.key.node: one.unverified for one in serving}

    def _hold_updated_groups(
        self, config: ClusterConfig, registered: Mapping[str, int], status: ProviderStatus, now: datetime
    ) -> tuple[UpdateHold, ...]:
        if not config.update_holds and not any(group.update for group in status.groups.values()):
            return ()
        limits = self.rollup.rulebook.policy(config).limits
        current = self.registration.cluster(config.cluster)
        holds = next_holds(current.update_holds, registered, status, limits, now)
        self.registration.set_cluster(config.cluster, {"update_holds": holds})
        return holds
