"""Replacement of a faulty node: the complete timeline, and what can fail on the way."""

from __future__ import annotations

from datetime import timedelta

import pytest

from faultbridge.model.cluster.config import Mode
from faultbridge.model.entries import Transition
from faultbridge.model.enums import Actor, CaseStatus, Isolation, NodeStatus, Resolution
from faultbridge.model.errors import Transient
from faultbridge.model.fault_enums import Action
from faultbridge.model.policy import Match, Rule
from faultbridge.model.values import replace
from faultbridge.record.ports.compute import Capacity, CapacityEvidence, Verdict, Verification
from faultbridge.repair.case_orders import OperatorOrder
from faultbridge.repair.registry.registration import NewNode, Registration
from tests.builders import NOON
from tests.scenarios.world import GROUP, REPLACEMENT_AFTER_INTENT, World
from tests.sim.fakes.seam import Call

RESOLVED, QUEUED, ESCALATED = CaseStatus.RESOLVED, CaseStatus.QUEUED, CaseStatus.ESCALATED


def test_a_fatal_fault_ends_in_a_verified_instance_behind_the_same_node():
    world = World()
    world.fault_until_resolved()
    assert world.record_history() == [
        "node None -> healthy",
        "detected xid.79",
        "case None -> open",
        "node healthy -> degraded",
        "case open -> queued",
        "node degraded -> quarantined",
        "case queued -> in_progress",
        "node quarantined -> draining",
        "drain not_applicable",
        "collect kept",
        "intent committed",
        *REPLACEMENT_AFTER_INTENT,
    ]


def test_after_the_replacement_only_the_timeline_of_the_attempt_remains():
    world = World()
    world.fault_until_resolved()
    node = world.node()
    assert (node.status, node.isolation, node.due_at) == (NodeStatus.HEALTHY, Isolation.NONE, None)
    assert node.incarnation is not None
    assert node.incarnation.instance == 2
    assert node.incarnation.instance_id not in {None, "i-00000000000000001"}
    assert node.former_instances == ("i-00000000000000001",)
    assert node.case is not None
    assert node.case.resolution is Resolution.REPLACED
    assert node.case.attempt is not None
    assert node.case.attempt.task_token is None
    assert world.control().holders == {}
    assert not [item for item in world.table.items() if item["sk"].startswith(("BAD#", "ADMISSION#"))]


def test_a_node_keeps_the_last_eight_of_its_former_instances():
    world, earlier = World(), tuple(f"i-{number}" for number in range(8))
    world.append(
        world.key(), lambda state, _: Transition(replace(state, former_instances=earlier)), actor=Actor.INVENTORY
    )
    world.fault_until_resolved()
    assert world.node().former_instances == (*earlier[1:], "i-00000000000000001")


def test_the_closing_entry_contains_the_duration_of_each_phase():
    world = World()
    world.fault_until_resolved()
    phases = world.bodies()[-1]["data"]["phases"]
    expected = {"detected", "open", "queued", "in_progress", "draining", "intent", "acted", "awaiting"}
    assert expected | {"verifying", "closing"} == set(phases)
    assert phases["verifying"] >= 10 * 60_000, phases


def test_an_execution_needs_far_fewer_than_thirty_transitions():
    world = World()
    world.fault_until_resolved()
    (execution,) = world.workflow.executions.values()
    assert execution.visited[-2:] == ["IsCaseClosed", "Replaced"]
    assert execution.transitions == 13


def test_the_cluster_is_degraded_then_recovering_then_healthy():
    world = World(nodes=20)
    world.fault_until_resolved()
    moves = [line for line in world.record_history(None) if line.startswith("cluster")]
    assert moves[0].startswith("cluster None -> healthy")
    assert moves[-1].endswith("-> healthy")
    assert any(line.endswith("-> recovering") for line in moves)


def test_old_aliases_and_the_new_instance_resolve_to_the_node():
    from faultbridge.model.storage import items, keys

    world = World()
    world.fault_until_resolved()
    new = world.instance()
    rows = {
        name: items.read_alias(world.table.get(keys.alias(*name)))
        for name in [
            ("instance", "i-00000000000000001"),
            ("instance", new),
            ("name", "train-a/node-1"),
            ("name", f"train-a/ip-{new[-4:]}.internal"),
        ]
    }
    assert {row.key for row in rows.values()} == {world.key()}
    assert rows["instance", "i-00000000000000001"].valid_to is not None
    assert rows["instance", new].valid_to is None


