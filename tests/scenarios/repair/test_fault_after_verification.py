"""A fault between verification and return keeps the node out of service."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from faultbridge.model.entries import Transition
from faultbridge.model.enums import Actor, CaseStatus, Isolation, NodeStatus, ProviderFailure
from faultbridge.model.errors import Transient
from faultbridge.model.nodes import NodeState
from faultbridge.model.values import replace
from tests.scenarios.threads.relapses import RESET
from tests.scenarios.world import World
from tests.sim.fakes import Call


class FaultAtUncordon:
    """A hook that reports a fault on the node at the first uncordon call."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.seen = False

    def __call__(self, call: Call) -> None:
        if call.name == "orchestrator.uncordon" and not self.seen:
            self.seen = True
            self.world.fault(code="xid.48")


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_fault_after_the_verification_keeps_the_node_out_of_service(moment: str) -> None:
    world = World(orchestrated=True)
    world.fault()
    hook = FaultAtUncordon(world)
    setattr(world.seam, moment, hook)
    world.until(lambda: hook.seen, minutes=120)
    assert world.status() is NodeStatus.QUARANTINED or world.case().status is not CaseStatus.RESOLVED
    assert world.orchestrator.cordoned == {"node-1"}


def test_a_fault_between_a_reset_and_the_start_of_its_verification_fails_the_verification() -> None:
    world = World(rules=(RESET,))
    world.fault(code="xid.48")

    def delay(call: Call) -> None:
        if call.name == "verifier.start":
            raise Transient("no answer")

    world.seam.before = delay
    world.until(lambda: "repair_in_place back" in world.record_history())
    world.advance_minutes(1)
    world.fault(code="xid.48")
    world.advance_minutes(1)
    world.seam.before = lambda _: None
    world.until(lambda: {"verify failed", "verify passed"} & set(world.record_history()) != set())
    assert "verify passed" not in world.record_history()


def before_step(world: World, step: str, action: Callable[[], object]) -> list[str]:
    """Run an action once, right before a call of a step; the returned list then names the step."""
    handler, seen = world.workflow.handler, list[str]()

    def act_first(payload: Any) -> Any:
        if payload["step"] == step and not seen:
            seen.append(step)
            world.clock.advance(1)
            action()
        return handler(payload)

    world.workflow.handler = act_first
    return seen


@pytest.mark.parametrize("answers", [True, False])
def test_a_node_with_a_fault_after_its_verification_is_not_uncordoned(answers: bool) -> None:
    world = World(orchestrated=True)
    world.fault()

    def fail_again() -> None:
        world.fault(code="xid.48")
        world.orchestrator.fail_next(*[] if answers else [ProviderFailure.TIMEOUT])

    seen = before_step(world, "return_to_service", fail_again)
    world.until(lambda: bool(seen), minutes=120)
    assert world.seam.named("orchestrator.uncordon") == []
    # Without an answer, it is not known whether the node is cordoned: the sweep repeats the call.
    assert world.node().isolation is (Isolation.CONFIRMED if answers else Isolation.REQUESTED)


def test_a_cordon_that_a_lost_execution_set_is_removed_after_the_case_is_closed() -> None:
    world = World(orchestrated=True)
    world.fault()

    def cordon() -> None:
        def request(state: NodeState, _: datetime) -> Transition:
            return Transition(replace(state, isolation=Isolation.REQUESTED))

        world.append(world.key(), request, actor=Actor.STEP)
        world.orchestrator.cordoned.add("node-1")

    before_step(world, "close", cordon)
    world.until(world.case_is(CaseStatus.RESOLVED), minutes=120)
    world.advance_minutes(3)
    assert (world.orchestrator.cordoned, world.node().isolation) == (set(), Isolation.NONE)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_node_that_fails_again_is_repaired_or_escalated(moment: str) -> None:
    world = World(orchestrated=True)
    world.fault()
    setattr(world.seam, moment, FaultAtUncordon(world))
    world.until(lambda: not world.case().status.live or world.case().status is CaseStatus.ESCALATED, minutes=240)
    assert world.case().status is CaseStatus.ESCALATED or not any(
        one.action.opens_case for one in world.node().active()
    )
    assert world.control().holders == {}


def uncordoned_without_record(*, paused: bool) -> World:
    """Return a world whose node has another fault when it is uncordoned, by a call whose answer is lost."""
    world = World(orchestrated=True)
    world.fault()
    hook = FaultAtUncordon(world)

    def lose_the_answer(call: Call) -> None:
        if call.name == "orchestrator.uncordon" and not hook.seen:
            hook(call)
            if paused:
                world.pause_repairs(paused=True)
            raise Transient("the answer was lost")

    world.seam.after = lose_the_answer
    world.until(lambda: hook.seen, minutes=120)
    return world


def test_a_node_uncordoned_without_record_is_cordoned_again_before_its_drain() -> None:
    world = uncordoned_without_record(paused=False)
    closed_at_give_up = []

    def look(call: Call) -> None:
        if call.name == "provider.replace":
            closed_at_give_up.append(set(world.orchestrator.cordoned))

    world.seam.before = look
    world.until(world.case_is(CaseStatus.RESOLVED), minutes=240)
    assert closed_at_give_up == [{"node-1"}]


def test_a_node_whose_uncordon_is_not_recorded_is_cordoned_again_although_repairs_are_paused() -> None:
    world = uncordoned_without_record(paused=True)
    assert world.orchestrator.cordoned == set()
    world.until(world.case_is(CaseStatus.QUEUED), minutes=30)
    assert world.status() is NodeStatus.QUARANTINED
    assert world.orchestrator.cordoned == {"node-1"}


def test_a_late_report_from_before_the_verification_opens_no_case() -> None:
    world = World()
    world.fault()
    world.until(lambda: world.status() is NodeStatus.VALIDATING, minutes=120)
    before = world.clock.now()
    world.until(world.case_is(CaseStatus.RESOLVED), minutes=120)
    world.advance_minutes(120)
    world.fault(code="xid.48", seen=before)
    world.advance_minutes()
    assert (list(world.node().active()), world.status()) == ([], NodeStatus.HEALTHY)


def test_a_late_report_from_during_the_verification_counts() -> None:
    world = World()
    world.fault()
    world.until(lambda: "verify begun" in world.record_history(), minutes=120)
    world.advance_minutes(2)
    during = world.clock.now()
    world.until(world.case_is(CaseStatus.RESOLVED), minutes=120)
    world.fault(code="xid.48", seen=during)
    assert [one.code for one in world.node().active()] == ["xid.48"]


def test_a_fault_from_before_the_verification_that_is_recorded_after_it_opens_a_case_of_its_own() -> None:
    world = World(orchestrated=True, rules=(RESET,))
    world.fault(code="xid.48")
    world.until(lambda: "repair_in_place begun" in world.record_history(), minutes=120)
    first, before, recorded = world.case().id, world.clock.now(), []

    def record_late(call: Call) -> None:
        if call.name == "orchestrator.uncordon" and not recorded:
            recorded.append(call)
            world.fault(code="net.link_down", source="link-state", seen=before)

    world.seam.after = record_late
    world.until(lambda: world.case().id != first, minutes=120)
    assert (world.case().code, world.case().previous_case) == ("net.link_down", first)
