"""The desired size of a group: a cluster recovers until that many nodes serve, and its events count them."""

from __future__ import annotations

from tests.hyperpod import GROUP as INSTANCE_GROUP
from tests.scenarios.provider.builders import last
from tests.scenarios.provider.growth import Growth
from tests.scenarios.provider.hyperpod_world import hyperpod_world
from tests.scenarios.provider.provider_conditions import statuses
from tests.scenarios.world import GROUP
from tests.sim.fakes import FakeInventory


def test_a_cluster_recovers_until_its_group_has_the_desired_number_of_verified_nodes() -> None:
    growth = Growth()
    fakes: FakeInventory = growth.fakes
    fakes.desired[GROUP] = 4
    growth.run_inventory()
    assert last(growth) == ("recovering", 2, 4)
    assert str(growth.statuses()[-1]["reason"]).startswith("2 of 4 nodes in service")
    (first,) = growth.launch()
    growth.run_inventory()
    growth.until_verified(first)
    assert last(growth) == ("recovering", 3, 4)
    (second,) = growth.launch()
    growth.run_inventory()
    growth.until_verified(second)
    assert last(growth) == ("healthy", 4, 4)


def test_a_smaller_desired_size_hides_no_registered_node() -> None:
    growth = Growth()
    growth.fakes.desired[GROUP] = 1
    growth.run_inventory()
    assert last(growth) == ("healthy", 2, 2)


def test_an_unchanged_size_records_nothing() -> None:
    growth = Growth()
    growth.fakes.desired[GROUP] = 3
    growth.run_inventory()
    recorded = len(growth.statuses())
    growth.run_inventory()
    assert len(growth.statuses()) == recorded


def test_a_group_that_does_not_exist_lacks_no_node() -> None:
    growth = Growth()
    growth.fakes.desired[GROUP] = 3
    growth.run_inventory()
    growth.fakes.omitted_groups.add(GROUP)
    growth.run_inventory()
    growth.world.advance_minutes(2)
    assert last(growth) == ("healthy", 2, 2)


def test_the_target_count_of_a_hyperpod_group_is_its_desired_size() -> None:
    with hyperpod_world(nodes=2) as world:
        world.cluster.desired[INSTANCE_GROUP] = 3
        world.run_inventory()
        status = statuses(world)[-1]["data"]
        assert (status["to"], status["in_service"], status["expected"]) == ("recovering", 2, 3)
