"""Concurrent changes between the decision of a repair and its write."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from faultbridge.model.entries import Transition
from faultbridge.model.enums import Actor, CaseStatus, Isolation, NodeStatus, ProviderFailure, WaitingFor
from faultbridge.model.errors import Transient
from faultbridge.model.fault_enums import Action, Severity
from faultbridge.model.nodes import Alias, AliasRow, NodeKey, NodeState
from faultbridge.model.policy import Match, Rule
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.writes import Put, Update, Write
from faultbridge.model.times import to_text
from faultbridge.model.values import replace
from faultbridge.record.ports.compute import Capacity, CapacityEvidence, Verdict, Verification
from faultbridge.repair.attempt.step_context import StepRequest
from tests.races import run_before_write
from tests.scenarios.repair.builders import record_outcomes
from tests.scenarios.world import CLUSTER, GROUP, World
from tests.sim.fakes import Call, raise_once

CONTROL = keys.cluster_control(CLUSTER)
REBOOT = Rule("reboot", Match(codes=("xid.48",)), action=Action.REBOOT_NODE)


def await_one_of_two() -> tuple[World, str, str]:
    """Return a world whose repair is about to claim the first of two new instances, and their ids."""
    world = World(launch_delay=timedelta(minutes=1))
    world.fault_and_react()
    world.clock.advance(timedelta(minutes=2))
    (first,) = [one.instance_id for one in world.fleet.running(GROUP)]
    return world, first, world.fleet.launch(GROUP)


def test_a_successor_registered_for_another_node_during_the_claim_stays_there() -> None:
    world, first, second = await_one_of_two()
    row = AliasRow(NodeKey(CLUSTER, "node-9"), first, world.clock.now())
    register = Put(items.alias_item(Alias("instance", first), row, world.clock.now()))
    run_before_write(world.seam, lambda write: write.key.sk == "CLAIM", lambda: world.table.write(register))
    world.advance_minutes()
    assert world.instance() == second
    assert items.read_alias(world.table.get(keys.alias("instance", first))).key.node == "node-9"


def test_an_instance_that_another_case_claims_during_the_claim_stays_with_that_case() -> None:
    world, first, second = await_one_of_two()
    holder = {"cluster": CLUSTER, "node": "node-9", "case": "c-other", "attempt": 1}
    claimed = Put(items.item(keys.claim(first), world.clock.now(), holder))
    run_before_write(world.seam, lambda write: write.key.sk == "CLAIM", lambda: world.table.write(claimed))
    world.advance_minutes()
    assert world.instance() == second
    assert world.table.get(keys.claim(first))["case"] == "c-other"


def test_a_host_name_registered_for_another_node_during_the_claim_stays_with_that_node() -> None:
    """The claim ends the names of the old instance; AWS may have given such a name to another instance meanwhile."""
    world = World(launch_delay=timedelta(minutes=1))
    alias = Alias("name", f"{CLUSTER}/ip-old")
    mine = AliasRow(world.key(), "i-00000000000000001", world.clock.now() - timedelta(days=1))
    world.table.write(Put(items.alias_item(alias, mine, world.clock.now())))

    def named(state: NodeState, _: datetime) -> Transition:
        return Transition(replace(state, placement=replace(state.placement, host_names=("ip-old",))))

    world.append(world.key(), named, actor=Actor.INVENTORY)
    world.fault_and_react()
    world.clock.advance(timedelta(minutes=2))
    other = AliasRow(NodeKey(CLUSTER, "node-9"), "i-00000000000000009", world.clock.now())
    register = Put(items.alias_item(alias, other, world.clock.now()))
    run_before_write(world.seam, lambda write: write.key.sk == "CLAIM", lambda: world.table.write(register))
    world.until(world.case_is(CaseStatus.RESOLVED))
    found = items.read_alias(world.table.get(keys.alias(*alias)))
    assert (found.key.node, found.valid_to) == ("node-9", None)


@pytest.mark.parametrize(("code", "step"), [("xid.79", "release_instance"), ("xid.48", "repair_in_place")])
def test_two_calls_of_a_step_at_once_commit_one_intent_and_act_once(code: str, step: str) -> None:
    """A retry and a probe of the sweep may run the same step at the same time."""
    world = World(rules=(REBOOT,))

    def second_call() -> None:
        world.clock.advance(timedelta(seconds=1))
        world.step_runner.run(StepRequest(step, world.key(), world.case().id, 1), None)

    def commits_intent(write: Write) -> bool:
        attempt = world.case().attempt
        return write.key == CONTROL and attempt is not None and (attempt.step, attempt.intent) == (step, None)

    world.fault(code=code)
    world.provider.fail_next(ProviderFailure.AMBIGUOUS)
    run_before_write(world.seam, commits_intent, second_call)
    world.until_case(CaseStatus.RESOLVED)
    assert world.record_history().count("intent committed") == 1
    assert len(set(world.provider.replaced)) + len(set(world.restarter.restarted)) == 1


@pytest.mark.parametrize(
    ("code", "step", "entry"),
    [("xid.79", "verify", "verify begun"), ("xid.48", "repair_in_place", "repair_in_place begun")],
)
def test_two_calls_of_a_step_that_starts_an_operation_record_one_start(code: str, step: str, entry: str) -> None:
    """A second entry would count the start twice, and a second operation could hide the result of the first one."""
    world = World(rules=(REBOOT,))

    def second_call() -> None:
        world.clock.advance(timedelta(seconds=1))
        world.step_runner.run(StepRequest(step, world.key(), world.case().id, 1), None)

    def records_start(_: Write) -> bool:
        attempt = world.case().attempt
        started = world.verifier.started if step == "verify" else world.restarter.restarted
        return bool(started) and attempt is not None and (attempt.step, attempt.operation) == (step, None)

    world.fault(code=code)
    run_before_write(world.seam, records_start, second_call)
    world.until_case(CaseStatus.RESOLVED)
    assert world.record_history().count(entry) == 1
    assert len(world.verifier.started) == 1


def test_two_calls_that_find_a_verification_without_a_result_restart_it_once() -> None:
    world = World(launch_delay=timedelta(minutes=1))
    successor = "i-00000000000000002"
    world.verifier.results[successor] = Verification(Verdict.UNKNOWN)

    def second_call(call: Call) -> None:
        if call.name != "verifier.status":
            return
        attempt = world.case().attempt
        since = attempt.watched_since if attempt else None
        if since and world.clock.now() - since >= timedelta(minutes=10):
            world.seam.after = lambda _: None
            world.clock.advance(timedelta(seconds=1))
            world.step_runner.run(StepRequest("verify", world.key(), world.case().id, 1), None)
            del world.verifier.results[successor]

    world.seam.after = second_call
    world.fault_until_resolved()
    assert world.record_history().count("verify no_result") == 1


def test_a_group_found_without_capacity_by_two_repairs_at_once_stays_marked() -> None:
    world = World()
    world.provider.known_capacity = Capacity(CapacityEvidence.RESERVATION, free=False)
    world.fault()
    until = to_text(world.clock.now() + timedelta(hours=1))
    others = Update(CONTROL, set={("no_capacity_until",): {"another-group": until}}, add={"version": 1})
    run_before_write(
        world.seam,
        lambda write: isinstance(write, Update) and write.key == CONTROL and ("no_capacity_until",) in write.set,
        lambda: world.table.write(others),
    )
    world.process_entries()
    assert "another-group" in world.control().no_capacity_until
    (execution,) = world.workflow.executions.values()
    assert execution.state == "Stopped", "the result of the step is kept, although only the other mark is stored"


def test_a_node_that_failed_again_stays_out_although_the_scheduler_fails_at_first() -> None:
    world = World(orchestrated=True)
    world.fault()

    def breaks_again(call: Call) -> None:
        if call.name == "orchestrator.uncordon":
            world.seam.after = lambda _: None
            world.fault(code="xid.48")
            world.orchestrator.fail_next(*[ProviderFailure.THROTTLED] * 2)

    world.seam.after = breaks_again
    world.until(lambda: world.case().attempts > 1 or world.case().status is CaseStatus.ESCALATED, minutes=120)
    assert world.node().isolation is Isolation.CONFIRMED
    assert world.orchestrator.cordoned == {"node-1"}


def test_without_capacity_the_attempt_is_stopped_before_any_intent() -> None:
    world = World()
    world.provider.known_capacity = Capacity(CapacityEvidence.RESERVATION, free=False)
    answers = record_outcomes(world, "release_instance")
    world.fault_and_react()
    assert answers == ["stopped"]


def test_a_node_without_a_known_instance_is_escalated() -> None:
    world = World()
    world.append(
        world.key(),
        lambda state, _: Transition(replace(state, incarnation=replace(state.incarnation, instance_id=None))),
        actor=Actor.CLI,
    )
    world.fault_and_react()
    assert (world.case().status, world.released_instances()) == (CaseStatus.ESCALATED, [])
    assert world.case().reason == "NOT_FOUND: the node has no known instance"


@pytest.mark.parametrize("severity", [Severity.WARNING, Severity.FATAL])
def test_a_node_that_returns_with_an_active_fault_is_degraded(severity: Severity) -> None:
    mild = Rule("mild", Match(codes=("xid.92",)), severity=severity, action=Action.NONE)
    look = Rule("look", Match(codes=("xid.48",)), action=Action.RUN_DIAGNOSTICS)
    world = World(rules=(mild, look))
    world.fault(code="xid.92")
    world.fault_until_resolved(code="xid.48")
    assert (world.node().severity, world.status()) == (severity, NodeStatus.DEGRADED)


def test_an_accepted_replacement_continues_although_probes_are_unknown() -> None:
    world = World()
    world.provider.probe_unknown = True
    world.fault_and_react()
    assert world.status() is NodeStatus.PROVISIONING
    assert world.record_history().count("release_instance released") == 1


@pytest.mark.parametrize("failure", [ProviderFailure.PROVIDER_ERROR, ProviderFailure.CONFLICT])
def test_an_error_is_no_refusal_if_the_instance_is_gone(failure: ProviderFailure) -> None:
    world = World()
    world.provider.fail_next(failure, effect=True)
    world.fault_and_react()
    assert world.status() is NodeStatus.PROVISIONING
    assert "release_instance refused" not in world.record_history()
    assert len(world.released_instances()) == 1


def test_a_release_without_an_answer_is_probed_at_once() -> None:
    world = World()
    world.fault()
    world.seam.after = raise_once(("provider.replace", Transient("no answer")))
    world.process_entries()
    assert (world.status(), len(world.released_instances())) == (NodeStatus.PROVISIONING, 1)


def test_a_capacity_refusal_marks_the_group_and_costs_no_attempt() -> None:
    world = World()
    world.provider.fail_next(ProviderFailure.CAPACITY)
    world.fault_and_react()
    case = world.case()
    assert (case.status, case.waiting_for, case.counted_attempts) == (CaseStatus.QUEUED, WaitingFor.CAPACITY, 0)
    assert set(world.control().no_capacity_until) == {GROUP}


def test_the_sweep_delivers_a_step_result_that_the_execution_did_not_get() -> None:
    world = World()
    world.fault_and_react()
    world.seam.before = raise_once(("workflow.resume", Transient("no answer")))
    world.until(world.case_is(CaseStatus.RESOLVED), minutes=60)
    assert (world.case().attempts, len(world.workflow.executions)) == (1, 1)
