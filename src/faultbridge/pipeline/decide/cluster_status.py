"""Rollup: the status of a cluster from how many of its nodes are in which status."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from faultbridge.domain.clusters import ClusterStatus
from faultbridge.domain.edges import NodeStatus

RECOVERING = frozenset(
    {
        NodeStatus.PROVISIONING,
        NodeStatus.VALIDATING,
        NodeStatus.DRAINING,
        NodeStatus.REPAIRING,
        NodeStatus.REPLACING,
    }
)
"""Somebody is on it: the node is on its way back."""

GROWING = frozenset({NodeStatus.PROVISIONING, NodeStatus.VALIDATING})
"""Not yet there is not broken: a cluster that grows is not critical."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """From which share of its nodes out of service, in per cent, a cluster is critical; one node alone never is."""

    critical_percent: int = 20
    critical_nodes: int = 2


def counted(bad: Mapping[NodeStatus, int], expected: int) -> dict[str, int]:
    """Count nodes by status, the healthy ones being the nodes of which nothing else is said."""
    healthy = max(expected - sum(bad.values()), 0)
    counts = {NodeStatus.HEALTHY.value: healthy} | {status.value: number for status, number in bad.items()}
    return {status: counts[status] for status in sorted(counts) if counts[status]}


def cluster_status(
    bad: Mapping[NodeStatus, int], expected: int, thresholds: Thresholds = Thresholds()
) -> ClusterStatus:
    """Judge a cluster; one whose number of nodes nobody gave is never critical, because any share would be a guess."""
    present = {status for status, number in bad.items() if number}
    if not present:
        return ClusterStatus.HEALTHY
    out = sum(number for status, number in bad.items() if not status.in_service and status not in GROWING)
    enough = out >= thresholds.critical_nodes and out * 100 >= thresholds.critical_percent * expected
    if expected and enough:
        return ClusterStatus.CRITICAL
    return ClusterStatus.RECOVERING if present <= RECOVERING else ClusterStatus.DEGRADED
