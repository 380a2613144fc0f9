"""The invariant about the status of a cluster counts the nodes that its group lacks, and no others."""

from __future__ import annotations

from datetime import timedelta

import pytest

from faultbridge.model.enums import ClusterStatus, NodeStatus
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.writes import Put
from faultbridge.model.values import replace
from tests.sim.history import build_system, draw_growing, play_on
from tests.sim.invariants.nodes import CLUSTER_INVARIANTS
from tests.sim.invariants.view import SystemView
from tests.sim.simulated_system import GROUPS, REPAIRED

GROWING = next(seed for seed in range(300) if draw_growing(seed))


@pytest.mark.parametrize(
    ("launching", "counted", "kept"),
    [(0, 0, True), (1, 1, True), (1, 0, True), (0, 1, False), (1, 2, False), (2, 1, False)],
)
def test_a_cluster_counts_all_nodes_that_its_group_lacks_or_none(launching: int, counted: int, kept: bool) -> None:
    system = build_system(GROWING)
    assert play_on(system, GROWING, ()).broken == ()
    for _ in range(launching):
        system.fleet.launch(GROUPS[REPAIRED], at=system.clock.now() + timedelta(hours=1))
    stored = items.read_cluster(REPAIRED, system.ports.table.get(keys.cluster_state(REPAIRED)))
    status = ClusterStatus.RECOVERING if counted else stored.status
    counts = {**stored.counts, **({NodeStatus.PROVISIONING: counted} if counted else {})}
    changed = items.cluster_item(replace(stored, status=status, counts=counts), system.clock.now())
    system.ports.table.write(Put(changed))
    found = [details for law in CLUSTER_INVARIANTS for details in law.violations(SystemView(system))]
    assert (not found) is kept
