"""Without an orchestrator, the processes on the GPUs show running work: only lost work and orders of people end it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from faultbridge.decode.data import load_catalog
from faultbridge.decode.data.policies import default_policy
from faultbridge.model.enums import CaseStatus, RepairAction, WaitingFor
from faultbridge.model.errors import Transient
from faultbridge.model.faults import NODE_COMPONENT
from faultbridge.record.ports.compute import Verdict, Verification
from faultbridge.repair.case_orders import OperatorOrder
from tests.scenarios.incidents.pages_of_incidents import urgent
from tests.scenarios.world import World
from tests.sim.fakes import raise_once

INSTANCE = "i-00000000000000001"
AT_RISK = "dcgm.row_remap_failure"
"""A code whose work may die. Its action is to replace the node."""

LOST = "xid.79"


def busy_world(*, occupied: bool | None = True, code: str = AT_RISK) -> World:
    """Return a world with the packaged policy in which a process uses the GPUs of the faulty node.

    With None, the instance answers and cannot list its processes.
    """
    world = World(catalog=load_catalog())
    world.policy = default_policy()
    world.verifier.occupied = lambda _: occupied
    world.fault_and_react(code=code)
    return world


def end_work(world: World) -> None:
    world.verifier.occupied = lambda _: False


def changed(world: World) -> bool:
    """Return whether the instance was restarted or released."""
    return bool(world.released_instances() or world.restarter.restarted)


@pytest.mark.parametrize("occupied", [True, None])
@pytest.mark.parametrize("code", ["smi.row_remap_pending", "host.pcie_fatal", AT_RISK])
def test_no_reset_reboot_or_release_ends_work_that_a_fault_only_endangers(code: str, occupied: bool | None) -> None:
    world = busy_world(code=code, occupied=occupied)
    world.advance_minutes(4 * 60)
    case = world.case()
    assert not changed(world)
    assert (case.status, case.waiting_for, case.counted_attempts) == (CaseStatus.QUEUED, WaitingFor.IDLE, 0)
    assert case.reason.startswith("running work stays, because the fault did not end it: ")
    # The slot is free meanwhile, and each attempt has one entry of the step.
    assert (world.control().holders, world.record_history().count("drain held")) == ({}, case.attempts)
    assert case.attempts <= 12
    end_work(world)
    world.until(lambda: changed(world), minutes=40)


def test_an_idle_node_is_repaired_at_once() -> None:
    world = busy_world(occupied=False)
    world.until(lambda: changed(world), minutes=15)
    assert world.case().attempts == 1


@pytest.mark.parametrize("code", ["smi.row_remap_pending", AT_RISK])
def test_an_operator_is_paged_once_when_work_holds_a_repair_for_too_long_until_it_ends(code: str) -> None:
    world = busy_world(code=code)
    world.advance_minutes(55)
    assert urgent(world) == []
    world.advance_minutes(40)
    page = f"{world.case().id}:waiting"
    assert urgent(world) == [f"{page} triggered"]
    world.advance_minutes(6 * 60, every=5)
    assert urgent(world) == [f"{page} triggered"]
    end_work(world)
    world.until(lambda: changed(world), minutes=40)
    assert urgent(world) == [f"{page} triggered", f"{page} resolved"]


def test_work_that_fills_the_node_again_after_a_repair_began_is_a_new_wait() -> None:
    world = busy_world()
    world.advance_minutes(30)
    end_work(world)
    world.until(lambda: changed(world), minutes=40)
    world.until(world.case_is(CaseStatus.RESOLVED))
    world.verifier.occupied = lambda _: True
    world.clock.advance(timedelta(days=2))
    world.fault_and_react(code=AT_RISK)
    world.advance_minutes(45)
    assert urgent(world) == []


def test_the_repair_of_a_lost_node_does_not_look_for_processes() -> None:
    world = busy_world(code=LOST)
    world.until(lambda: changed(world), minutes=15)
    assert world.seam.named("verifier.processes") == []


def test_an_order_of_an_operator_ends_the_work() -> None:
    world = busy_world()
    world.advance_minutes(60)
    world.node_orders.replace(world.key(), OperatorOrder("arn:operator", "seen on the rack"), None)
    world.process_entries()
    world.until(lambda: changed(world), minutes=40)


def test_a_repair_after_failed_diagnostics_waits_for_work_that_began_meanwhile() -> None:
    world = World(catalog=load_catalog())
    world.policy = default_policy()
    world.verifier.results[INSTANCE] = Verification(Verdict.FAILED, ("memory: GPU 3 failed",))
    world.fault_and_react(code="dcgm.diag_failed")
    world.until(lambda: "verify begun" in world.record_history())
    world.verifier.occupied = lambda _: True
    world.until(lambda: "verify failed" in world.record_history())
    world.advance_minutes(120)
    assert (world.case().repair_action, world.case().waiting_for) == (RepairAction.REPLACE_NODE, WaitingFor.IDLE)
    assert not changed(world)


def test_the_repair_of_a_proven_fault_continues_if_its_instance_does_not_answer() -> None:
    world = busy_world()
    world.verifier.silent = {INSTANCE}
    world.until(lambda: changed(world), minutes=15)


def test_a_claim_is_verified_and_not_repaired_while_its_processes_are_not_known() -> None:
    world = World(catalog=load_catalog())
    world.policy = default_policy()
    world.verifier.occupied = lambda _: None
    world.claim_and_react(code=AT_RISK, minutes=180)
    assert (changed(world), "verify passed" in world.record_history()) == (False, False)


def test_a_look_that_fails_for_a_moment_is_repeated_and_changes_nothing() -> None:
    world = busy_world()
    world.seam.before = raise_once(("verifier.processes", Transient("SSM is throttled")))
    world.advance_minutes(30)
    assert (changed(world), world.case().waiting_for) == (False, WaitingFor.IDLE)


def test_a_silent_node_that_is_only_at_risk_is_verified_first() -> None:
    world = busy_world(occupied=True, code="host.silent")
    world.fault_and_react(code="host.silent", source="heartbeat", component=NODE_COMPONENT)
    world.advance_minutes(120)
    assert not changed(world)
