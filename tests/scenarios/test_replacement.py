"""A faulty node is replaced by a verified one: the whole story, and what may go wrong on the way."""

from __future__ import annotations

from datetime import timedelta

import pytest

from faultbridge.domain.cases import Resolution
from faultbridge.domain.clusters import Mode
from faultbridge.domain.edges import CaseStatus, NodeStatus
from faultbridge.domain.nodes import Isolation
from faultbridge.ports import Verdict, Verification
from tests.scenarios.world import World

RESOLVED, QUEUED, ESCALATED = CaseStatus.RESOLVED, CaseStatus.QUEUED, CaseStatus.ESCALATED


def test_a_fatal_fault_ends_in_a_verified_node_in_the_same_node():
    world = World()
    world.fault()
    world.listen()
    world.until(world.case_is(RESOLVED))
    assert world.story() == [
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
        "node draining -> replacing",
        "release_instance released",
        "node replacing -> provisioning",
        "await_successor claimed",
        "node provisioning -> validating",
        "verify begun",
        "verify passed",
        "cleared xid.79",
        "return_to_service not_applicable",
        "node validating -> healthy",
        "case in_progress -> resolved (replaced)",
    ]


def test_after_the_replacement_nothing_of_the_attempt_is_left_but_the_record():
    world = World()
    world.fault()
    world.listen()
    world.until(world.case_is(RESOLVED))
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
    assert not [item for item in world.table.items() if item["sk"].startswith(("BAD#", "QUEUE#"))]


def test_the_closing_entry_carries_how_long_each_phase_took():
    world = World()
    world.fault()
    world.listen()
    world.until(world.case_is(RESOLVED))
    phases = world.bodies()[-1]["data"]["phases"]
    expected = {"detected", "open", "queued", "in_progress", "draining", "intent", "acted", "awaiting"}
    assert expected | {"verifying", "closing"} == set(phases)
    assert phases["verifying"] >= 10 * 60_000, phases


def test_an_execution_stays_far_below_thirty_transitions():
    world = World()
    world.fault()
    world.listen()
    world.until(world.case_is(RESOLVED))
    (execution,) = world.workflow.executions.values()
    assert execution.visited[-2:] == ["IsCaseClosed", "Replaced"]
    assert execution.transitions == 13


def test_the_cluster_is_degraded_then_recovering_then_healthy():
    world = World(nodes=20)
    world.fault()
    world.listen()
    world.until(world.case_is(RESOLVED))
    moves = [line for line in world.story(None) if line.startswith("cluster")]
    assert moves[0].startswith("cluster None -> healthy")
    assert moves[-1].endswith("-> healthy")
    assert any(line.endswith("-> recovering") for line in moves)


def test_old_names_lead_to_the_node_still_and_the_new_instance_does_too():
    from faultbridge.storage import items, keys

    world = World()
    world.fault()
    world.listen()
    world.until(world.case_is(RESOLVED))
    new = world.node().incarnation.instance_id
    rows = {
        name: items.read_alias(world.table.get(keys.alias(*name)))
        for name in [
            ("instance", "i-00000000000000001"),
            ("instance", new),
            ("name", "train-a/node-1"),
            ("name", f"train-a/{new}.internal"),
        ]
    }
    assert {row.key for row in rows.values()} == {world.key()}
    assert rows["instance", "i-00000000000000001"].valid_to is not None
    assert rows["instance", new].valid_to is None


def test_with_an_orchestrator_the_node_is_cordoned_before_and_uncordoned_only_after_the_verification():
    world = World(orchestrated=True)
    world.fault()
    world.listen()
    assert world.orchestrator.cordoned == {"node-1"}
    world.until(lambda: world.status() is NodeStatus.VALIDATING)
    assert world.orchestrator.cordoned == {"node-1"}
    world.until(world.case_is(RESOLVED))
    assert world.orchestrator.cordoned == set()
    story = world.story()
    assert story.index("verify passed") < story.index("return_to_service returned")


def test_work_is_given_time_to_leave_before_the_intent():
    world = World(orchestrated=True)
    world.orchestrator.busy_until["node-1"] = world.clock.now() + timedelta(minutes=20)
    world.fault()
    world.listen()
    world.minute(15)
    assert (world.status(), world.released()) == (NodeStatus.DRAINING, [])
    world.until(world.case_is(RESOLVED))
    assert "drain drained" in world.story()


def test_an_unusable_node_is_not_kept_for_work_that_never_leaves():
    world = World(orchestrated=True)
    world.orchestrator.busy_until["node-1"] = world.clock.now() + timedelta(days=1)
    world.fault(code="xid.79")
    world.listen()
    world.until(world.case_is(RESOLVED))
    assert "drain forced" in world.story()


def test_a_successor_that_is_no_good_is_replaced_itself():
    world = World()
    bad = Verification(Verdict.FAILED, ("pcie: fail",), b"{}")
    world.verifier.results["i-00000000000000002"] = bad
    world.fault()
    world.listen()
    world.until(world.case_is(RESOLVED))
    assert world.released() == ["i-00000000000000001", "i-00000000000000002"]
    assert (world.case().attempts, world.case().resolution) == (2, Resolution.REPLACED)
    assert world.story().count("intent committed") == 2


