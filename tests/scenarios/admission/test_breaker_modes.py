"""Breakers are updated only where Faultbridge repairs the nodes."""

from __future__ import annotations

from typing import Any

import pytest

from faultbridge.model.cluster.config import Mode, RepairOwner
from faultbridge.model.cluster.state import BreakerLimit, BreakerState
from faultbridge.repair.registry.registration import Registration
from tests.scenarios.world import CLUSTER, World


def breakers_after_five_faults(**changes: Any) -> list[BreakerState]:
    world = World(nodes=8, breakers=(BreakerLimit(nodes=5, percent=20),))
    Registration(world.table, world.append, world.clock).set_cluster(CLUSTER, changes)
    for node in range(1, 6):
        world.fault(node)
    world.guard.update(CLUSTER)
    return [one.state for one in world.control().breakers.values()]


def test_five_faults_open_the_breaker_of_a_cluster_that_faultbridge_repairs() -> None:
    assert breakers_after_five_faults(mode=Mode.ACT) == [BreakerState.OPEN]


@pytest.mark.parametrize("changes", [{"mode": Mode.DRY_RUN}, {"repair_owner": RepairOwner.PROVIDER}])
def test_no_breaker_opens_in_a_cluster_that_faultbridge_does_not_repair(changes: dict[str, Any]) -> None:
    assert breakers_after_five_faults(**changes) == []
