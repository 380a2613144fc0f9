"""An unreachable orchestrator: the repair waits and pages, or proceeds if the instance is proven dead."""

from __future__ import annotations

from datetime import timedelta

import pytest

from faultbridge.model.cluster.config import Mode
from faultbridge.model.enums import Isolation, NodeStatus, ProviderFailure, RepairAction, Resolution, WaitingFor
from faultbridge.model.errors import Transient
from faultbridge.model.fault_enums import Action
from faultbridge.model.policy import OrchestratorUnreachable, Rule
from tests.builders import NOON
from tests.races import run_before_call
from tests.scenarios.orchestrator.unreachable_orchestrator import (
    DEAD,
    LONG,
    PROCEED,
    QUEUED,
    RESOLVED,
    pages,
    unreachable_before_drain,
    unreachable_world,
)
from tests.scenarios.world import World, limits
from tests.sim.fakes import Call

NO_PROOF = [
    ("xid.79", "kernel-log"),
    ("cloud.system_impaired", "kernel-log"),
    ("cloud.instance_impaired", "ec2-status"),
    ("cloud.instance_gone", "nvidia-smi-xml"),
]


def test_by_default_a_repair_waits_and_pages_even_if_the_instance_is_proven_dead() -> None:
    world = unreachable_world()
    world.fault(code=DEAD[0], source=DEAD[1])
    world.advance_minutes(300)
    assert (world.status(), world.node().isolation) == (NodeStatus.DEGRADED, Isolation.REQUESTED)
    assert (world.case().status, world.released_instances(), world.control().holders) == (QUEUED, [], {})
    assert pages(world) == ["note isolation overdue"]
    world.orchestrator.unreachable_until = None
    world.until(world.case_is(RESOLVED), 120)
    assert pages(world) == ["note isolation overdue", "note isolation over"]


@pytest.mark.parametrize(("code", "source"), NO_PROOF)
def test_without_proof_from_a_cloud_reporter_the_repair_waits_under_proceed_too(code: str, source: str) -> None:
    world = unreachable_world(PROCEED, code=code, source=source)
    world.advance_minutes(300)
    assert (world.status(), world.released_instances()) == (NodeStatus.DEGRADED, [])
    assert pages(world) == ["note isolation overdue"]


def test_an_instance_proven_dead_by_a_cloud_reporter_is_replaced_after_the_waiting_period() -> None:
    world = unreachable_world(PROCEED, code=DEAD[0], source=DEAD[1])
    world.advance_minutes(9)
    assert (world.status(), world.released_instances()) == (NodeStatus.DEGRADED, [])
    world.advance_minutes(3)
    assert len(world.released_instances()) == 1
    reasons = [body["data"].get("reason") or "" for body in world.bodies()]
    assert any("isolation not confirmed" in reason and "ec2-status" in reason for reason in reasons)
    assert "drain forced" in world.record_history()


def test_the_waiting_period_is_set_by_policy_and_starts_at_the_first_unanswered_call() -> None:
    world = unreachable_world(
        PROCEED, code=DEAD[0], source=DEAD[1], limits=limits(orchestrator_timeout=timedelta(minutes=42))
    )
    world.advance_minutes(40)
    assert world.released_instances() == []
    world.advance_minutes(5)
    assert len(world.released_instances()) == 1


def test_an_answer_restarts_the_waiting_period() -> None:
    world = unreachable_world(PROCEED)
    world.advance_minutes(8)
    world.orchestrator.unreachable_until = None
    world.orchestrator.unknown_nodes.add("node-1")
    world.advance_minutes(6)
    world.orchestrator.unknown_nodes.clear()
    world.orchestrator.unreachable_until = NOON + LONG
    world.fault(code=DEAD[0], source=DEAD[1])
    world.advance_minutes(8)
    assert world.released_instances() == []
    world.until(lambda: len(world.released_instances()) == 1, 10)


