"""Provider check: records what the provider reports about a whole cluster, once per sync.

A condition of the provider is recorded in the cluster's stream and never starts a repair of a node. The repairs of a
group wait while its owner updates it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from faultbridge.domain.cluster.config import ClusterConfig
from faultbridge.domain.cluster.group_updates import UpdateHold
from faultbridge.domain.cluster.provider_status import ProviderCondition, ProviderStatus
from faultbridge.domain.cluster.state import ClusterState
from faultbridge.domain.times import truncate
from faultbridge.pipeline.decide.provider_conditions import next_holds, open_conditions, target_size, update_conditions
from faultbridge.ports import Clock
from faultbridge.registry.instances import Inventory
from faultbridge.registry.registration import Registration
from faultbridge.registry.repair_owner import owner_conflict
from faultbridge.repair.cluster_status import ClusterRollup


@dataclass(frozen=True, slots=True)
class ProviderCheck:
    """Asks the provider of a cluster for its status; records conditions, updates and the number of nodes to expect."""

    inventories: Mapping[str, Inventory]
    rollup: ClusterRollup
    clock: Clock
    registration: Registration

    def __call__(
        self, config: ClusterConfig, registered: Mapping[str, int], reported: Sequence[ProviderCondition] = ()
    ) -> ProviderStatus:
        """Record the status of a cluster; `registered` is the number of its nodes by group.

        `reported` are conditions of failed launches in events. Raises Transient or Misconfigured when the provider
        does not answer; then nothing changes.
        """
        status = self.inventories[config.provider].provider_status(config, registered)
        conflict = owner_conflict(config, status.repair)
        if conflict is not None:
            status = replace(status, conditions=(*status.conditions, conflict))
        target = target_size(config.expected, registered, status)
        now = truncate(self.clock.now())
        holds = self._hold_updated_groups(config, status, now)
        status = replace(status, conditions=(*status.conditions, *update_conditions(holds, status, now)))

        def revise(before: ClusterState) -> ClusterState:
            return replace(before, provider=open_conditions(before.provider, reported, status, now), target=target)

        self.rollup.report_provider(config.cluster, revise)
        return status

    def _hold_updated_groups(
        self, config: ClusterConfig, status: ProviderStatus, now: datetime
    ) -> tuple[UpdateHold, ...]:
        """Store which groups are being updated, if that changed, and return the update holds."""
        if not config.update_holds and not any(group.update for group in status.groups.values()):
            return ()
        limits = self.rollup.rulebook.policy(config).limits
        current = self.registration.cluster(config.cluster)
        holds = next_holds(current.update_holds, status, limits, now)
        self.registration.set_cluster(config.cluster, {"update_holds": holds})
        return holds
