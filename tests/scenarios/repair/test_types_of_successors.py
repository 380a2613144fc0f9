"""The instance types that are launched for a successor, where no source of capacity names them."""

from __future__ import annotations

from faultbridge.model.entries import Transition
from faultbridge.model.enums import Actor, NodeStatus, WaitingFor
from faultbridge.model.policy import Rule
from faultbridge.model.values import replace
from faultbridge.repair.registry.registration import Registration
from tests.scenarios.repair.builders import FALLBACK, FREE, ON_DEMAND, OWN, UNKNOWN, launched_type
from tests.scenarios.world import CLUSTER, World

LENIENT = Rule("lenient", release_without_capacity=True)
OLD = "i-00000000000000001"


def test_a_reservation_launches_the_type_of_the_old_instance_although_another_type_is_configured_first() -> None:
    world = World(rules=(LENIENT,))
    world.launch_from_template("p5e.48xlarge", "p5.48xlarge")
    world.policy = replace(world.policy, capacity=(OWN, ON_DEMAND, FALLBACK))
    world.provider.capacities[OWN] = FREE
    assert world.node().placement.instance_type == "p5.48xlarge"
    world.fault_until_resolved()
    assert launched_type(world) == "p5.48xlarge"


def test_without_a_source_that_counts_or_names_a_type_the_first_configured_type_is_launched() -> None:
    world = World(rules=(LENIENT,))
    world.launch_from_template("p5e.48xlarge", "p5en.48xlarge")
    world.policy = replace(world.policy, capacity=(OWN,))
    world.provider.capacities[OWN] = UNKNOWN
    world.fault_until_resolved()
    assert launched_type(world) == "p5e.48xlarge"


def test_the_types_for_a_lost_instance_are_kept_if_the_registered_types_change_after_the_first_launch() -> None:
    world = World(rules=(LENIENT,))
    world.launch_from_template("p5e.48xlarge", "p5.48xlarge")
    world.fleet.set_capacity(0)
    world.fleet.terminate(OLD)
    world.fault_and_react()
    world.launch_from_template("p5en.48xlarge")
    world.advance_minutes(10)
    world.fleet.set_capacity(None)
    world.until(lambda: world.status() is NodeStatus.VALIDATING)
    assert launched_type(world) == "p5e.48xlarge"


def test_no_other_type_than_the_first_one_is_launched_where_no_source_names_a_type() -> None:
    world = World(rules=(LENIENT,))
    world.launch_from_template("p5e.48xlarge", "p5en.48xlarge")
    world.policy = replace(world.policy, capacity=(OWN,))
    world.provider.capacities[OWN] = UNKNOWN
    world.launcher.types_without_capacity.add("p5e.48xlarge")
    world.fault_and_react()
    assert (world.case().waiting_for, world.live_instances()) == (WaitingFor.CAPACITY, [OLD])


def test_a_reservation_launches_the_first_configured_type_if_the_type_of_the_old_instance_is_not_known() -> None:
    world = World(rules=(LENIENT,))
    world.launch_from_template("p5.48xlarge", "p5e.48xlarge")
    world.policy = replace(world.policy, capacity=(OWN,))
    world.provider.capacities[OWN] = FREE
    world.append(
        world.key(),
        lambda state, _: Transition(replace(state, placement=replace(state.placement, instance_type=None))),
        actor=Actor.INVENTORY,
    )
    world.fault_until_resolved()
    assert launched_type(world) == "p5.48xlarge"


def test_the_configured_types_do_not_matter_to_a_group_that_launches_its_successors_itself() -> None:
    world = World(rules=(LENIENT,))
    Registration(world.table, world.append, world.clock).set_cluster(CLUSTER, {"instance_types": ("p5.4xlarge",)})
    world.fault_until_resolved()
    assert world.released_instances() == [OLD]