def test_a_late_proof_counts_and_an_ended_one_does_not() -> None:
    world = unreachable_world(PROCEED)
    world.advance_minutes(30)
    world.fault(code=DEAD[0], source=DEAD[1])
    world.clock.advance(timedelta(seconds=1))
    world.clear(code=DEAD[0], source=DEAD[1])
    world.advance_minutes(30)
    assert world.released_instances() == []
    world.fault(code=DEAD[0], source=DEAD[1])
    world.until(lambda: len(world.released_instances()) == 1, 10)


def test_the_successor_serves_only_after_the_orchestrator_recovers() -> None:
    world = unreachable_world(PROCEED, code=DEAD[0], source=DEAD[1])
    world.advance_minutes(60)
    assert world.status() is NodeStatus.VALIDATING
    world.orchestrator.unreachable_until = None
    world.until(world.case_is(RESOLVED), 60)
    assert (world.status(), world.node().isolation) == (NodeStatus.HEALTHY, Isolation.NONE)
    assert (world.case().resolution, world.orchestrator.cordoned) == (Resolution.REPLACED, set())
    assert pages(world) == ["note isolation overdue", "note isolation over"]


def test_a_past_outage_does_not_shorten_the_next_waiting_period() -> None:
    world = unreachable_world(PROCEED, code=DEAD[0], source=DEAD[1])
    world.advance_minutes(60)
    world.orchestrator.unreachable_until = None
    world.until(world.case_is(RESOLVED), 60)
    world.orchestrator.unreachable_until = world.clock.now() + LONG
    world.advance_minutes()
    world.fault_and_react(code=DEAD[0], source=DEAD[1], minutes=8)
    assert (world.status(), len(world.released_instances())) == (NodeStatus.DEGRADED, 1)


def test_an_orchestrator_that_recovers_before_the_drain_cordons_the_node_first() -> None:
    world = unreachable_world(PROCEED, code=DEAD[0], source=DEAD[1])
    world.pause_repairs(paused=True)
    world.advance_minutes(15)
    assert (world.status(), world.node().isolation) == (NodeStatus.QUARANTINED, Isolation.REQUESTED)
    world.orchestrator.unreachable_until = None
    world.pause_repairs(paused=False)
    world.advance_minutes(1)
    assert (world.orchestrator.cordoned, world.node().isolation) == ({"node-1"}, Isolation.CONFIRMED)
    assert "drain drained" in world.record_history()


def test_a_drain_that_gets_no_answer_delays_the_repair_without_using_a_slot() -> None:
    world = unreachable_before_drain()
    world.advance_minutes(300)
    assert (world.status(), world.case().status) == (NodeStatus.QUARANTINED, QUEUED)
    assert (world.released_instances(), world.control().holders) == ([], {})
    assert pages(world) == ["note isolation overdue"]
    assert "drain forced" not in world.record_history()
    world.orchestrator.unreachable_until = None
    world.until(world.case_is(RESOLVED), 120)
    assert pages(world) == ["note isolation overdue", "note isolation over"]
    assert len(world.released_instances()) == 1


def test_a_drain_proceeds_if_the_instance_is_proven_dead() -> None:
    world = unreachable_before_drain(PROCEED)
    world.advance_minutes(5)
    world.fault(code=DEAD[0], source=DEAD[1])
    world.advance_minutes(4)
    assert world.released_instances() == []
    world.until(lambda: len(world.released_instances()) == 1, 12)


def test_diagnostics_never_start_without_the_orchestrator_although_the_instance_is_proven_dead() -> None:
    world = unreachable_before_drain(PROCEED, action=Action.RUN_DIAGNOSTICS)
    world.fault(code=DEAD[0], source=DEAD[1], action=Action.RUN_DIAGNOSTICS)
    world.advance_minutes(60)
    assert world.case().repair_action is RepairAction.VERIFY
    assert not {"drain forced", "verify begun"} & set(world.record_history())
    assert pages(world) == ["note isolation overdue"]


