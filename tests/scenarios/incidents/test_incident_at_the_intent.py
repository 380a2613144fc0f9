"""An incident, a pause or a fault between the last check of a repair and its intent still holds the repair."""

from __future__ import annotations

import pytest

from faultbridge.model.enums import CaseStatus, Resolution, WaitingFor
from faultbridge.model.errors import Misconfigured
from faultbridge.model.fault_enums import Action
from faultbridge.model.values import replace
from faultbridge.repair.case_orders import OperatorOrder
from faultbridge.repair.incidents import Correlate
from tests.scenarios.incidents.builders import before_the_intent_of, before_the_next, begin_incident, commits
from tests.scenarios.incidents.incidents import RACK, restore_links, world_of
from tests.scenarios.repair.builders import CAREFUL, MILD, record_outcomes
from tests.scenarios.threads.relapses import RESET
from tests.scenarios.world import CLUSTER, World
from tests.sim.fakes import Call


def is_intent(call: Call) -> bool:
    """Return whether a call commits an intent."""
    return commits(call, "intent")


def test_an_incident_that_opens_after_the_last_check_stops_the_intent() -> None:
    world = world_of()
    before_the_intent_of(world, lambda: begin_incident(world))
    world.fault_and_react(3, minutes=30)
    assert world.released_instances() == []
    assert world.case(3).waiting_for is WaitingFor.INCIDENT
    assert "intent committed" not in world.record_history(3)
    restore_links(world)
    world.until(world.case_is(CaseStatus.RESOLVED, 3))
    assert world.released_instances() == ["i-00000000000000003"]


def test_faults_that_nothing_has_correlated_yet_stop_the_intent() -> None:
    world = world_of()
    before_the_next(world, "collect", lambda: [world.fault(node, "net.link_down") for node in RACK])
    world.fault_and_react(3)
    assert world.control().holds
    world.advance_minutes(5)
    assert world.released_instances() == []
    assert world.case(3).waiting_for is WaitingFor.INCIDENT


def test_faults_that_nothing_has_correlated_yet_leave_the_volumes_of_a_node_where_they_are() -> None:
    world = world_of()
    world.policy = replace(world.policy, volumes=("data",))
    volume = world.volumes.add("i-00000000000000003", "data")
    before_the_next(world, "collect", lambda: [world.fault(node, "net.link_down") for node in RACK])
    world.fault_and_react(3, minutes=5)
    assert world.case(3).waiting_for is WaitingFor.INCIDENT
    assert (world.node(3).moving_volumes, world.volumes.volumes[volume].instance_id) == ((), "i-00000000000000003")


def test_a_failed_update_of_the_incidents_delays_the_intent_and_is_no_failure_of_the_attempt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = world_of()

    def fail(*_: object, **__: object) -> None:
        raise Misconfigured("the item of node-9 cannot be read")

    before_the_next(world, "collect", lambda: monkeypatch.setattr(Correlate, "update_incidents", fail))
    world.fault_and_react(3, minutes=5)
    assert world.released_instances() == []
    monkeypatch.undo()
    world.until(world.case_is(CaseStatus.RESOLVED, 3))
    assert (world.released_instances(), world.case(3).attempts) == (["i-00000000000000003"], 1)


def test_a_pause_after_the_last_check_stops_the_intent() -> None:
    world = World()
    before_the_intent_of(world, lambda: world.pause_repairs(paused=True))
    world.fault_and_react(minutes=30)
    assert (world.released_instances(), world.case().waiting_for) == ([], WaitingFor.PAUSE)
    world.pause_repairs(paused=False)
    world.until(world.case_is(CaseStatus.RESOLVED))
    assert len(world.released_instances()) == 1


@pytest.mark.parametrize("others", [0, 3])
def test_an_intent_survives_changes_of_the_controls_that_hold_nothing(others: int) -> None:
    world = World()
    left = [others]

    def change(call: Call) -> None:
        if is_intent(call) and left[0]:
            left[0] -= 1
            world.controls.pause(CLUSTER)
            world.controls.resume(CLUSTER, force=True)

    world.seam.before = change
    world.fault_and_react()
    assert (left, len(world.released_instances())) == ([0], 1)


def test_a_repair_that_is_canceled_after_the_last_check_is_not_begun() -> None:
    world = World()
    before_the_intent_of(world, lambda: world.orders.cancel(world.case().id, OperatorOrder("ada", "a false alarm")))
    world.fault_until_resolved()
    assert (world.released_instances(), world.case().resolution) == ([], Resolution.CANCELLED)
    assert "intent committed" not in world.record_history()


def test_a_fault_that_joins_after_the_last_check_brings_the_approval_of_its_rule() -> None:
    world = World(rules=(CAREFUL, replace(MILD, action=Action.REPLACE_NODE)))
    before_the_intent_of(world, lambda: world.fault(code="xid.79"))
    world.fault_and_react(code="xid.48", minutes=30)
    assert (world.case().waiting_for, world.released_instances()) == (WaitingFor.APPROVAL, [])
    assert "intent committed" not in world.record_history()


@pytest.mark.parametrize(("code", "step"), [("xid.79", "release_instance"), ("xid.48", "repair_in_place")])
def test_a_step_whose_intent_is_withdrawn_waits_for_the_next_check(code: str, step: str) -> None:
    world = World(rules=(RESET,))
    answers = record_outcomes(world, step)
    before_the_intent_of(world, lambda: world.pause_repairs(paused=True))
    world.fault_and_react(code=code)
    assert answers == ["waiting"]
