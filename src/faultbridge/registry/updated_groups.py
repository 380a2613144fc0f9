"""Updated groups: retires nodes that left in an update of their group, which put other nodes in their place."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from faultbridge.domain.cluster.config import ClusterConfig
from faultbridge.domain.cluster.provider_status import ProviderStatus
from faultbridge.domain.nodes import NodeKey
from faultbridge.errors import Rejected
from faultbridge.log import log_cause
from faultbridge.pipeline.decide.instance_pairing import VacantNode
from faultbridge.registry.groups import Group
from faultbridge.registry.instances import SyncResult
from faultbridge.registry.retirement import Retirement


def is_replaced(config: ClusterConfig, group: Group, status: ProviderStatus, result: SyncResult, now: datetime) -> bool:
    """Return whether an update made a group complete without its vacant nodes.

    An instance that is reserved for a repair, or backs no node yet, may still belong to a vacant node.
    """
    reported = status.groups.get(group.name)
    updated = config.update_hold(group.name, now) is not None
    return updated and reported is not None and reported.complete and not group.unassigned and not result.waiting


@dataclass(frozen=True, slots=True)
class RetireReplaced:
    """Retires the vacant nodes of a group whose update is complete without them."""

    retirement: Retirement

    def __call__(
        self, config: ClusterConfig, group: Group, vacancies: Iterable[VacantNode], result: SyncResult
    ) -> None:
        """Retire each node whose instance is gone; one whose repair has passed its intent stays."""
        former = {str(row["node"]): row.get("instance") for row in group.missing}
        for vacancy in vacancies:
            instance_id = former.get(vacancy.node)
            if not vacancy.open or not instance_id:
                continue
            try:
                self.retirement.after_update(NodeKey(config.cluster, vacancy.node), str(instance_id))
            except Rejected as error:
                log_cause("node_not_retired", reason=str(error), level=logging.WARNING, cluster=config.cluster)
            else:
                result.retired.append(vacancy.node)
