"""Restarts in place: what counts as one boot, as out of reach, and as a fault after the restart."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from faultbridge.model.enums import CaseStatus, ProviderFailure, RepairAction
from faultbridge.record.ports.compute import Restart, RestartState
from tests.scenarios.repair.builders import FIRST, REBOOT, RESET, RESOLVED, faulty_world, restarts
from tests.scenarios.world import World


def steps(world: World, outcome: str) -> list[dict[str, Any]]:
    """Return the entries about the restart that have this outcome."""
    bodies = (body["data"] for body in world.bodies())
    return [one for one in bodies if (one.get("step"), one.get("outcome")) == ("repair_in_place", outcome)]


def boot_of(world: World) -> tuple[int, str | None]:
    incarnation = world.node().incarnation
    assert incarnation is not None
    return incarnation.boot, incarnation.boot_id


def test_a_reboot_without_a_boot_id_is_a_new_boot() -> None:
    world = faulty_world()
    world.restarter.results[FIRST] = Restart(RestartState.DONE)
    world.until(world.case_is(RESOLVED))
    assert boot_of(world) == (2, None)


def test_a_reboot_without_a_boot_id_that_the_instance_reported_itself_is_one_boot() -> None:
    world = World(rules=(RESET, REBOOT))
    world.report_boot("boot-before")
    before, _ = boot_of(world)
    world.fault_and_react()
    world.restarter.results[FIRST] = Restart(RestartState.DONE)
    world.advance_minutes(3)
    world.report_boot("boot-after")
    world.until(world.case_is(RESOLVED))
    assert boot_of(world) == (before + 1, "boot-after")


@pytest.mark.parametrize("failure", [ProviderFailure.NOT_FOUND, ProviderFailure.PROVIDER_ERROR])
def test_an_instance_that_cannot_be_reached_for_a_reboot_is_replaced(failure: ProviderFailure) -> None:
    world = World(rules=(RESET, REBOOT))
    world.restarter.fail_next(failure)
    world.fault_until_resolved()
    assert (restarts(world), world.released_instances()) == ([], [FIRST])
    (step,) = steps(world, "out_of_reach")
    assert (step["failure"], step["new_instance"]) == (failure.value, FIRST)


def test_the_entry_of_a_restart_names_the_instance_and_the_operation() -> None:
    world = faulty_world()
    world.until(world.case_is(RESOLVED))
    ((_, _, token),) = world.restarter.restarted
    named = [(one["operation"], one["new_instance"]) for one in (*steps(world, "begun"), *steps(world, "back"))]
    assert named == [(f"reboot_node-{token}", FIRST)] * 2


@pytest.mark.parametrize("known_late", [False, True])
def test_a_restart_whose_answer_is_lost_is_recorded_as_begun_before_it_is_back(known_late: bool) -> None:
    world = World(rules=(RESET, REBOOT))
    world.restarter.fail_next(ProviderFailure.AMBIGUOUS, effect=True)
    world.restarter.status_unknown = known_late
    world.fault_and_react(minutes=6)
    world.restarter.status_unknown = False
    world.until(world.case_is(RESOLVED))
    ((_, _, token),) = world.restarter.restarted
    named = [(one["operation"], one["new_instance"]) for one in (*steps(world, "begun"), *steps(world, "back"))]
    assert named == [(f"reboot_node-{token}", FIRST)] * 2
    history = world.record_history()
    assert history.index("repair_in_place begun") < history.index("repair_in_place back")


def test_a_failed_restart_whose_answer_was_lost_is_recorded_as_begun() -> None:
    world = World(rules=(RESET, REBOOT))
    world.restarter.fail_next(ProviderFailure.AMBIGUOUS, effect=True)
    world.restarter.results[FIRST] = Restart(RestartState.FAILED, "no driver", operation="command-1")
    world.restarter.duration = timedelta(0)
    world.fault_until_resolved()
    assert [one["operation"] for one in steps(world, "begun")] == ["command-1"]
    assert [one["reason"] for one in steps(world, "failed")] == ["no driver"]


def test_a_fault_between_the_restart_and_its_verification_fails_the_verification() -> None:
    world = World(rules=(RESET, REBOOT))
    handler = world.workflow.handler
    reported: list[str] = []

    def report(payload: Mapping[str, Any]) -> Any:
        if payload["step"] == "verify" and not reported:
            reported.append("xid.48")
            world.clock.advance(timedelta(seconds=1))
            world.fault(code="xid.48")
            world.clock.advance(timedelta(seconds=1))
            world.pause_repairs(paused=True)
        return handler(payload)

    world.workflow.handler = report
    world.fault_until(CaseStatus.QUEUED, code="xid.48")
    assert reported
    assert "verify failed" in world.record_history()
    assert world.case().repair_action is RepairAction.REBOOT_NODE


def test_a_restart_is_recorded_as_begun_once_its_call_was_accepted() -> None:
    world = faulty_world()
    ((_, _, token),) = world.restarter.restarted
    assert [one["operation"] for one in steps(world, "begun")] == [f"reboot_node-{token}"]


def test_a_restart_that_ends_without_an_operation_is_recorded_as_begun_only_once() -> None:
    world = faulty_world()
    world.restarter.results[FIRST] = Restart(RestartState.DONE)
    world.until(world.case_is(RESOLVED))
    assert len(steps(world, "begun")) == 1


@pytest.mark.parametrize(
    ("status_unknown", "reason"), [(True, "the agent does not answer"), (False, "the reboot_node is running")]
)
def test_an_instance_that_is_not_back_in_time_is_recorded_with_what_was_last_known(
    status_unknown: bool, reason: str
) -> None:
    world = faulty_world()
    world.restarter.duration = timedelta(days=1)
    world.restarter.status_unknown = status_unknown
    world.until(lambda: bool(steps(world, "timed_out")), minutes=60)
    (step,) = steps(world, "timed_out")
    assert (step["reason"], step["failure"]) == (f"the instance did not come back in time: {reason}", "TIMEOUT")
