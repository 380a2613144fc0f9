"""Builders and constants that several tests of this folder use."""

from __future__ import annotations

from faultbridge.model.nodes import NodeKey
from faultbridge.record.timeline import TimelineQuery
from faultbridge.record.verify import Verify
from tests.ingest.world import LedgerFixture
from tests.ledger.bulk import CLUSTER

N1 = NodeKey("train-a", "n-1")


def recorded_history() -> tuple[LedgerFixture, Verify]:
    world = LedgerFixture()
    for name in ("n-1", "n-2"):
        key = world.register_node(name)
        for number in range(4):
            world.pass_time(minutes=1)
            world.note(key, f"note {number}")
    world.rollup.update("train-a")
    return world, Verify(world.table, world.stack)


NODES = 2_000

SHARDS = 16

PAGE = 50

QUERIES = {
    "cluster": TimelineQuery(CLUSTER),
    "node": TimelineQuery(CLUSTER, "n-0007"),
    "case": TimelineQuery(case="c-7"),
    "device": TimelineQuery(device="GPU-7"),
}

# Largest number of requests and items of one page of 50. Every shard of a cluster is queried at least once.
MAX_COST = {"cluster": (1 + 2 * SHARDS, 1 + 24 * SHARDS), "node": (3, 2 + PAGE + 1), "case": (2, 1 + PAGE + 1)}
