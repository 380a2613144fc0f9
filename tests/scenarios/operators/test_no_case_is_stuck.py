"""Orders and faults that once left a case or a cordon behind for good: each ends by itself or by one command."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pytest

from faultbridge.decide.admit import Refused
from faultbridge.decide.case_moves import Rules
from faultbridge.model.entries import Transition
from faultbridge.model.enums import (
    Actor,
    CaseStatus,
    Isolation,
    NodeStatus,
    ProviderFailure,
    RepairAction,
    Resolution,
    WaitingFor,
)
from faultbridge.model.fault_enums import Action, Severity
from faultbridge.model.policy import Match, Rule
from faultbridge.record.append import Append
from faultbridge.record.ports.compute import CallResult
from faultbridge.record.ports.orchestrator import ClusterNode
from faultbridge.repair import dispatch
from faultbridge.repair.attempt.step_context import update_attempt
from faultbridge.repair.case_orders import OperatorOrder
from tests.scenarios.provider.external_replacement import ExternalReplacement
from tests.scenarios.world import World

REBOOT, REPLACE = RepairAction.REBOOT_NODE, RepairAction.REPLACE_NODE
ADA = OperatorOrder("arn:aws:iam::123456789012:user/ada", "false alarm")
ASKING = Rule("asking", approval=(REBOOT, REPLACE), release_without_capacity=True)
NEEDS_REBOOT = {"code": "xid.48", "severity": Severity.ERROR, "action": Action.REBOOT_NODE}


def asked_for_reboot() -> World:
    """A case that waits for the approval of a reboot."""
    world = World(rules=(ASKING,))
    world.fault_and_react(**NEEDS_REBOOT)
    assert (world.case().repair_action, world.case().waiting_for) == (REBOOT, WaitingFor.APPROVAL)
    return world


def approvals(world: World) -> list[tuple[str, str | None]]:
    """The stage of each note about an approval, and the repair action that it asks for."""
    notes = (body["data"] for body in world.bodies() if body["data"].get("kind") == "approval")
    return [(note["stage"], note["facts"].get("repair_action")) for note in notes]


@pytest.mark.parametrize("orchestrated", [False, True])
def test_canceling_a_case_in_its_waiting_period_returns_the_isolated_node_to_service(orchestrated: bool) -> None:
    world = World(rules=(Rule("wait", wait_seconds=600),), orchestrated=orchestrated)
    world.fault_and_react()
    assert (world.case().status, world.status()) == (CaseStatus.OPEN, NodeStatus.QUARANTINED)
    world.orders.cancel(world.case().id, ADA)
    world.until(world.case_is(CaseStatus.RESOLVED), minutes=60)
    assert (world.case().resolution, world.released_instances()) == (Resolution.CANCELLED, [])
    assert world.status().in_service
    assert world.orchestrator.cordoned == set()


def test_a_canceled_case_whose_execution_was_lost_needs_no_approval() -> None:
    asking = Rule("asking", Match(codes=("xid.79",)), approval=(REPLACE,))
    world = World(orchestrated=True, rules=(asking, Rule("free", release_without_capacity=True)))
    world.orchestrator.busy_until["node-1"] = world.clock.now() + timedelta(minutes=30)
    world.fault_and_react(code="xid.48")
    world.workflow.abort(f"{world.case().id}-1")
    between_steps = {"step": None, "task_token": None, "tries": 0, "probe_at": world.clock.now()}
    world.append(world.key(), lambda state, _: Transition(update_attempt(state, **between_steps)), actor=Actor.STEP)
    world.orders.cancel(world.case().id, ADA)
    world.fault_and_react(code="xid.79")
    world.until(world.case_is(CaseStatus.RESOLVED), minutes=90)
    assert (world.case().resolution, approvals(world), world.released_instances()) == (Resolution.CANCELLED, [], [])


def test_canceling_a_case_that_waits_for_approval_withdraws_the_request() -> None:
    world = asked_for_reboot()
    world.orders.cancel(world.case().id, ADA)
    assert approvals(world) == [("begun", "reboot_node"), ("over", None)]
    world.until(world.case_is(CaseStatus.RESOLVED), minutes=60)
    assert world.status().in_service


def test_a_worse_fault_during_an_approval_request_asks_for_the_stronger_repair() -> None:
    world = asked_for_reboot()
    world.fault_and_react(minutes=2)
    assert approvals(world) == [("begun", "reboot_node"), ("over", None), ("begun", "replace_node")]
    assert world.case().pending_approval is not None
    assert world.released_instances() == []
    world.orders.approve(world.case().id, ADA)
    world.until(world.case_is(CaseStatus.RESOLVED))
    assert world.case().resolution is Resolution.REPLACED


def test_an_approval_of_a_reboot_does_not_cover_the_replacement_that_a_worse_fault_requires() -> None:
    world = asked_for_reboot()
    world.pause_repairs(paused=True)
    world.orders.approve(world.case().id, ADA)
    world.fault_and_react()
    world.pause_repairs(paused=False)
    world.advance_minutes(30)
    assert (world.case().waiting_for, world.released_instances()) == (WaitingFor.APPROVAL, [])
    assert approvals(world)[-1] == ("begun", "replace_node")


def test_an_approval_that_arrives_while_the_refusal_is_recorded_is_not_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(rules=(ASKING,))
    world.fault(**NEEDS_REBOOT)
    world.pause_repairs(paused=True)
    world.process_entries()
    world.pause_repairs(paused=False)
    queued = world.dispatch._queued

    def read_then_approve(*given: object) -> object:
        """Return the queue as it was before another dispatch asked and an operator approved."""
        found = queued(*given)  # type: ignore[arg-type]
        monkeypatch.undo()
        world.dispatch.admit_cases(world.key().cluster)
        world.orders.approve(world.case().id, ADA)
        return found

    monkeypatch.setattr(type(world.dispatch), "_queued", lambda _, *given: read_then_approve(*given))
    world.dispatch.admit_cases(world.key().cluster)
    assert [stage for stage, _ in approvals(world)] == ["begun", "over"]
    world.until(world.case_is(CaseStatus.RESOLVED))


def test_an_approval_that_arrives_after_the_refusal_was_decided_is_not_asked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(rules=(ASKING,))
    record = dispatch.record_refusals

    def ask_and_approve_first(append: Append, refusals: Sequence[Refused], rules: Rules, *limit: int) -> None:
        if any(one.waiting_for is WaitingFor.APPROVAL for one in refusals):
            monkeypatch.undo()
            world.dispatch.admit_cases(world.key().cluster)
            world.orders.approve(world.case().id, ADA)
        record(append, refusals, rules, *limit)

    monkeypatch.setattr(dispatch, "record_refusals", ask_and_approve_first)
    world.fault_until_resolved(**NEEDS_REBOOT)
    assert [stage for stage, _ in approvals(world)] == ["begun", "over"]


def test_an_instance_replaced_during_an_approval_request_is_verified_at_once() -> None:
    world = World(rules=(Rule("asking", approval=(REPLACE,)),))
    external = ExternalReplacement(world)
    world.fault_and_react()
    assert world.case().pending_approval is not None
    external.replace_instance()
    external.run_inventory()
    assert (world.status(), world.case().pending_approval) == (NodeStatus.VALIDATING, None)
    assert approvals(world) == [("begun", "replace_node"), ("over", None)]
    assert world.until(world.case_is(CaseStatus.RESOLVED), minutes=60) < 30
    assert (world.case().resolution, world.status()) == (Resolution.EXTERNAL, NodeStatus.HEALTHY)


def cordoned_without_answer(world: World) -> None:
    """Report a fault; the orchestrator cordons the node, and its answer is lost."""
    cordon = world.orchestrator.cordon

    def lose_answer(member: ClusterNode) -> CallResult:
        cordon(member)
        return CallResult(ProviderFailure.TIMEOUT, "the answer was lost")

    world.orchestrator.cordon = lose_answer  # type: ignore[method-assign]
    world.fault_and_react()
    world.orchestrator.cordon = cordon  # type: ignore[method-assign]
    assert (world.node().isolation, world.orchestrator.cordoned) == (Isolation.REQUESTED, {"node-1"})


@pytest.mark.parametrize("severity", [Severity.FATAL, Severity.INFO])
def test_the_sweep_uncordons_a_serving_node_whose_trigger_was_lost(severity: Severity) -> None:
    # A fault that the policy calls informational leaves the node healthy; it is isolated when its repair starts.
    world = World(orchestrated=True, rules=(Rule("mild", Match(codes=("xid.79",)), severity=severity),))
    cordoned_without_answer(world)
    world.orders.cancel(world.case().id, ADA)
    world._changed()  # the trigger of the cancellation is lost
    assert world.status() in {NodeStatus.DEGRADED, NodeStatus.HEALTHY}
    world.advance_minutes()
    assert (world.node().isolation, world.orchestrator.cordoned) == (Isolation.NONE, set())


def test_the_sweep_repeats_an_uncordon_that_failed() -> None:
    world = World(orchestrated=True)
    cordoned_without_answer(world)
    world.orchestrator.fail_next(ProviderFailure.THROTTLED)
    world.orders.cancel(world.case().id, ADA)
    world.process_entries()
    assert world.orchestrator.cordoned == {"node-1"}
    world.advance_minutes(2)
    assert (world.node().isolation, world.orchestrator.cordoned) == (Isolation.NONE, set())
    assert world.node().isolation_tries == 0


def test_a_confirmed_isolation_leaves_no_row_for_the_sweep() -> None:
    world = World(orchestrated=True)
    world.fault_until_resolved()
    world.clock.advance(timedelta(minutes=1))
    assert not [item for item in world.table.items() if str(item["sk"]).startswith("CORDON#")]