def test_no_operator_is_paged_about_an_unreachable_orchestrator_once_only_a_claim_is_left() -> None:
    given = limits(orchestrator_timeout=timedelta(hours=9), drain_deadline=timedelta(hours=1))
    world = unreachable_before_drain(limits=given)
    world.advance_minutes(59)

    def end_fault_at_deadline() -> None:
        world.claim(code="xid.48")
        world.clock.advance(timedelta(minutes=1))
        world.clear()

    run_before_call(world.seam, "orchestrator.drain", end_fault_at_deadline)
    world.advance_minutes(60)
    assert "drain held" in world.record_history()
    assert (world.case().waiting_for, pages(world)) == (WaitingFor.IDLE, [])


def test_a_waiting_period_longer_than_the_drain_does_not_force_the_drain() -> None:
    world = unreachable_before_drain(limits=limits(orchestrator_timeout=timedelta(hours=3)))
    world.advance_minutes(120)
    assert world.released_instances() == []


@pytest.mark.parametrize("refusal", [ProviderFailure.THROTTLED, ProviderFailure.CONFLICT])
def test_a_fatal_node_is_not_released_while_every_drain_call_is_throttled_or_conflicts(
    refusal: ProviderFailure,
) -> None:
    world = World(orchestrated=True)
    world.orchestrator.busy_until["node-1"] = NOON + LONG
    world.orchestrator.refuse_drains(refusal)
    world.fault_and_react(minutes=300)
    assert (world.status(), world.case().status) == (NodeStatus.QUARANTINED, QUEUED)
    assert (world.released_instances(), world.control().holders) == ([], {})
    assert pages(world) == ["note isolation overdue"]
    assert "drain forced" not in world.record_history()


def test_work_gets_its_whole_time_to_leave_once_the_api_answers_again() -> None:
    world = World(orchestrated=True, limits=limits(orchestrator_timeout=timedelta(hours=3)))
    world.orchestrator.refuse_drains(ProviderFailure.THROTTLED, until=NOON + timedelta(minutes=25))
    world.orchestrator.busy_until["node-1"] = NOON + timedelta(minutes=50)
    world.fault_and_react()
    world.until(lambda: len(world.released_instances()) == 1, 120)
    assert "drain drained" in world.record_history()
    assert "drain forced" not in world.record_history()


def test_a_drain_call_without_any_answer_does_not_force_the_drain() -> None:
    world = World(orchestrated=True)

    def lose_the_answer(call: Call) -> None:
        if call.name == "orchestrator.drain":
            raise Transient("the connection was closed")

    world.seam.before = lose_the_answer
    world.fault_and_react(minutes=120)
    assert (world.released_instances(), world.control().holders) == ([], {})
    assert pages(world) == ["note isolation overdue"]


def test_a_slow_drain_is_not_an_unreachable_orchestrator() -> None:
    world = World(orchestrated=True)
    world.orchestrator.busy_until["node-1"] = NOON + LONG
    world.fault_and_react()
    world.until(lambda: len(world.released_instances()) == 1, 40)
    assert pages(world) == []


def test_a_dry_run_does_not_proceed() -> None:
    world = unreachable_world(PROCEED, code=DEAD[0], source=DEAD[1], mode=Mode.DRY_RUN)
    world.advance_minutes(60)
    assert (world.released_instances(), world.orchestrator.cordoned) == ([], set())


def test_an_instance_that_was_only_rebooted_is_verified_before_the_orchestrator_answers() -> None:
    reboot = Rule("reboot", action=Action.REBOOT_NODE, orchestrator_unreachable=OrchestratorUnreachable.PROCEED)
    world = unreachable_world(reboot, code=DEAD[0], source=DEAD[1])
    world.until(lambda: "repair_in_place back" in world.record_history(), 30)
    assert world.node().isolation is Isolation.REQUESTED
    assert "verify begun" in world.record_history()
