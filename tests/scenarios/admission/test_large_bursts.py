"""A burst of many nodes: each node is isolated at once; the whole cluster is updated after enough further failures."""

from __future__ import annotations

import pytest

from faultbridge.domain.copies import replace
from faultbridge.domain.edges import NodeStatus
from faultbridge.ops.large_bursts import LargeBursts
from faultbridge.storage import items, keys
from tests.scenarios.world import CLUSTER, World, limits


@pytest.fixture
def world() -> World:
    """Return a cluster of which six of twelve nodes failed: more than four are many, and as many more are enough."""
    world = World(nodes=12, limits=limits(concurrent=1, per_hour=500), orchestrated=True)
    bursts = world.react.bursts
    bursts.many, bursts.share = 4, 1
    fail(world, *range(1, 7))
    assert failed_nodes(world) == 6
    return world


def fail(world: World, *nodes: int) -> None:
    """Let nodes fail, and process their entries as one batch."""
    for node in nodes:
        world.fault(node)
    world.process_entries()


def failed_nodes(world: World) -> int:
    """Return how many nodes are not healthy by the recorded status of the cluster."""
    counts = items.read_cluster(CLUSTER, world.table.get(keys.cluster_state(CLUSTER))).counts
    return sum(number for status, number in counts.items() if status != NodeStatus.HEALTHY)


def test_a_further_node_is_isolated_at_once_and_counted_with_the_next_ones(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "faultbridge")
    fail(world, 7)
    assert world.status(7) is NodeStatus.QUARANTINED
    assert failed_nodes(world) == 6
    assert {one.__dict__["cluster"] for one in caplog.records if one.message == "cluster_steps_left_out"} == {CLUSTER}
    fail(world, 8, 9)
    assert failed_nodes(world) == 9


def test_the_sweep_counts_a_node_that_no_others_follow(world: World) -> None:
    fail(world, 7)
    assert failed_nodes(world) == 6
    world.advance_minutes()
    assert failed_nodes(world) == 7


def test_a_new_process_counts_every_node_in_its_first_batch(world: World) -> None:
    world.react = replace(world.react, bursts=LargeBursts(many=4, share=1))
    fail(world, 7)
    assert failed_nodes(world) == 7