def test_the_names_of_the_host_change_with_the_instance_and_the_aliases_stay():
    from faultbridge.model.storage import items, keys

    world = World()
    names = {"aliases": ("gpu-1",), "host_names": ("ip-10-0-0-5", "ip-10-0-0-5.ec2.internal")}
    old = f"i-{9:017x}"
    world.fleet.launch(GROUP, old, NOON - timedelta(days=1))
    new_node = NewNode("node-9", old, GROUP, "p5.48xlarge", since=NOON - timedelta(days=1), **names)
    Registration(world.table, world.append, world.clock).add_node("train-a", new_node)
    world.fault_and_react(9)
    world.until(lambda: world.case(9).status is RESOLVED)
    state = world.node(9)
    host = f"ip-{state.incarnation.instance_id[-4:]}"
    assert (state.placement.aliases, state.placement.host_names) == (("gpu-1",), (host, f"{host}.internal"))
    rows = {
        name: items.read_alias(world.table.get(keys.alias("name", f"train-a/{name}")))
        for name in ("gpu-1", *names["host_names"], host)
    }
    assert [row.valid_to is None for row in rows.values()] == [True, False, False, True]
    assert rows["ip-10-0-0-5"].instance_id == old


def test_with_an_orchestrator_the_node_is_cordoned_before_and_uncordoned_only_after_the_verification():
    world = World(orchestrated=True)
    world.fault_and_react()
    assert world.orchestrator.cordoned == {"node-1"}
    world.until(lambda: world.status() is NodeStatus.VALIDATING)
    assert world.orchestrator.cordoned == {"node-1"}
    world.until(world.case_is(RESOLVED))
    assert world.orchestrator.cordoned == set()
    story = world.record_history()
    assert story.index("verify passed") < story.index("return_to_service returned")


def test_jobs_get_time_to_finish_before_the_intent():
    world = World(orchestrated=True)
    world.orchestrator.busy_until["node-1"] = world.clock.now() + timedelta(minutes=20)
    world.fault_and_react(minutes=15)
    assert (world.status(), world.released_instances()) == (NodeStatus.DRAINING, [])
    world.until(world.case_is(RESOLVED))
    assert "drain drained" in world.record_history()


def test_an_unusable_node_does_not_wait_for_jobs_that_never_finish():
    world = World(orchestrated=True)
    world.orchestrator.busy_until["node-1"] = world.clock.now() + timedelta(days=1)
    world.fault_until_resolved(code="xid.79")
    assert "drain forced" in world.record_history()


def test_a_bad_successor_is_replaced():
    world = World()
    bad = Verification(Verdict.FAILED, ("pcie: fail",), b"{}")
    world.verifier.results["i-00000000000000002"] = bad
    world.fault_until_resolved()
    assert world.released_instances() == ["i-00000000000000001", "i-00000000000000002"]
    assert (world.case().attempts, world.case().resolution) == (2, Resolution.REPLACED)
    assert world.record_history().count("intent committed") == 2


def test_repeatedly_failed_verifications_escalate_the_case_and_the_node_stays_out_of_service():
    world = World()
    world.verifier.result = Verification(Verdict.FAILED, ("pcie: fail",), b"{}")
    world.fault_until(ESCALATED)
    assert world.status() is NodeStatus.FAILED
    assert world.case().reason == "VERIFY_FAILED: pcie: fail"
    assert (world.case().attempts, len(world.released_instances())) == (3, 3)
    assert world.control().holders == {}
    assert {execution.visited[-1] for execution in world.workflow.executions.values()} == {"Stopped"}


def test_a_node_without_verification_result_stays_in_validation_and_is_escalated():
    world = World()
    world.verifier.result = Verification(Verdict.UNKNOWN, ("the agent is silent",))
    world.fault_until(ESCALATED)
    assert world.status() is NodeStatus.VALIDATING
    assert "could not be verified" in world.case().reason
    assert len(world.verifier.started) > 1


def test_a_fault_of_the_successor_overrides_a_passed_verification():
    world = World()
    world.fault_and_react()
    world.until(lambda: world.status() is NodeStatus.VALIDATING)
    world.advance_minutes()
    world.fault(code="xid.48")
    world.until(world.case_is(RESOLVED))
    assert len(world.released_instances()) == 2
    failed = next(body["data"] for body in world.bodies() if body["data"].get("outcome") == "failed")
    assert "xid.48" in failed["reason"]


