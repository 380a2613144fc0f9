"""An orchestrator that answers nobody: the repair holds and pages, or proceeds with a machine that is proven dead."""

from __future__ import annotations

from datetime import timedelta

import pytest

from faultbridge.domain.cases import Resolution
from faultbridge.domain.clusters import Mode
from faultbridge.domain.edges import CaseStatus, NodeStatus
from faultbridge.domain.nodes import Isolation
from faultbridge.domain.policy import OrchestratorUnreachable, Rule
from faultbridge.simulation.fakes import Call
from tests.builders import NOON
from tests.scenarios.world import World, limits

RESOLVED, QUEUED = CaseStatus.RESOLVED, CaseStatus.QUEUED
LONG = timedelta(days=2)
PROCEED = Rule("proceed", release_without_capacity=True, orchestrator_unreachable=OrchestratorUnreachable.PROCEED)
DEAD = ("cloud.system_impaired", "ec2-status")
NO_PROOF = [
    ("xid.79", "kernel-log"),
    ("cloud.system_impaired", "kernel-log"),
    ("cloud.instance_impaired", "ec2-status"),
    ("cloud.instance_gone", "nvidia-smi-xml"),
]


def silent_world(*rules: Rule, code: str = "xid.79", source: str = "kernel-log", **others: object) -> World:
    """A node is faulty, and its orchestrator answers nobody from the beginning."""
    world = World(orchestrated=True, rules=rules, **others)  # type: ignore[arg-type]  # the arguments of a world
    world.orchestrator.silent_until = NOON + LONG
    world.fault(code=code, source=source)
    world.listen()
    return world


def drained_in_silence(*rules: Rule, **others: object) -> World:
    """The node is cordoned; then its orchestrator answers nobody any more, before it was asked to drain it."""
    world = World(orchestrated=True, rules=rules, **others)  # type: ignore[arg-type]  # the arguments of a world

    def fall_silent(call: Call) -> None:
        if call.name == "orchestrator.drain":
            world.seam.before = lambda _: None
            world.orchestrator.silent_until = NOON + LONG

    world.seam.before = fall_silent
    world.fault()
    world.listen()
    assert world.orchestrator.cordoned == {"node-1"}
    assert world.status() is NodeStatus.DRAINING
    return world


def pages(world: World) -> list[str]:
    """What of the record pages, or ends a page, about the orchestrator."""
    return [line for line in world.story() if line in {"note isolation overdue", "note isolation over"}]


def test_by_default_a_repair_holds_and_pages_even_when_the_machine_is_proven_dead() -> None:
    world = silent_world()
    world.fault(code=DEAD[0], source=DEAD[1])
    world.minute(300)
    assert (world.status(), world.node().isolation) == (NodeStatus.DEGRADED, Isolation.REQUESTED)
    assert (world.case().status, world.released(), world.control().holders) == (QUEUED, [], {})
    assert pages(world) == ["note isolation overdue"]
    world.orchestrator.silent_until = None
    world.until(world.case_is(RESOLVED), 120)
    assert pages(world) == ["note isolation overdue", "note isolation over"]


@pytest.mark.parametrize(("code", "source"), NO_PROOF)
def test_what_no_cloud_reporter_proves_is_waited_for_under_proceed_too(code: str, source: str) -> None:
    world = silent_world(PROCEED, code=code, source=source)
    world.minute(300)
    assert (world.status(), world.released()) == (NodeStatus.DEGRADED, [])
    assert pages(world) == ["note isolation overdue"]


def test_a_machine_that_a_cloud_reporter_proves_dead_is_replaced_once_the_patience_is_over() -> None:
    world = silent_world(PROCEED, code=DEAD[0], source=DEAD[1])
    world.minute(9)
    assert (world.status(), world.released()) == (NodeStatus.DEGRADED, [])
    world.minute(3)
    assert len(world.released()) == 1
    reasons = [body["data"].get("reason") or "" for body in world.bodies()]
    assert any("isolation not confirmed" in reason and "ec2-status" in reason for reason in reasons)
    assert "drain forced" in world.story()


def test_the_patience_is_the_policys_and_counts_from_the_first_call_that_nobody_answered() -> None:
    world = silent_world(
        PROCEED, code=DEAD[0], source=DEAD[1], limits=limits(orchestrator_timeout=timedelta(minutes=42))
    )
    world.minute(40)
    assert world.released() == []
    world.minute(5)
    assert len(world.released()) == 1


