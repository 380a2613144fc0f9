"""What a failure does to running work: lost work is evicted, work at risk stays, and a false alarm costs it nothing."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from faultbridge.decide.work import permit_drain, work_stays
from faultbridge.decode.data import load_catalog
from faultbridge.decode.data.policies import default_policy
from faultbridge.model.catalog import WorkEffect
from faultbridge.model.entries import Transition
from faultbridge.model.enums import Actor, CaseStatus, Isolation, NodeStatus, Resolution, WaitingFor
from faultbridge.model.errors import Transient
from faultbridge.model.fault_enums import Action, Severity
from faultbridge.model.faults import NODE_COMPONENT
from faultbridge.model.policy import Rule
from faultbridge.model.values import replace
from faultbridge.repair.case_orders import OperatorOrder
from tests.builders import DEFAULT_RULE
from tests.scenarios.incidents.pages_of_incidents import urgent
from tests.scenarios.world import World
from tests.sim.fakes import Call

AT_RISK = "dcgm.diag_failed"
"""A code of severity error whose work may die. Its action is to run diagnostics."""

WAITS_FOR_RESET = "smi.row_remap_pending"
"""A code of severity error that does not affect work. Its action is to reset the GPU."""

REPLACED = "dcgm.row_remap_failure"
"""A code whose work may die. Its action is to replace the node."""

PRECURSOR = "host.pcie_fatal"
"""A code whose mode precedes a lost GPU, so that its node is drained after a checkpoint."""

DEAD_ENGINE = "agent.dcgm_error"
"""A sensor that does not answer: the host engine of DCGM."""


def busy_world(*rules: Rule, days: float = 30) -> World:
    """Return a world of 20 nodes with the packaged catalog, in which a job runs on node 1."""
    world = World(nodes=20, orchestrated=True, catalog=load_catalog())
    packaged = default_policy()
    world.policy = replace(packaged, rules=(*rules, DEFAULT_RULE)) if rules else packaged
    world.orchestrator.busy_until["node-1"] = world.clock.now() + timedelta(days=days)
    return world


def place(world: World) -> tuple[NodeStatus | None, Isolation]:
    return world.status(), world.node().isolation


IN_SERVICE_CORDONED = (NodeStatus.DEGRADED, Isolation.CONFIRMED)
SERVES = (NodeStatus.HEALTHY, Isolation.NONE)


def touched(world: World) -> set[str]:
    """Return what happened to the running work of node 1: drains, verifications and restarts."""
    happened = {line.split()[0] for line in world.record_history() if line.startswith(("drain", "verify"))}
    return happened | {call.name for call in world.seam.named("orchestrator.drain")}


def test_a_lost_node_is_cordoned_without_a_permit_and_drained_at_once() -> None:
    world = busy_world()
    world.fault_and_react()
    world.advance_minutes(1)
    assert (world.status(), world.control().permits) == (NodeStatus.DRAINING, {})
    assert "orchestrator.drain" in touched(world)


def test_a_node_at_risk_is_cordoned_with_a_permit_and_keeps_its_work() -> None:
    world = busy_world()
    world.fault_and_react(code=AT_RISK)
    world.advance_minutes(300)
    assert place(world) == IN_SERVICE_CORDONED
    assert set(world.control().permits) == {"node-1"}
    assert world.case().waiting_for is WaitingFor.IDLE
    assert touched(world) == set()


def test_a_node_at_risk_is_verified_when_its_work_has_ended() -> None:
    world = busy_world(days=0.1)
    world.fault_and_react(code=AT_RISK)
    world.until(world.case_is(CaseStatus.RESOLVED))
    assert world.clock.now() >= world.orchestrator.busy_until["node-1"]
    assert place(world) == SERVES
    assert "verify passed" in world.record_history()
    assert (world.orchestrator.cordoned, world.control().permits) == (set(), {})


@pytest.mark.parametrize(("code", "drains"), [(AT_RISK, False), (REPLACED, True)])
def test_an_idle_node_is_drained_before_its_repair_and_not_before_diagnostics(code: str, drains: bool) -> None:
    world = busy_world(days=0.1)
    end, at = world.orchestrator.busy_until["node-1"], list[datetime]()
    world.seam.before = lambda call: at.append(world.clock.now()) if call.name == "orchestrator.drain" else None
    world.fault_and_react(code=code)
    world.until(world.case_is(CaseStatus.RESOLVED))
    assert (bool(at), all(time >= end for time in at)) == (drains, True)


def test_programs_that_leave_an_idle_node_slowly_delay_its_repair_and_do_not_end_the_attempt() -> None:
    world = busy_world(days=0.1)
    world.orchestrator.left_by["node-1"] = world.orchestrator.busy_until["node-1"] + timedelta(minutes=12)
    world.fault_and_react(code=REPLACED)
    world.until(world.case_is(CaseStatus.RESOLVED))
    assert world.clock.now() > world.orchestrator.left_by["node-1"]
    assert not [line for line in world.record_history() if line.startswith("drain held")]


def test_programs_that_do_not_leave_an_idle_node_page_once_when_they_hold_its_repair_for_too_long() -> None:
    world = busy_world(days=0)
    world.orchestrator.left_by["node-1"] = world.clock.now() + timedelta(hours=7)
    world.fault_and_react(code=REPLACED)
    world.advance_minutes(55)
    assert urgent(world) == []
    world.advance_minutes(40)
    page = f"{world.case().id}:waiting"
    assert urgent(world) == [f"{page} triggered"]
    world.until(lambda: bool(world.released_instances()), minutes=8 * 60)
    assert urgent(world) == [f"{page} triggered", f"{page} resolved"]


def test_a_fault_at_risk_that_ends_while_work_runs_costs_the_work_nothing() -> None:
    world = busy_world()
    world.fault_and_react(code=AT_RISK)
    world.advance_minutes(10)
    world.clear(code=AT_RISK)
    world.process_entries()
    world.advance_minutes(2)
    assert (world.case().status, world.case().resolution) == (CaseStatus.RESOLVED, Resolution.RECOVERED)
    assert (place(world), world.orchestrator.cordoned) == (SERVES, set())
    assert touched(world) == set()


def cycle(world: World) -> None:
    """Let the fault at risk begin, cordon the node, and end."""
    world.fault_and_react(code=AT_RISK)
    world.advance_minutes(5)
    assert place(world) == IN_SERVICE_CORDONED
    world.clear(code=AT_RISK)
    world.process_entries()
    world.advance_minutes(2)


def test_after_three_cycles_in_a_day_a_cordon_stays_until_the_node_is_idle_and_verified() -> None:
    world = busy_world()
    for _ in range(3):
        cycle(world)
        assert place(world) == SERVES
    cycle(world)
    world.advance_minutes(60)
    assert (place(world), touched(world)) == (IN_SERVICE_CORDONED, set())
    world.orchestrator.busy_until.clear()
    world.until(world.case_is(CaseStatus.RESOLVED))
    assert (place(world), "verify passed" in world.record_history()) == (SERVES, True)


def test_three_cycles_within_more_than_a_day_withdraw_the_fourth_cordon() -> None:
    world = busy_world()
    for _ in range(4):
        cycle(world)
        assert place(world) == SERVES
        world.advance_minutes(10 * 60, every=30)


@pytest.mark.parametrize("code", ["xid.94", "xid.157", "xid.31"])
def test_a_process_that_died_and_a_mode_without_an_action_cordon_nothing(code: str) -> None:
    world = busy_world()
    world.fault_and_react(code=code)
    world.advance_minutes(3)
    assert (world.node().isolation, world.orchestrator.cordoned) == (Isolation.NONE, set())


def test_a_node_that_rebooted_serves_on_because_the_work_that_ended_is_over() -> None:
    world = busy_world()
    world.fault_and_react(code="host.unexpected_reboot", component=NODE_COMPONENT)
    world.advance_minutes(3)
    assert (world.node().isolation, world.orchestrator.cordoned) == (Isolation.NONE, set())


def test_a_fault_of_unknown_meaning_that_its_source_calls_an_error_puts_work_at_risk() -> None:
    world = busy_world()
    world.fault_and_react(code="vendor.unknown", severity=Severity.ERROR, action=Action.RUN_DIAGNOSTICS)
    assert place(world) == IN_SERVICE_CORDONED


def test_a_fault_that_does_not_affect_work_waits_for_an_idle_node_and_then_takes_a_permit() -> None:
    world = busy_world(days=1)
    world.fault_and_react(code=WAITS_FOR_RESET)
    world.advance_minutes(60)
    assert (world.node().isolation, world.control().permits) == (Isolation.NONE, {})
    assert world.case().waiting_for is WaitingFor.IDLE
    world.orchestrator.busy_until.clear()
    world.until(lambda: world.case().status is CaseStatus.IN_PROGRESS, minutes=5)
    assert set(world.control().permits) == {"node-1"}


def test_a_mode_without_an_action_cordons_no_node_that_waits_for_another_repair() -> None:
    world = busy_world()
    world.fault_and_react(code=WAITS_FOR_RESET)
    world.fault_and_react(code="xid.157")
    world.advance_minutes(3)
    assert (world.node().isolation, world.orchestrator.cordoned) == (Isolation.NONE, set())


def test_a_fault_that_does_not_affect_work_is_at_risk_after_a_week() -> None:
    world = busy_world()
    world.fault_and_react(code=WAITS_FOR_RESET)
    world.advance_minutes(7 * 24 * 60 - 30, every=30)
    assert world.node().isolation is Isolation.NONE
    world.advance_minutes(60, every=30)
    assert (place(world), touched(world)) == (IN_SERVICE_CORDONED, set())


def test_a_rule_forbids_the_cordon_of_a_node_at_risk() -> None:
    world = busy_world(Rule("gentle", isolate=False))
    world.fault_and_react(code=AT_RISK)
    world.advance_minutes(60)
    assert (world.node().isolation, touched(world)) == (Isolation.NONE, set())


def test_the_wait_of_a_rule_delays_the_case_and_not_the_cordon() -> None:
    world = busy_world(Rule("patient", wait_seconds=3600))
    world.fault_and_react(code=AT_RISK)
    assert (world.case().status, place(world)) == (CaseStatus.OPEN, IN_SERVICE_CORDONED)


SILENT = {"code": "host.silent", "source": "heartbeat", "component": NODE_COMPONENT}


@pytest.mark.parametrize("code", ["cloud.system_impaired", "cloud.instance_impaired"])
def test_a_silent_node_is_lost_by_what_ec2_reports_of_its_instance(code: str) -> None:
    world = busy_world()
    world.fault_and_react(**SILENT)
    world.advance_minutes(3)
    assert (place(world), touched(world)) == (IN_SERVICE_CORDONED, set())
    world.fault_and_react(code=code, source="ec2-status", component=NODE_COMPONENT)
    world.until(lambda: world.status() is NodeStatus.DRAINING, minutes=10)


def test_a_silent_node_is_lost_five_minutes_after_its_job_reported_that_its_work_is_dead() -> None:
    world = busy_world()
    world.fault_and_react(**SILENT)
    world.fault_and_react(code="app.collective_failed", source="training-log", component=NODE_COMPONENT)
    world.advance_minutes(4)
    assert (place(world), touched(world)) == (IN_SERVICE_CORDONED, set())
    world.advance_minutes(2)
    assert world.status() is not NodeStatus.DEGRADED


def test_a_claim_is_no_second_fact() -> None:
    world = busy_world()
    world.fault_and_react(**SILENT)
    world.claim(code="cloud.system_impaired", source="ec2-status", component=NODE_COMPONENT)
    world.advance_minutes(3)
    assert (place(world), touched(world)) == (IN_SERVICE_CORDONED, set())


def report_dead_engine(world: World, minutes: float, *, every: float = 0.5, source: str = "dcgm-json") -> None:
    """Report for this time that the host engine does not answer, at each check."""
    until = world.clock.now() + timedelta(minutes=minutes)
    while world.clock.now() <= until:
        world.fault_and_react(code=DEAD_ENGINE, source=source, component=NODE_COMPONENT)
        world.clock.advance(timedelta(minutes=every))
        world.sweep.run()


def test_a_dead_host_engine_of_90_seconds_leaves_the_node_to_its_job() -> None:
    world = busy_world()
    report_dead_engine(world, 1.5)
    world.clear(code=DEAD_ENGINE, source="dcgm-json", component=NODE_COMPONENT)
    world.advance_minutes(60)
    assert (place(world), touched(world), world.node().case) == (SERVES, set(), None)


def test_a_sticky_condition_of_eks_is_one_check_and_never_ages() -> None:
    world = busy_world()
    began = world.clock.now()
    for _ in range(60):
        world.fault(code=DEAD_ENGINE, source="eks-node-condition", component=NODE_COMPONENT, seen=began)
        world.advance_minutes(5, every=5)
    assert (world.node().isolation, touched(world), world.node().case) == (Isolation.NONE, set(), None)


def test_checks_that_fail_for_30_minutes_cordon_the_node_and_verify_it_when_it_is_idle() -> None:
    world = busy_world()
    report_dead_engine(world, 29)
    assert world.node().case is None
    report_dead_engine(world, 2)
    world.advance_minutes(60)
    assert (place(world), touched(world)) == (IN_SERVICE_CORDONED, set())
    world.orchestrator.busy_until.clear()
    world.until(world.case_is(CaseStatus.RESOLVED))
    assert (place(world), "verify passed" in world.record_history()) == (SERVES, True)


def test_two_failed_checks_within_an_hour_are_no_sensor_that_keeps_failing() -> None:
    world = busy_world()
    for _ in range(2):
        world.fault_and_react(code=DEAD_ENGINE, source="dcgm-json", component=NODE_COMPONENT)
        world.advance_minutes(40)
    assert (world.node().isolation, world.node().case) == (Isolation.NONE, None)


def test_a_second_sensor_that_fails_puts_work_at_risk_at_once() -> None:
    world = busy_world()
    world.fault(code=DEAD_ENGINE, source="dcgm-json", component=NODE_COMPONENT)
    world.fault_and_react(code="sensor.gpu_probe_failed", source="agent-probe", component=NODE_COMPONENT)
    assert (place(world), touched(world)) == (IN_SERVICE_CORDONED, set())


def answered(world: World) -> None:
    """Record that all jobs of node 1 answered the request for a checkpoint."""
    world.append(world.key(), lambda state, _: Transition(permit_drain(state, world.catalog)), actor=Actor.INGEST)


def test_a_proven_precursor_is_drained_after_its_job_saved_a_checkpoint() -> None:
    world = busy_world()
    world.fault_and_react(code=PRECURSOR)
    world.advance_minutes(10)
    assert (place(world), touched(world)) == (IN_SERVICE_CORDONED, set())
    answered(world)
    world.until(lambda: world.status() is NodeStatus.DRAINING, minutes=5)


def test_an_answer_drains_neither_a_claim_nor_a_mode_that_is_no_precursor() -> None:
    world = busy_world()
    world.claim(code=PRECURSOR)
    world.fault_and_react(code=AT_RISK)
    answered(world)
    world.advance_minutes(10)
    assert (place(world), touched(world)) == (IN_SERVICE_CORDONED, set())


def test_an_answer_drains_no_node_whose_precursor_only_a_claim_still_reports() -> None:
    world = busy_world()
    world.pause_repairs(paused=True)
    world.fault_and_react(code=PRECURSOR)
    world.claim(code=PRECURSOR, source="webhook")
    world.clock.advance(1)
    world.clear(code=PRECURSOR)
    state = world.node()
    key = next(key for key, one in state.conditions.items() if one.active)
    assert state.case is not None
    assert work_stays(state, replace(state.case, drain_for=key))


def test_a_precursor_that_ended_before_the_drain_returns_the_node_to_its_job() -> None:
    world = busy_world()
    world.fault_and_react(code=PRECURSOR)
    world.clock.advance(1)
    world.clear(code=PRECURSOR)
    answered(world)
    world.advance_minutes(3)
    assert (place(world), touched(world)) == (SERVES, set())


def test_an_operators_order_drains_a_node_at_risk() -> None:
    world = busy_world()
    world.fault_and_react(code=AT_RISK)
    world.node_orders.replace(world.key(), OperatorOrder("arn:operator", "seen on the rack"), None)
    world.process_entries()
    world.until(lambda: "orchestrator.drain" in touched(world), minutes=5)


def test_a_node_at_risk_without_an_orchestrator_stays_degraded_until_its_repair_starts() -> None:
    world = World(catalog=load_catalog())
    world.pause_repairs(paused=True)
    world.fault_and_react(code=AT_RISK)
    world.advance_minutes(5)
    assert place(world) == (NodeStatus.DEGRADED, Isolation.NONE)
    world.pause_repairs(paused=False)
    world.until(world.case_is(CaseStatus.RESOLVED))


def test_a_cordon_that_arrives_after_its_withdrawal_is_withdrawn_again() -> None:
    world = busy_world()
    world.fault(code=AT_RISK)

    def withdrawn_meanwhile(call: Call) -> None:
        if call.name == "orchestrator.cordon":
            world.seam.before = lambda _: None
            world.clock.advance(1)
            world.clear(code=AT_RISK)
            world.isolate.isolate(world.key())

    world.seam.before = withdrawn_meanwhile
    world.process_entries()
    world.advance_minutes(3)
    assert (place(world), world.orchestrator.cordoned) == (SERVES, set())


def test_an_uncordon_that_arrives_after_a_newer_cordon_is_corrected() -> None:
    world = busy_world()
    world.fault_and_react(code=AT_RISK)
    world.clock.advance(1)
    world.clear(code=AT_RISK)

    def cordoned_meanwhile(call: Call) -> None:
        if call.name == "orchestrator.uncordon":
            world.seam.before = lambda _: None
            world.clock.advance(1)
            world.fault(code=AT_RISK)
            world.isolate.isolate(world.key())
            assert place(world) == IN_SERVICE_CORDONED

    world.seam.before = cordoned_meanwhile
    world.isolate.isolate(world.key())
    world.advance_minutes(2)
    assert (place(world), world.orchestrator.cordoned) == (IN_SERVICE_CORDONED, {"node-1"})


def test_a_withdrawal_without_an_answer_is_repeated() -> None:
    world = busy_world()
    world.fault_and_react(code=AT_RISK)
    world.clock.advance(1)
    world.clear(code=AT_RISK)

    def fail(call: Call) -> None:
        if call.name == "orchestrator.uncordon":
            world.seam.after = lambda _: None
            text = "no answer"
            raise Transient(text)

    world.seam.after = fail
    with pytest.raises(Transient, match="no answer"):
        world.isolate.isolate(world.key())
    assert world.node().isolation is Isolation.REQUESTED
    world.advance_minutes(3)
    assert (place(world), world.orchestrator.cordoned) == (SERVES, set())


def test_each_change_of_the_cordon_of_a_serving_node_is_published() -> None:
    world = busy_world()
    world.fault_and_react(code=AT_RISK)
    world.clock.advance(1)
    world.clear(code=AT_RISK)
    world.process_entries()
    world.advance_minutes(3)
    moves = [one["data"] for one in world.bodies() if one["data"].get("isolation")]
    degraded = NodeStatus.DEGRADED.value
    assert [(one["from"], one["to"], one["isolation"]) for one in moves if one["from"] == degraded] == [
        (degraded, degraded, "confirmed"),
        (degraded, degraded, "none"),
        (degraded, NodeStatus.HEALTHY.value, "none"),
    ]


def test_what_a_condition_does_to_work_is_stored_with_it() -> None:
    world = busy_world()
    world.fault(code=AT_RISK)
    world.fault(code="xid.79")
    assert {one.code: one.work for one in world.node().active()} == {
        AT_RISK: WorkEffect.AT_RISK,
        "xid.79": WorkEffect.DEVICE,
    }
