"""Two HyperPod clusters whose groups have one name: each is listed, verified and reported on its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest

from faultbridge.local.hyperpod import FakeHyperPod, FakeSageMaker, Group, Node
from faultbridge.model.cluster.config import HYPERPOD, ClusterConfig, Mode, RepairOwner
from faultbridge.model.enums import ConditionKind, NodeStatus
from faultbridge.model.storage import items, keys
from faultbridge.repair.registry.registration import NewNode
from faultbridge.repair.registry.views import Views
from faultbridge.serve.ops.erase import Erase
from tests.hyperpod import GROUP, NAME, SLOW
from tests.scenarios.provider.hyperpod_world import HyperPodWorld, hyperpod_world
from tests.scenarios.provider.provider_conditions import SCRIPT, cluster_event, kinds
from tests.scenarios.world import CLUSTER

OTHER, OTHER_NAME = "train-b", "hp-b"
TEN_DAYS = timedelta(days=10)


class TwoClusters:
    """The cluster of the world, whose group is known, and ten days later another one with a group of that name."""

    def __init__(self, world: HyperPodWorld, sagemaker: FakeSageMaker) -> None:
        self.world, self.registration = world, world.inventory.registration
        world.run_inventory()
        world.clock.advance(TEN_DAYS)
        groups = {GROUP: Group(GROUP, "ml.p5.48xlarge")}
        self.other = FakeHyperPod(OTHER_NAME, groups, "None", now=world.clock.now, durations=SLOW)
        sagemaker.clusters[OTHER_NAME] = self.other
        self.serving = [self.other.launch(GROUP) for _ in range(3)]
        world.clock.advance(TEN_DAYS)

    def register(self, cluster: str, name: str, node: Node) -> None:
        """Register a cluster with one of its nodes, which serves."""
        parts = {"provider": HYPERPOD, "verifier": HYPERPOD, "restarter": HYPERPOD, "hyperpod_cluster": name}
        config = ClusterConfig(cluster, repair_owner=RepairOwner.FAULTBRIDGE, mode=Mode.ACT, **parts)  # type: ignore[arg-type] # names of parts
        self.registration.add_cluster(config)
        instance, now = node.instance_id, self.world.clock.now()
        new = NewNode("first", instance, GROUP, node.group.instance_type, slot=node.slot, since=now)
        self.registration.add_node(cluster, new)
        self.run_inventory(cluster)

    def run_inventory(self, cluster: str) -> None:
        self.world.inventory.sync(self.registration.cluster(cluster))
        self.world.process_entries()

    def nodes(self, cluster: str) -> Counter[NodeStatus | None]:
        return Counter(one.status for one in Views(self.world.table).nodes(cluster))

    def conditions(self, cluster: str) -> list[ConditionKind]:
        stored = items.read_cluster(cluster, self.world.table.get(keys.cluster_state(cluster)))
        return [one.kind for one in stored.provider]


@contextmanager
def two_clusters() -> Iterator[TwoClusters]:
    sagemaker = FakeSageMaker()
    with hyperpod_world(nodes=2, settings={"sagemaker": sagemaker}) as world:
        yield TwoClusters(world, sagemaker)


def test_the_nodes_of_the_second_cluster_serve_on_when_it_is_registered() -> None:
    with two_clusters() as both:
        both.register(OTHER, OTHER_NAME, both.serving[0])
        assert both.nodes(OTHER) == {NodeStatus.HEALTHY: 3}
        both.world.clock.advance(timedelta(minutes=1))
        both.other.launch(GROUP)
        both.run_inventory(OTHER)
        found = both.nodes(OTHER)
        assert (found[NodeStatus.HEALTHY], found.total()) == (3, 4)


def test_a_failed_launch_is_a_condition_of_the_cluster_that_its_event_names() -> None:
    with two_clusters() as both:
        both.register(OTHER, OTHER_NAME, both.serving[0])
        both.world.cluster.desired[GROUP] = both.other.desired[GROUP] = 5
        both.world.receive_event(cluster_event(SCRIPT, cluster=OTHER_NAME))
        assert (both.conditions(OTHER), kinds(both.world)) == ([ConditionKind.LIFECYCLE_SCRIPT], [])
        both.world.receive_event(cluster_event(SCRIPT, cluster=NAME))
        assert (both.conditions(OTHER), kinds(both.world)) == ([ConditionKind.LIFECYCLE_SCRIPT],) * 2


@pytest.mark.parametrize("cluster", [CLUSTER, "again"])
def test_a_cluster_that_was_erased_and_registered_again_keeps_its_nodes_in_service(cluster: str) -> None:
    with two_clusters() as both:
        Erase(both.world.table).erase(CLUSTER)
        assert not [one for one in both.world.table.items() if GROUP in str(one)]
        both.world.clock.advance(TEN_DAYS)
        for _ in range(2):
            both.world.cluster.launch(GROUP)
        both.world.clock.advance(TEN_DAYS)
        both.world.receive_event(cluster_event(SCRIPT))
        both.register(cluster, NAME, both.world.cluster.current()[0])
        assert both.nodes(cluster) == {NodeStatus.HEALTHY: 4}
