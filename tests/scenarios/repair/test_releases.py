"""The release of an instance: answers without a clear effect are settled by a probe, and the entries name the call."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from faultbridge.model.enums import CaseStatus, NodeStatus, ProviderFailure, RepairAction, WaitingFor
from faultbridge.model.fault_enums import Action, Severity
from faultbridge.model.values import replace
from faultbridge.record.ports.compute import Verdict, Verification
from tests.scenarios.incidents.builders import begin_incident
from tests.scenarios.incidents.incidents import world_of
from tests.scenarios.repair.builders import ADA, CAREFUL, MILD, begin_update, ignore, with_rules
from tests.scenarios.threads.relapses import RESET
from tests.scenarios.world import CLUSTER, GROUP, World
from tests.sim.fakes import Call

OLD = "i-00000000000000001"
RESOLVED = CaseStatus.RESOLVED


def releases(world: World) -> list[dict[str, Any]]:
    """Return the entries about the release, oldest first."""
    return [body["data"] for body in world.bodies() if body["data"].get("step") == "release_instance"]


def outcomes(world: World) -> list[str]:
    return [one["outcome"] for one in releases(world)]


@pytest.mark.parametrize("failure", [ProviderFailure.AMBIGUOUS, ProviderFailure.TIMEOUT])
def test_a_call_whose_effect_is_unknown_is_repeated_within_the_attempt_once_a_probe_finds_the_instance(
    failure: ProviderFailure,
) -> None:
    world = World()
    world.provider.fail_next(failure)
    world.fault_until_resolved()
    assert (world.case().attempts, outcomes(world)) == (1, ["released"])
    (first, again) = world.provider.replaced
    assert first == again


def test_a_refused_call_decides_nothing_while_no_probe_shows_whether_the_instance_exists() -> None:
    world = World()
    world.provider.probe_unknown = True
    world.provider.fail_next(ProviderFailure.THROTTLED)
    world.fault_and_react(minutes=10)
    assert (world.status(), outcomes(world)) == (NodeStatus.REPLACING, [])
    world.provider.probe_unknown = False
    world.until(world.case_is(RESOLVED))
    assert (world.case().attempts, outcomes(world)) == (1, ["released"])


def test_an_instance_that_the_provider_does_not_find_counts_as_released_once_a_probe_shows_it_terminated() -> None:
    world = World()
    world.provider.probe_unknown = True
    world.provider.fail_next(ProviderFailure.NOT_FOUND, effect=True)
    world.fault_and_react(minutes=10)
    assert (world.status(), outcomes(world)) == (NodeStatus.REPLACING, [])
    world.provider.probe_unknown = False
    world.until(world.case_is(RESOLVED))
    assert (world.case().attempts, world.released_instances()) == (1, [OLD])


@pytest.mark.parametrize("template", [False, True])
def test_a_live_instance_that_the_release_does_not_find_is_not_counted_as_released(template: bool) -> None:
    world = World()
    if template:
        world.launch_from_template()
    world.provider.fail_next(ProviderFailure.NOT_FOUND)
    world.fault_until(CaseStatus.ESCALATED)
    assert world.case().reason == "NOT_FOUND: scripted"
    assert (outcomes(world), world.fleet.is_alive(OLD)) == (["refused"], True)


def test_an_instance_that_neither_the_release_nor_a_probe_finds_is_left_to_an_operator() -> None:
    """Otherwise, a wrong region or role would leave the instance running without an end."""
    world = World()

    def lists_it_nowhere(call: Call) -> None:
        if call.name == "provider.replace":
            world.fleet.instances.pop(OLD)

    world.seam.before = lists_it_nowhere
    world.provider.fail_next(ProviderFailure.NOT_FOUND)
    world.fault_until(CaseStatus.ESCALATED)
    nowhere = f"the provider lists {OLD} nowhere; it may run in another region or account"
    assert world.case().reason == f"NOT_FOUND: scripted; {nowhere}"
    assert (outcomes(world), world.instance()) == (["refused"], OLD)


def test_the_entry_of_a_release_names_the_instance_and_the_operation_of_the_provider() -> None:
    world = World()
    world.fault_until_resolved()
    (released,) = releases(world)
    assert (released["old_instance"], released["operation"]) == (OLD, f"give-up-{OLD}")


def test_the_entry_of_a_refused_release_names_the_instance_that_stays_and_the_failure() -> None:
    world = World()
    world.provider.fail_next(ProviderFailure.PERMISSION_DENIED)
    world.fault_until(CaseStatus.ESCALATED)
    (refused,) = releases(world)
    assert (refused["outcome"], refused["old_instance"]) == ("refused", OLD)
    assert (refused["failure"], refused["reason"]) == ("PERMISSION_DENIED", "scripted")
    assert world.live_instances() == [OLD]


def test_a_release_that_the_provider_refuses_for_lack_of_capacity_makes_the_case_wait_for_capacity() -> None:
    world = World()
    world.provider.fail_next(ProviderFailure.CAPACITY)
    world.fault_until(CaseStatus.QUEUED)
    assert (world.case().waiting_for, world.case().counted_attempts) == (WaitingFor.CAPACITY, 0)
    assert list(world.control().no_capacity_until) == [GROUP]
    world.until(world.case_is(RESOLVED))
    assert dict(world.control().no_capacity_until) == {}


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
