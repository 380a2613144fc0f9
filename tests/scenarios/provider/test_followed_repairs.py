"""A repair by the provider: how long it may take, when it counts as done, and the instances that its entries name."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from faultbridge.model.enums import NodeStatus, Resolution
from faultbridge.model.policy import Limits
from faultbridge.repair.case_orders import OperatorOrder
from faultbridge.repair.registry.registration import Registration
from tests.scenarios.provider.external_replacement import ExternalReplacement
from tests.scenarios.provider.external_termination import busy_world
from tests.scenarios.provider.provider_repair import (
    ESCALATED,
    FIRST,
    RESOLVED,
    followed_world,
    repair_calls,
    run_inventory_until,
)
from tests.scenarios.world import CLUSTER, GROUP, World


def step(world: World, name: str, outcome: str) -> dict[str, Any]:
    """Return the only entry about a step that has this outcome."""
    bodies = (body["data"] for body in world.bodies())
    (found,) = [one for one in bodies if (one.get("step"), one.get("outcome")) == (name, outcome)]
    return found


def without_instance(world: World) -> ExternalReplacement:
    """Let the provider terminate the instance of the node, and the inventory record it before a successor runs."""
    external = ExternalReplacement(world)
    world.fleet.launch_delay = timedelta(hours=3)
    world.fleet.terminate(FIRST)
    run_inventory_until(world, external, lambda: world.status() is NodeStatus.PROVISIONING)
    return external


def test_a_fault_that_is_reported_without_end_is_escalated_after_four_deadlines() -> None:
    world = followed_world()
    minutes = 0
    while not world.case_is(ESCALATED)():
        minutes += 10
        world.fault()
        world.advance_minutes(10)
    assert minutes == 4 * Limits().follow_deadline // timedelta(minutes=1)
    assert step(world, "follow", "stalled")["old_instance"] == FIRST


def test_a_node_without_an_instance_is_not_verified_before_its_successor_is_attached() -> None:
    world = followed_world()
    external = without_instance(world)
    world.clear()
    for _ in range(20):
        external.run_inventory()
        world.advance_minutes()
    assert (world.status(), list(world.node().active())) == (NodeStatus.PROVISIONING, [])
    assert "follow repaired" not in world.record_history()
    new = world.fleet.launch(GROUP)
    run_inventory_until(world, external, world.case_is(RESOLVED))
    assert step(world, "follow", "repaired")["new_instance"] == new


def test_a_followed_instance_that_is_gone_during_its_verification_is_left_to_the_inventory() -> None:
    world = followed_world()
    world.advance_minutes(3)
    world.clear()
    world.until(lambda: "verify begun" in world.record_history())
    world.fleet.launch_delay = timedelta(hours=3)
    world.fleet.terminate(FIRST)
    world.advance_minutes(20)
    assert "verify no_result" in world.record_history()
    assert "verify gone" not in world.record_history()
    assert (world.case().attempts, repair_calls(world)) == (1, [])


def test_the_entry_of_an_instance_that_is_gone_names_it() -> None:
    world = busy_world()
    world.fault_and_react(minutes=3)
    world.fleet.terminate(FIRST)
    world.until(lambda: world.status() is NodeStatus.PROVISIONING)
    assert step(world, "drain", "gone")["old_instance"] == FIRST


def test_a_case_that_is_canceled_before_the_provider_begins_leads_to_a_verification_only() -> None:
    world = World()
    world.pause_repairs(paused=True)
    followed_world(world)
    assert world.status() is NodeStatus.QUARANTINED
    world.orders.cancel(world.case().id, OperatorOrder("arn:aws:iam::123456789012:user/ada", "a false alarm"))
    world.pause_repairs(paused=False)
    world.until(world.case_is(RESOLVED))
    steps = ("drain ", "follow ", "verify ", "node quarantined", "node draining")
    assert [line for line in world.record_history() if line.startswith(steps)] == [
        "node quarantined -> draining",
        "drain not_applicable",
        "node draining -> validating",
        "verify begun",
        "verify passed",
    ]


def test_a_repaired_node_that_no_diagnostics_reach_serves_and_stays_marked_as_never_verified() -> None:
    world = followed_world()
    Registration(world.table, world.append, world.clock).set_cluster(CLUSTER, {"verifier": "none"})
    external = ExternalReplacement(world)
    world.fleet.terminate(FIRST)
    run_inventory_until(world, external, world.case_is(RESOLVED))
    assert (world.status(), world.case().resolution) == (NodeStatus.HEALTHY, Resolution.EXTERNAL)
    assert world.node().unverified
    assert list(world.node().active()) == []
    assert "verify not_applicable" in world.record_history()
    assert repair_calls(world) == []
    assert world.verifier.started == {}


def test_a_rebooted_node_that_no_diagnostics_reach_waits_until_its_fault_is_no_longer_reported() -> None:
    world = followed_world(code="xid.79")
    Registration(world.table, world.append, world.clock).set_cluster(CLUSTER, {"verifier": "none"})
    world.advance_minutes(5)
    world.report_boot("boot-2")
    world.fault(code="xid.79")
    world.advance_minutes(30)
    assert world.status() is not NodeStatus.HEALTHY
