"""Queries of the rows of a cluster."""

from __future__ import annotations

from faultbridge.model.storage import keys
from faultbridge.model.storage.writes import Update
from faultbridge.record.queries import node_names, nodes_in_use
from tests.ingest.world import LedgerFixture


def test_the_nodes_in_use_are_the_registered_ones_that_are_not_retired() -> None:
    world = LedgerFixture()
    for name in ("n-1", "n-2"):
        world.register_node(name)
    world.table.write(Update(keys.roster("train-a", 0, "n-2"), set={("retired",): True}))
    assert [one.node for one in nodes_in_use(world.table, world.config)] == ["n-1"]
    assert list(node_names(world.table, world.config)) == ["n-1", "n-2"]
