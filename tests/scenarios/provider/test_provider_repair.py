"""Provider repair: Faultbridge only follows, verifies the result, and escalates a stalled repair."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from faultbridge.decode.data import load_catalog
from faultbridge.model.enums import CaseStatus, NodeStatus, Resolution
from faultbridge.record.ports.compute import Verdict, Verification
from tests.scenarios.provider.external_replacement import ExternalReplacement
from tests.scenarios.provider.provider_repair import (
    ESCALATED,
    RESOLVED,
    followed_world,
    repair_calls,
    run_inventory_until,
)
from tests.scenarios.world import World


@pytest.mark.parametrize("orchestrated", [False, True])
def test_an_instance_that_the_provider_replaces_is_followed_to_a_verified_node(orchestrated: bool) -> None:
    world = followed_world(orchestrated=orchestrated)
    external = ExternalReplacement(world)
    world.advance_minutes(10)
    assert world.status() is NodeStatus.DRAINING
    new = external.replace_instance()
    run_inventory_until(world, external, world.case_is(RESOLVED))
    node = world.node()
    assert (node.status, node.incarnation.instance_id) == (NodeStatus.HEALTHY, new)
    assert (world.case().resolution, node.unverified) == (Resolution.EXTERNAL, False)
    assert repair_calls(world) == []
    assert world.control().holders == {}
    assert world.record_history()[5:] == [
        "node degraded -> quarantined",
        "case queued -> in_progress",
        "node quarantined -> draining",
        "drain not_applicable",
        "cleared xid.79",
        "note inventory",
        "node draining -> provisioning",
        "node provisioning -> validating",
        "follow repaired",
        "verify begun",
        "verify passed",
        "return_to_service not_applicable",
        "node validating -> healthy",
        "case in_progress -> resolved (external)",
    ]


def test_a_repair_by_the_provider_is_followed_at_once_without_a_call_about_the_running_work() -> None:
    world = World(orchestrated=True, catalog=load_catalog())
    world.orchestrator.busy_until = {"node-1": world.clock.now() + timedelta(days=1)}
    followed_world(world, code="smi.row_remap_pending")
    world.advance_minutes()
    assert world.case().status is CaseStatus.IN_PROGRESS
    assert [call.name for call in world.seam.calls if call.port == "orchestrator"] == []


def test_a_stalled_provider_repair_escalates_within_an_hour() -> None:
    world = followed_world()
    minutes = world.until(world.case_is(ESCALATED))
    assert 60 <= minutes <= 65
    assert world.case().reason.startswith("TIMEOUT: the provider makes no progress")
    assert (world.status(), repair_calls(world)) == (NodeStatus.FAILED, [])


def test_only_a_boot_after_the_follow_started_counts_as_the_providers_reboot() -> None:
    world = World()
    world.report_boot("boot-1")
    world = followed_world(world)
    world.report_boot("boot-2")
    world.advance_minutes(5)
    assert world.status() is NodeStatus.DRAINING
    world.report_boot("boot-3")
    world.until(lambda: "follow repaired" in world.record_history(), 15)
    assert world.status() is NodeStatus.VALIDATING


def test_the_provider_deadline_counts_from_the_latest_report_of_the_fault() -> None:
    world = followed_world()
    world.advance_minutes(50)
    world.fault()
    world.advance_minutes(50)
    assert world.case().status is CaseStatus.IN_PROGRESS
    world.until(world.case_is(ESCALATED), minutes=20)


def test_a_node_that_the_provider_reports_as_healthy_is_verified_before_it_serves() -> None:
    world = followed_world()
    world.advance_minutes(5)
    world.clear()
    world.until(world.case_is(RESOLVED))
    assert "verify passed" in world.record_history()
    assert (world.status(), world.node().former_instances) == (NodeStatus.HEALTHY, ())


def test_a_provider_replacement_that_fails_its_verification_is_escalated() -> None:
    world = followed_world()
    external = ExternalReplacement(world)
    new = external.replace_instance()
    world.verifier.results[new] = Verification(Verdict.FAILED, ("memory: fail",))
    run_inventory_until(world, external, world.case_is(ESCALATED))
    assert "failed its verification after the provider's repair" in world.case().reason
    assert (world.status(), repair_calls(world)) == (NodeStatus.FAILED, [])


def test_a_node_of_the_provider_that_fails_after_its_verification_is_not_cordoned() -> None:
    world = followed_world(orchestrated=True)
    handler = world.workflow.handler

    def fail_again(payload: Mapping[str, Any]) -> Any:
        if payload["step"] == "return_to_service":
            world.clock.advance(1)
            world.fault(code="xid.48")
        return handler(payload)

    world.workflow.handler = fail_again
    world.advance_minutes(5)
    world.clear()
    world.until(world.case_is(ESCALATED))
    assert "xid.48 happened" in world.case().reason
    assert repair_calls(world) == []


def test_an_escalated_case_gets_a_new_attempt_when_the_provider_replaces_the_instance_again() -> None:
    world = followed_world()
    external = ExternalReplacement(world)
    world.verifier.results[external.replace_instance()] = Verification(Verdict.FAILED, ("memory: fail",))
    run_inventory_until(world, external, world.case_is(ESCALATED))
    external.replace_instance()
    run_inventory_until(world, external, world.case_is(RESOLVED))
    case = world.case()
    assert (case.attempts, case.counted_attempts) == (2, 1)
    assert list(world.workflow.executions) == [f"{case.id}-1", f"{case.id}-2"]
    assert "admission lost" not in world.record_history()


def test_forty_nodes_under_provider_repair_use_no_slot() -> None:
    world = followed_world(nodes=40)
    for number in range(2, 41):
        world.fault(number)
    world.process_entries(minutes=1)
    assert {world.status(number) for number in range(1, 41)} == {NodeStatus.DRAINING}
    assert repair_calls(world) == []


def test_an_execution_lost_during_a_provider_repair_continues_to_wait() -> None:
    world = followed_world()
    world.advance_minutes(3)
    world.workflow.abort(f"{world.case().id}-1")
    external = ExternalReplacement(world)
    world.advance_minutes(10)
    external.replace_instance()
    run_inventory_until(world, external, world.case_is(RESOLVED))
    assert world.status() is NodeStatus.HEALTHY


def test_a_followed_node_that_fails_again_after_its_verification_is_still_not_repaired_here() -> None:
    world = followed_world(orchestrated=True)
    external = ExternalReplacement(world)
    world.advance_minutes(10)
    external.replace_instance()
    handler = world.workflow.handler
    broken: list[str] = []

    def breaks_before_the_close(payload: Any) -> Any:
        if payload["step"] == "close" and not broken:
            broken.append("xid.48")
            world.fault(code="xid.48")
        return handler(payload)

    world.workflow.handler = breaks_before_the_close
    run_inventory_until(world, external, lambda: bool(broken))
    assert world.case().status is not RESOLVED
    assert repair_calls(world) == []