def test_a_missing_successor_escalates_the_case_after_the_deadline():
    world = World()
    world.fleet.capacity_left = 0
    world.fault_and_react()
    minutes = world.until(world.case_is(ESCALATED))
    assert 8 * 60 <= minutes <= 8 * 60 + 5
    assert world.status() is NodeStatus.FAILED
    assert world.case().reason.startswith("TIMEOUT: no successor yet")


def test_missing_capacity_after_the_intent_only_delays_the_repair():
    world = World()
    world.fleet.capacity_left = 0
    world.fault_and_react(minutes=120)
    assert world.status() is NodeStatus.PROVISIONING
    world.fleet.set_capacity(1)
    world.until(world.case_is(RESOLVED))
    assert world.released_instances() == ["i-00000000000000001"]


def test_two_nodes_that_wait_for_one_successor_never_share_it():
    world = World(nodes=2)
    world.fleet.capacity_left = 1
    for node in (1, 2):
        world.fault(node)
    world.process_entries(minutes=30)
    statuses = [world.status(node) for node in (1, 2)]
    assert sorted(statuses) == [NodeStatus.HEALTHY, NodeStatus.PROVISIONING]
    world.fleet.set_capacity(1)
    for node in (1, 2):
        world.until(world.case_is(RESOLVED, node))
    instances = {world.instance(node) for node in (1, 2)}
    assert len(instances) == 2
    assert len(world.released_instances()) == 2


@pytest.mark.parametrize("mode", [Mode.DRY_RUN, Mode.OBSERVE])
def test_a_cluster_without_repair_permission_is_only_recorded(mode):
    world = World(mode=mode)
    world.fault_and_react(minutes=5)
    assert (world.status(), world.released_instances()) == (NodeStatus.DEGRADED, [])
    assert not world.workflow.executions
    assert ("note would_have_done" in world.record_history()) is (mode is Mode.DRY_RUN)


def test_a_dry_run_records_its_intended_actions_and_closes_the_case():
    world = World(mode=Mode.DRY_RUN)
    world.fault_and_react()
    note = next(body["data"] for body in world.bodies() if body["data"].get("kind") == "would_have_done")
    intended = {"isolate": True, "repair_action": "replace_node", "instance_id": "i-00000000000000001"}
    assert note["facts"] == intended | {"rule": "default", "policy": "test-policy"}
    assert world.case().resolution is Resolution.DRY_RUN


def test_an_instance_with_a_missing_gpu_fails_although_the_present_gpus_pass():
    world = World()
    world.verifier.results["i-00000000000000002"] = Verification(Verdict.PASSED, gpus=7)
    world.fault_until_resolved()
    assert len(world.released_instances()) == 2
    failed = next(body["data"] for body in world.bodies() if body["data"].get("outcome") == "failed")
    assert failed["reason"] == "7 of 8 GPUs are present"


def test_a_finished_wait_found_by_a_sweep_continues_in_the_same_sweep():
    world = World(launch_delay=timedelta(minutes=1))
    world.fault()
    world.until(lambda: "await_successor claimed" in world.record_history())
    assert "verify begun" in world.record_history()


def test_a_release_ends_the_wait_of_the_other_replacements_of_its_group():
    world = World()
    world.provider.known_capacity = Capacity(CapacityEvidence.RESERVATION, free=False)
    world.fault_and_react()
    assert set(world.control().no_capacity_until) == {GROUP}
    world.provider.known_capacity = Capacity(CapacityEvidence.RESERVATION)
    world.until(lambda: "release_instance released" in world.record_history())
    assert world.control().no_capacity_until == {}


@pytest.mark.parametrize("canceled", [False, True])
def test_a_drain_that_could_not_begin_before_its_deadline_is_tried_again_and_never_forced(*, canceled: bool) -> None:
    rule = Rule("fix", Match(codes=("xid.79",)), action=Action.REPLACE_NODE, release_without_capacity=True)
    world = World(orchestrated=True, rules=(rule,))

    def provider_does_not_answer(call: Call) -> None:
        if call.name == "provider.probe":
            raise Transient("the provider does not answer")

    world.seam.before = provider_does_not_answer
    world.fault_and_react()
    assert world.case().status is CaseStatus.IN_PROGRESS
    if canceled:
        world.orders.cancel(world.case().id, OperatorOrder("arn:aws:iam::111122223333:user/ada", "a false alarm"))
    failures = [failure for _ in range(50) for failure in world.advance_minutes().failures]
    assert failures == []
    assert not [line for line in world.record_history() if line.startswith("drain ")]
    world.seam.before = lambda _: None
    world.until(world.case_is(RESOLVED))
