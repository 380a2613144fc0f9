"""Affected nodes: which nodes with faults of a family can be part of an incident."""

from __future__ import annotations

from datetime import timedelta

import pytest

from faultbridge.model.cluster.config import UpdateHold
from faultbridge.model.enums import NodeStatus
from faultbridge.model.fault_enums import Family
from faultbridge.model.storage.node_rows import FamilyFaults, UnhealthyNode
from faultbridge.repair.incidents import affected_nodes
from tests.builders import NOON, config


def row(status: NodeStatus, families: tuple[Family, ...] = (Family.NETWORK,)) -> UnhealthyNode:
    """Return an unhealthy node of the group `g-1` with a fault of each of these families."""
    found = {name: FamilyFaults(f"{name}.fault", NOON, NOON) for name in families}
    return UnhealthyNode("n-0", status, group="g-1", domain="rack-1", families=found)


@pytest.mark.parametrize("status", [NodeStatus.REPLACING, NodeStatus.PROVISIONING])
def test_a_node_whose_instance_was_released_is_not_affected_by_what_that_instance_reported(status: NodeStatus) -> None:
    assert affected_nodes(config(), [row(status)], NOON) == ()


@pytest.mark.parametrize("status", [NodeStatus.DEGRADED, NodeStatus.QUARANTINED, NodeStatus.DRAINING])
def test_a_node_with_its_instance_is_affected_once_for_each_family(status: NodeStatus) -> None:
    found = affected_nodes(config(), [row(status, (Family.NETWORK, Family.POWER))], NOON)
    assert [(one.node, one.family) for one in found] == [("n-0", Family.NETWORK), ("n-0", Family.POWER)]


def test_a_node_without_a_fault_of_a_family_is_not_affected() -> None:
    assert affected_nodes(config(), [row(NodeStatus.DEGRADED, ())], NOON) == ()


@pytest.mark.parametrize(
    ("group", "left", "families"),
    [("g-1", 1, ["network"]), ("g-1", 0, ["network", "heartbeat"]), ("g-2", 1, ["network", "heartbeat"])],
    ids=["updated", "update is over", "another group is updated"],
)
def test_an_update_of_the_group_explains_missing_heartbeats_and_nothing_else(
    group: str, left: int, families: list[str]
) -> None:
    updated = config(update_holds=(UpdateHold(group, NOON, NOON + timedelta(milliseconds=left)),))
    found = affected_nodes(updated, [row(NodeStatus.DEGRADED, (Family.NETWORK, Family.HEARTBEAT))], NOON)
    assert [one.family.value for one in found] == families
