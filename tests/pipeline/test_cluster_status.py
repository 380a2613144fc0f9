"""The status of a cluster, from the number of its nodes in each status."""

from __future__ import annotations

import pytest

from faultbridge.decide.breaker import Thresholds, cluster_status, nodes_by_status
from faultbridge.model.enums import ClusterStatus, NodeStatus

N, C = NodeStatus, ClusterStatus


@pytest.mark.parametrize(
    ("bad", "expected", "status"),
    [
        ({}, 10, C.HEALTHY),
        ({N.DEGRADED: 1}, 10, C.DEGRADED),
        ({N.DEGRADED: 10}, 10, C.DEGRADED),
        ({N.QUARANTINED: 1}, 10, C.DEGRADED),
        ({N.QUARANTINED: 2}, 10, C.CRITICAL),
        ({N.REPLACING: 1}, 10, C.RECOVERING),
        ({N.REPLACING: 1, N.FAILED: 1}, 11, C.DEGRADED),
        ({N.REPLACING: 2}, 10, C.CRITICAL),
        ({N.PROVISIONING: 9}, 10, C.RECOVERING),
        ({N.VALIDATING: 3, N.DEGRADED: 1}, 10, C.DEGRADED),
        (
            {N.PROVISIONING: 1, N.VALIDATING: 1, N.DRAINING: 1, N.REPAIRING: 1, N.REPLACING: 1},
            100,
            C.RECOVERING,
        ),
        ({N.QUARANTINED: 20}, 101, C.DEGRADED),
    ],
)
def test_the_cluster_status_follows_from_its_nodes(bad, expected, status):
    assert cluster_status(bad, expected) is status


def test_a_cluster_with_an_unknown_number_of_nodes_is_never_critical():
    assert cluster_status({N.FAILED: 2}, 0) is C.DEGRADED


def test_the_threshold_of_critical_is_configurable():
    assert cluster_status({N.FAILED: 2}, 10, Thresholds(critical_percent=50)) is C.DEGRADED


def test_the_remaining_nodes_count_as_healthy():
    assert nodes_by_status({N.FAILED: 2}, 10) == {"failed": 2, "healthy": 8}
    assert nodes_by_status({N.FAILED: 2}, 1) == {"failed": 2}
