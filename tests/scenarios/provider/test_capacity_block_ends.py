"""A capacity block that ends as planned: its instances are terminated, which is no failure of many nodes."""

from __future__ import annotations

from datetime import timedelta

from faultbridge.model.enums import NodeStatus
from tests.scenarios.provider.builders import last
from tests.scenarios.provider.growth import Growth
from tests.scenarios.world import CLUSTER, GROUP

BLOCK = "cr-0123456789abcdef0"


def in_block(minutes: int, nodes: int = 6) -> Growth:
    """Return a cluster whose nodes run in a capacity block that ends after this many minutes."""
    growth = Growth(nodes=nodes, known=False)
    growth.fakes.block = BLOCK
    growth.fakes.desired[GROUP] = nodes
    growth.run_inventory()
    growth.fakes.ends[BLOCK] = growth.world.clock.now() + timedelta(minutes=minutes)
    return growth


def run_for(growth: Growth, minutes: int) -> None:
    """Run the inventory every five minutes for a time, as the schedule does."""
    for _ in range(minutes // 5):
        growth.world.advance_minutes(5)
        growth.run_inventory()


def statuses(growth: Growth, nodes: int = 6) -> set[NodeStatus | None]:
    return {growth.world.status(number) for number in range(1, nodes + 1)}


def terminate_all(growth: Growth) -> None:
    for instance in list(growth.world.fleet.running(GROUP)):
        growth.world.fleet.remove(instance.instance_id)


def test_the_planned_end_of_a_block_opens_no_case_and_retires_its_nodes() -> None:
    growth = in_block(50)
    run_for(growth, 20)
    terminate_all(growth)
    run_for(growth, 25)
    assert statuses(growth) == {NodeStatus.PROVISIONING}
    run_for(growth, 120)
    assert statuses(growth) == {NodeStatus.RETIRED}
    assert all(growth.world.node(number).case is None for number in range(1, 7))
    assert growth.registration.cluster(CLUSTER).expected == 0
    opened = [body for body in growth.world.bodies(None) if body["metadata"]["event_type"].startswith("Case")]
    assert opened == []


def test_the_cluster_states_that_the_block_ends_and_that_repairs_wait() -> None:
    growth = in_block(50)
    run_for(growth, 5)
    assert f"updating in group {GROUP}: capacity block {BLOCK} ends at " in str(growth.statuses()[-1]["reason"])
    assert growth.registration.cluster(CLUSTER).update_holds[0].group == GROUP


def test_a_block_that_ends_later_holds_nothing() -> None:
    growth = in_block(120)
    run_for(growth, 30)
    assert growth.registration.cluster(CLUSTER).update_holds == ()


def test_an_instance_that_is_gone_long_before_the_end_of_its_block_is_replaced() -> None:
    growth = in_block(24 * 60, nodes=2)
    growth.world.fleet.remove("i-00000000000000001")
    run_for(growth, 60)
    assert growth.world.status(1) is NodeStatus.PROVISIONING
    assert growth.registration.cluster(CLUSTER).expected == 2


def test_the_node_of_an_instance_that_starts_in_another_block_is_kept() -> None:
    growth = in_block(50, nodes=2)
    run_for(growth, 20)
    terminate_all(growth)
    run_for(growth, 10)
    growth.fakes.block = "cr-0123456789abcdef1"
    growth.launch(2)
    run_for(growth, 60)
    assert NodeStatus.RETIRED not in statuses(growth, 2)
    assert last(growth)[1:] == (2, 2)