def test_verifications_that_fail_as_often_as_the_policy_tries_leave_the_node_out_of_service_and_ask_a_person():
    world = World()
    world.verifier.result = Verification(Verdict.FAILED, ("pcie: fail",), b"{}")
    world.fault()
    world.listen()
    world.until(world.case_is(ESCALATED))
    assert world.status() is NodeStatus.FAILED
    assert world.case().reason == "VERIFY_FAILED: pcie: fail"
    assert (world.case().attempts, len(world.released())) == (3, 3)
    assert world.control().holders == {}
    assert {execution.visited[-1] for execution in world.workflow.executions.values()} == {"Stopped"}


def test_a_node_that_nobody_can_verify_stays_in_validation_and_asks_a_person():
    world = World()
    world.verifier.result = Verification(Verdict.UNKNOWN, ("the agent is silent",))
    world.fault()
    world.listen()
    world.until(world.case_is(ESCALATED))
    assert world.status() is NodeStatus.VALIDATING
    assert "could not be verified" in world.case().reason
    assert len(world.verifier.begun) > 1


def test_a_fault_of_the_successor_outweighs_a_passed_verification():
    world = World()
    world.fault()
    world.listen()
    world.until(lambda: world.status() is NodeStatus.VALIDATING)
    world.minute()
    world.fault(code="xid.48")
    world.until(world.case_is(RESOLVED))
    assert len(world.released()) == 2
    failed = next(body["data"] for body in world.bodies() if body["data"].get("outcome") == "failed")
    assert "xid.48" in failed["reason"]


def test_a_successor_that_never_comes_is_handed_over_after_the_deadline():
    world = World()
    world.fleet.spare = 0
    world.fault()
    world.listen()
    minutes = world.until(world.case_is(ESCALATED))
    assert 8 * 60 <= minutes <= 8 * 60 + 5
    assert world.status() is NodeStatus.FAILED
    assert world.case().reason.startswith("TIMEOUT: no successor yet")


def test_missing_capacity_after_the_intent_only_takes_longer():
    world = World()
    world.fleet.spare = 0
    world.fault()
    world.listen()
    world.minute(120)
    assert world.status() is NodeStatus.PROVISIONING
    world.fleet.restock(1)
    world.until(world.case_is(RESOLVED))
    assert world.released() == ["i-00000000000000001"]


def test_two_nodes_that_wait_for_one_successor_never_share_it():
    world = World(nodes=2)
    world.fleet.spare = 1
    for node in (1, 2):
        world.fault(node)
    world.listen()
    world.minute(30)
    seated = [world.status(node) for node in (1, 2)]
    assert sorted(seated) == [NodeStatus.HEALTHY, NodeStatus.PROVISIONING]
    world.fleet.restock(1)
    for node in (1, 2):
        world.until(world.case_is(RESOLVED, node))
    sitting = {world.node(node).incarnation.instance_id for node in (1, 2)}
    assert len(sitting) == 2
    assert len(world.released()) == 2


@pytest.mark.parametrize("mode", [Mode.DRY_RUN, Mode.OBSERVE])
def test_a_cluster_in_which_nothing_may_be_done_is_only_written_about(mode):
    world = World(mode=mode)
    world.fault()
    world.listen()
    world.minute(5)
    assert (world.status(), world.released()) == (NodeStatus.DEGRADED, [])
    assert not world.workflow.executions
    assert ("note would_have_done" in world.story()) is (mode is Mode.DRY_RUN)


def test_a_dry_run_says_what_it_would_have_done_and_closes_the_case():
    world = World(mode=Mode.DRY_RUN)
    world.fault()
    world.listen()
    note = next(body["data"] for body in world.bodies() if body["data"].get("kind") == "would_have_done")
    told = {"isolate": True, "repair_action": "replace_node", "instance_id": "i-00000000000000001"}
    assert note["facts"] == told | {"rule": "default", "policy": "test-policy"}
    assert world.case().resolution is Resolution.DRY_RUN


def test_a_machine_that_lacks_a_gpu_fails_although_those_that_are_there_pass():
    world = World()
    world.verifier.results["i-00000000000000002"] = Verification(Verdict.PASSED, gpus=7)
    world.fault()
    world.listen()
    world.until(world.case_is(RESOLVED))
    assert len(world.released()) == 2
    failed = next(body["data"] for body in world.bodies() if body["data"].get("outcome") == "failed")
    assert failed["reason"] == "7 of 8 GPUs are present"


def test_what_a_sweep_finds_done_goes_on_at_once_and_not_with_the_next_sweep():
    world = World(launch_delay=timedelta(minutes=1))
    world.fault()
    world.until(lambda: "await_successor claimed" in world.story())
    assert "verify begun" in world.story()
