"""Affected nodes: which nodes with faults of a family can be part of an incident."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from faultbridge.model.cluster.config import UpdateHold
from faultbridge.model.enums import NodeStatus
from faultbridge.model.fault_enums import Family
from faultbridge.model.times import to_text
from faultbridge.repair.incidents.correlate import affected_nodes
from tests.builders import NOON, config


def row(status: NodeStatus, families: tuple[str, ...] = ("network",)) -> dict[str, Any]:
    """Return the row of an unhealthy node of the group `g-1` with a fault of each of these families."""
    since = to_text(NOON)
    found = {name: {"since": since, "first": since, "code": f"{name}.fault", "subject": None} for name in families}
    return {"node": "n-0", "status": status.value, "domain": "rack-1", "domains": {}, "group": "g-1", "families": found}


@pytest.mark.parametrize("status", [NodeStatus.REPLACING, NodeStatus.PROVISIONING])
def test_a_node_whose_instance_was_released_is_not_affected_by_what_that_instance_reported(status: NodeStatus) -> None:
    assert affected_nodes(config(), [row(status)], NOON) == ()


@pytest.mark.parametrize("status", [NodeStatus.DEGRADED, NodeStatus.QUARANTINED, NodeStatus.DRAINING])
def test_a_node_with_its_instance_is_affected_once_for_each_family(status: NodeStatus) -> None:
    found = affected_nodes(config(), [row(status, ("network", "power"))], NOON)
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
    found = affected_nodes(updated, [row(NodeStatus.DEGRADED, ("network", "heartbeat"))], NOON)
    assert [one.family.value for one in found] == families
