"""Cluster status rule: derive a cluster's status from the number of its nodes in each status.

The rule is pure. `repair/cluster_status.py` records the result on the cluster's timeline.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from faultbridge.dataclass import dataclass
from faultbridge.domain.cluster.provider_status import NEEDS_OPERATOR, ProviderCondition
from faultbridge.domain.cluster.state import ClusterStatus
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
"""Statuses of nodes that return to service without an operator."""

GROWING = frozenset({NodeStatus.PROVISIONING, NodeStatus.VALIDATING})
"""Statuses of nodes that are not in service yet; they do not make a cluster critical."""


IN_SERVICE, PROVIDER_RECOVERS, ACTION_REQUIRED = "in_service", "recovering", "action_required"
"""The health of a cluster as its provider reports it."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The percentage and the number of nodes out of service that make a cluster critical.

    Both must be reached.
    """

    critical_percent: int = 20
    critical_nodes: int = 2


def nodes_by_status(bad: Mapping[NodeStatus, int], expected: int) -> dict[str, int]:
    """Return the number of nodes by status. `bad` contains the number in each status except healthy.

    The result counts all other nodes of the `expected` number as healthy. A status without nodes is left out.
    """
    healthy = max(expected - sum(bad.values()), 0)
    counts = {NodeStatus.HEALTHY.value: healthy} | {status.value: number for status, number in bad.items()}
    return {status: counts[status] for status in sorted(counts) if counts[status]}


def in_service(counts: Mapping[str, int]) -> int:
    """Return the number of nodes on which jobs may run, from the number of nodes by status."""
    return sum(number for status, number in counts.items() if NodeStatus(status).in_service)


def provider_health(conditions: Iterable[ProviderCondition]) -> str:
    """Return the provider's health: `action_required`, `recovering` or `in_service`.

    `action_required` means that an operator must act. `recovering` means that any other condition is open.
    """
    kinds = {one.kind for one in conditions}
    if kinds & NEEDS_OPERATOR:
        return ACTION_REQUIRED
    return PROVIDER_RECOVERS if kinds else IN_SERVICE


def provider_stage(before: Iterable[ProviderCondition], after: Iterable[ProviderCondition]) -> str | None:
    """Return `begun` if the conditions start to require an operator, `over` if they stop, else None."""
    needed, needs = (provider_health(one) == ACTION_REQUIRED for one in (before, after))
    return None if needed == needs else "begun" if needs else "over"


def cluster_status(
    bad: Mapping[NodeStatus, int],
    expected: int,
    thresholds: Thresholds = Thresholds(),  # noqa: B008 - it is immutable
    provider: Iterable[ProviderCondition] = (),
    occupied: int = 0,
) -> ClusterStatus:
    """Return the status of a cluster. A cluster without an expected number of nodes is never critical.

    `bad` contains the number of nodes in each status other than healthy. A cluster is not healthy while its provider
    reports open conditions, or while the provider keeps new work off some of its nodes (`occupied`, their number).
    """
    health = provider_health(provider)
    present = {status for status, number in bad.items() if number}
    if not present and health == IN_SERVICE and not occupied:
        return ClusterStatus.HEALTHY
    out = sum(number for status, number in bad.items() if not status.in_service and status not in GROWING)
    exceeded = out >= thresholds.critical_nodes and out * 100 >= thresholds.critical_percent * expected
    if expected and exceeded:
        return ClusterStatus.CRITICAL
    recovers = present <= RECOVERING and health != ACTION_REQUIRED
    return ClusterStatus.RECOVERING if recovers else ClusterStatus.DEGRADED
