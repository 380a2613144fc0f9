"""An attempt that is stopped before its intent costs its case nothing: it does not count and causes no delay."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from faultbridge.model.enums import CaseStatus, NodeStatus, RepairAction, WaitingFor
from faultbridge.model.fault_enums import Action, Severity
from faultbridge.model.values import replace
from faultbridge.record.ports import Verdict, Verification
from tests.scenarios.incidents.builders import begin_incident
from tests.scenarios.incidents.incidents import world_of
from tests.scenarios.repair.builders import ADA, CAREFUL, MILD, begin_update, ignore, with_rules
from tests.scenarios.threads.relapses import RESET
from tests.scenarios.world import CLUSTER, World


def pause(world: World) -> None:
    world.pause_repairs(paused=True)


def join(world: World) -> None:
    """Report a fault whose replacement requires an approval."""
    world.fault(code="xid.79")


@pytest.mark.parametrize("action", [Action.REBOOT_NODE, Action.REPLACE_NODE])
@pytest.mark.parametrize(
    ("stop", "waiting_for"),
    [
        (pause, WaitingFor.PAUSE),
        (ignore, WaitingFor.PAUSE),
        (join, WaitingFor.APPROVAL),
        (begin_update, WaitingFor.UPDATE),
    ],
)
def test_a_stopped_attempt_does_not_count_and_delays_no_later_attempt(
    stop: Callable[[World], None], waiting_for: WaitingFor, action: Action
) -> None:
    world = with_rules(CAREFUL, replace(MILD, action=action))
    world.orchestrator.busy_until["node-1"] = world.clock.now() + timedelta(minutes=10)
    world.fault_and_react(code="xid.48", severity=Severity.ERROR)
    assert world.status() is NodeStatus.DRAINING
    stop(world)
    world.until(world.case_is(CaseStatus.QUEUED))
    case = world.case()
    assert (case.attempts, case.counted_attempts, case.not_before) == (1, 0, None)
    assert (case.waiting_for, world.status()) == (waiting_for, NodeStatus.QUARANTINED)
    assert (world.restarter.restarted, world.released_instances()) == ([], [])


def test_an_attempt_that_an_incident_stops_does_not_count_and_delays_no_later_attempt() -> None:
    world = world_of(orchestrated=True)
    world.orchestrator.busy_until["node-3"] = world.clock.now() + timedelta(minutes=10)
    world.fault_and_react(3)
    begin_incident(world)
    case = world.case(3)
    request = {"v": 1, "cluster": CLUSTER, "node": "node-3", "case": case.id, "attempt": 1}
    world.step_runner.run_step(request | {"step": "drain"})
    assert (world.case(3).status, world.case(3).waiting_for) == (CaseStatus.QUEUED, WaitingFor.INCIDENT)
    assert (world.case(3).attempts, world.case(3).counted_attempts, world.case(3).not_before) == (1, 0, None)


def test_a_canceled_attempt_is_followed_by_its_verification_without_a_delay() -> None:
    world = World(orchestrated=True)
    world.orchestrator.busy_until["node-1"] = world.clock.now() + timedelta(minutes=30)
    world.fault_and_react()
    world.orders.cancel(world.case().id, ADA)
    world.until(lambda: world.case().repair_action is RepairAction.VERIFY)
    assert (world.case().attempts, world.case().status) == (2, CaseStatus.IN_PROGRESS)


def test_the_next_repair_action_is_tried_without_a_delay() -> None:
    world = World(rules=(RESET,))
    world.verifier.result = Verification(Verdict.FAILED, ("memory: fail",))
    world.fault_and_react(code="xid.48")
    world.until(lambda: "verify failed" in world.record_history())
    assert (world.case().attempts, world.case().repair_action) == (2, RepairAction.REBOOT_NODE)
