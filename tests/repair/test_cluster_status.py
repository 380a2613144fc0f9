"""Rollup: one truth a cluster, whoever else computes it at the same time."""

from __future__ import annotations

from faultbridge.domain.clusters import ClusterStatus
from faultbridge.domain.edges import NodeStatus
from faultbridge.simulation.fakes import Call
from faultbridge.storage import items, keys
from tests.scenarios.world import CLUSTER, World


def state(world: World):
    return items.read_cluster(CLUSTER, world.table.get(keys.cluster_state(CLUSTER)))


def test_the_first_look_is_put_on_the_record_and_the_second_says_nothing_more():
    world = World(nodes=3)
    before = state(world)
    world.rollup(CLUSTER)
    after = state(world)
    assert (after.status, after.counts) == (ClusterStatus.HEALTHY, {"healthy": 3})
    assert after.head.version == before.head.version + 1
    assert after.head.sequence == before.head.sequence


def test_the_version_rises_even_when_nothing_changed():
    world = World()
    versions = [world.rollup(CLUSTER).head.version for _ in range(3)]
    assert versions == sorted(set(versions))


def test_a_change_of_counts_alone_is_an_entry():
    world = World(nodes=20)
    for node in (1, 2):
        world.fault(node, code="xid.92")
        world.rollup(CLUSTER)
    counts = [body["data"]["counts"] for body in world.bodies(None)]
    assert counts[-2:] == [{"degraded": 1, "healthy": 19}, {"degraded": 2, "healthy": 18}]
    assert world.bodies(None)[-1]["data"]["from"] == "degraded"


def test_a_rollup_that_read_before_a_node_failed_never_writes_after_one_that_read_later():
    world = World(nodes=20)

    def fail_in_between(call: Call) -> None:
        # The rows are read; before they are written, a node fails and another rollup tells so.
        if call.name in {"table.write", "table.transact"}:
            world.seam.before = lambda _: None
            world.fault(1, code="xid.92")
            world.rollup(CLUSTER)

    world.seam.before = fail_in_between
    world.rollup(CLUSTER)
    assert state(world).status is ClusterStatus.DEGRADED


def test_every_page_of_rows_is_counted():
    world = World(nodes=7)
    world.table.page_size = 2
    for node in range(1, 8):
        world.fault(node, code="xid.92")
    assert world.rollup(CLUSTER).counts == {NodeStatus.DEGRADED.value: 7}


def test_the_worst_severity_among_its_nodes_is_the_clusters():
    world = World(nodes=20)
    world.fault(1, code="xid.92")
    world.fault(2, code="xid.79")
    world.rollup(CLUSTER)
    assert world.bodies(None)[-1]["metadata"]["severity"] == "fatal"
    assert world.bodies(None)[-1]["metadata"]["node"] is None