def test_an_answer_in_between_begins_the_patience_anew() -> None:
    world = silent_world(PROCEED)
    world.minute(8)
    world.orchestrator.silent_until = None
    world.orchestrator.absent.add("node-1")
    world.minute(6)
    world.orchestrator.absent.clear()
    world.orchestrator.silent_until = NOON + LONG
    world.fault(code=DEAD[0], source=DEAD[1])
    world.minute(8)
    assert world.released() == []
    world.until(lambda: len(world.released()) == 1, 10)


def test_a_proof_that_comes_late_is_enough_and_one_that_ends_is_none() -> None:
    world = silent_world(PROCEED)
    world.minute(30)
    world.fault(code=DEAD[0], source=DEAD[1])
    world.clock.advance(timedelta(seconds=1))
    world.clear(code=DEAD[0], source=DEAD[1])
    world.minute(30)
    assert world.released() == []
    world.fault(code=DEAD[0], source=DEAD[1])
    world.until(lambda: len(world.released()) == 1, 10)


def test_the_successor_serves_only_when_the_orchestrator_is_back() -> None:
    world = silent_world(PROCEED, code=DEAD[0], source=DEAD[1])
    world.minute(60)
    assert world.status() is NodeStatus.VALIDATING
    world.orchestrator.silent_until = None
    world.until(world.case_is(RESOLVED), 60)
    assert (world.status(), world.node().isolation) == (NodeStatus.HEALTHY, Isolation.NONE)
    assert (world.case().resolution, world.orchestrator.cordoned) == (Resolution.REPLACED, set())
    assert pages(world) == ["note isolation overdue", "note isolation over"]


def test_a_silence_that_is_over_makes_nobody_impatient_the_next_time() -> None:
    world = silent_world(PROCEED, code=DEAD[0], source=DEAD[1])
    world.minute(60)
    world.orchestrator.silent_until = None
    world.until(world.case_is(RESOLVED), 60)
    world.orchestrator.silent_until = world.clock.now() + LONG
    world.minute()
    world.fault(code=DEAD[0], source=DEAD[1])
    world.listen()
    world.minute(8)
    assert (world.status(), len(world.released())) == (NodeStatus.DEGRADED, 1)


def test_an_orchestrator_that_is_back_before_the_drain_is_asked_to_keep_work_off_first() -> None:
    world = silent_world(PROCEED, code=DEAD[0], source=DEAD[1])
    world.pause_repairs(paused=True)
    world.minute(15)
    assert (world.status(), world.node().isolation) == (NodeStatus.QUARANTINED, Isolation.REQUESTED)
    world.orchestrator.silent_until = None
    world.pause_repairs(paused=False)
    world.minute(1)
    assert (world.orchestrator.cordoned, world.node().isolation) == ({"node-1"}, Isolation.CONFIRMED)
    assert "drain drained" in world.story()


def test_work_that_cannot_be_asked_to_leave_holds_the_repair_without_holding_a_slot() -> None:
    world = drained_in_silence()
    world.minute(300)
    assert (world.status(), world.case().status) == (NodeStatus.QUARANTINED, QUEUED)
    assert (world.released(), world.control().holders) == ([], {})
    assert pages(world) == ["note isolation overdue"]
    assert "drain forced" not in world.story()
    world.orchestrator.silent_until = None
    world.until(world.case_is(RESOLVED), 120)
    assert pages(world) == ["note isolation overdue", "note isolation over"]
    assert len(world.released()) == 1


def test_a_drain_proceeds_with_a_machine_that_is_proven_dead() -> None:
    world = drained_in_silence(PROCEED)
    world.minute(5)
    world.fault(code=DEAD[0], source=DEAD[1])
    world.minute(4)
    assert world.released() == []
    world.until(lambda: len(world.released()) == 1, 12)


def test_a_patience_longer_than_the_drain_does_not_force_it() -> None:
    world = drained_in_silence(limits=limits(orchestrator_timeout=timedelta(hours=3)))
    world.minute(120)
    assert world.released() == []


def test_work_that_only_does_not_leave_in_time_is_no_silence() -> None:
    world = World(orchestrated=True)
    world.orchestrator.busy_until["node-1"] = NOON + LONG
    world.fault()
    world.listen()
    world.until(lambda: len(world.released()) == 1, 40)
    assert pages(world) == []


def test_a_dry_run_proceeds_with_nothing() -> None:
    world = silent_world(PROCEED, code=DEAD[0], source=DEAD[1], mode=Mode.DRY_RUN)
    world.minute(60)
    assert (world.released(), world.orchestrator.cordoned) == ([], set())
