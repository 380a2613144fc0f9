"""Resumable jobs: reported once, when no affected node holds the job back any longer."""

from __future__ import annotations

from datetime import timedelta

import pytest

from faultbridge.model.cluster.config import Mode
from faultbridge.model.cluster.jobs import RESUME_WITHIN
from faultbridge.model.enums import CaseStatus, NodeStatus
from faultbridge.model.fault_enums import Action, Severity
from faultbridge.model.policy import Match, Rule
from faultbridge.repair.case_orders import OperatorOrder
from faultbridge.repair.jobs.changes import Resume
from faultbridge.repair.registry.job_views import JobViews
from faultbridge.repair.registry.registration import Registration
from faultbridge.repair.registry.retirement import Retirement
from tests.events.validate import assert_valid_event
from tests.jobs.resume import break_and_end, changes, job_data, jobs, started
from tests.scenarios.world import CLUSTER, World

RESOLVED = CaseStatus.RESOLVED
REBOOT = Rule("reboot", Match(codes=("xid.79",)), action=Action.REBOOT_NODE)


def test_a_job_may_resume_after_its_node_was_replaced_and_this_is_reported_once() -> None:
    world = started(1, 2)
    break_and_end(world)
    assert changes(world) == ["started", "hit", "ended"]
    world.until(world.case_is(RESOLVED))
    world.advance_minutes(10)
    assert changes(world) == ["started", "hit", "ended", "resumable"]
    last = job_data(world)[-1]
    none = {"count": 0, "listed": []}
    moves = last["resume"].pop("moves")
    assert last["resume"] == {"returned": none, "replaced": {"count": 1, "listed": ["node-1"]}, "retired": none}
    assert [(one["node"], one["ranks"]) for one in moves] == [("node-1", None)]
    assert last["reason"] == "no affected node holds the job back any longer: 1 replaced"


def test_the_event_is_valid_and_names_the_return_of_the_node_as_its_cause() -> None:
    world = started(1)
    break_and_end(world)
    world.until(world.case_is(RESOLVED))
    world.advance_minutes(10)
    event = next(body for body in world.bodies(None) if body["data"].get("change") == "resumable")
    assert_valid_event(event)
    cause = next(body for body in world.bodies() if body["metadata"]["event_id"] == event["metadata"]["causation_id"])
    assert (cause["metadata"]["event_type"], cause["data"]["to"]) == ("Node Status Change", "healthy")


def test_the_ranks_of_a_replaced_node_must_move_to_its_new_instance_and_no_others() -> None:
    world = World(nodes=2)
    nodes = [world.key(number).node for number in (1, 2)]
    jobs(world).start(CLUSTER, "1", nodes, ranks={nodes[0]: "0-7", nodes[1]: "8-15"})
    incarnation = world.node(1).incarnation
    assert incarnation is not None
    break_and_end(world)
    world.until(world.case_is(RESOLVED))
    world.advance_minutes(10)
    successor = world.instance(1)
    (move,) = job_data(world)[-1]["resume"]["moves"]
    assert move == {
        "node": nodes[0],
        "ranks": "0-7",
        "from_instance_id": incarnation.instance_id,
        "to_instance_id": successor,
    }
    assert move["from_instance_id"] != move["to_instance_id"]


def test_a_node_that_keeps_its_instance_is_returned() -> None:
    world = started(1, rules=(REBOOT,))
    break_and_end(world)
    world.until(world.case_is(RESOLVED))
    world.advance_minutes(10)
    assert job_data(world)[-1]["resume"]["returned"] == {"count": 1, "listed": ["node-1"]}
    assert job_data(world)[-1]["resume"]["moves"] == []


def test_a_job_may_resume_without_a_further_wait_once_its_node_was_replaced_and_verified() -> None:
    world = started(1)
    world.fault()
    world.process_entries()
    world.until(world.case_is(RESOLVED))
    jobs(world).end(CLUSTER, "1", outcome="failed")
    world.advance_minutes(1)
    assert changes(world)[-1] == "resumable"


def test_a_job_waits_for_late_faults_if_its_node_recovered_by_itself() -> None:
    world = started(1)
    world.fault(code="net.link_down", source="link-state", severity=Severity.ERROR, action=Action.NONE)
    world.advance_minutes(1)
    world.clear(code="net.link_down", source="link-state")
    jobs(world).end(CLUSTER, "1", outcome="failed")
    world.advance_minutes(4)
    assert "resumable" not in changes(world)
    world.advance_minutes(30)
    assert changes(world)[-1] == "resumable"


def test_a_job_waits_for_all_of_its_affected_nodes_and_for_no_other() -> None:
    world = started(1)
    break_and_end(world)
    world.fault_and_react(2)
    world.until(lambda: "resumable" in changes(world))
    assert world.case().status is RESOLVED


def test_a_job_waits_for_the_repair_of_a_node_in_service_whose_severe_fault_is_gone() -> None:
    hot = Rule("hot", Match(codes=("xid.79", "net.nic_hot")), isolate=False, action=Action.REBOOT_NODE)
    world = started(1, rules=(hot,))
    world.pause_repairs(paused=True)
    world.fault(code="net.nic_hot")
    break_and_end(world)
    world.clock.advance(timedelta(minutes=1))
    world.clear()
    world.process_entries(minutes=10)
    assert (world.status(), world.case().status) == (NodeStatus.DEGRADED, CaseStatus.QUEUED)
    assert changes(world) == ["started", "hit", "ended"]
    world.pause_repairs(paused=False)
    world.until(lambda: "resumable" in changes(world))
    assert world.case().status is RESOLVED


def test_a_fault_that_is_reported_just_after_the_end_counts() -> None:
    world = started(1)
    jobs(world).end(CLUSTER, "1", outcome="failed")
    world.clock.advance(timedelta(minutes=1))
    world.fault_until(RESOLVED, 1)
    world.advance_minutes(10)
    assert changes(world) == ["started", "ended", "hit", "resumable"]


def test_a_fault_that_is_reported_after_the_sweeps_that_followed_the_end_counts() -> None:
    world = started(1)
    jobs(world).end(CLUSTER, "1", outcome="failed")
    world.advance_minutes(2)
    world.fault_until_resolved()
    world.advance_minutes(10)
    assert changes(world) == ["started", "ended", "hit", "resumable"]


def test_a_faulty_node_without_a_case_holds_its_job_back() -> None:
    world = started(1)
    registration = Registration(world.table, world.append, world.clock)
    registration.set_cluster(CLUSTER, {"maintenance_until": world.clock.now() + timedelta(hours=1)})
    break_and_end(world)
    world.advance_minutes(30)
    assert (world.status(), world.node().case) == (NodeStatus.DEGRADED, None)
    assert changes(world) == ["started", "hit", "ended"]
    world.until(lambda: "resumable" in changes(world))
    assert world.case().status is RESOLVED


def test_a_second_fault_after_a_replacement_does_not_hide_the_move_of_the_ranks() -> None:
    world = started(1)
    first = world.instance(1)
    world.fault_until_resolved()
    world.advance_minutes()
    break_and_end(world)
    affected = jobs(world).show(CLUSTER, "1").affected
    assert (changes(world), affected) == (["started", "hit", "hit", "ended"], {"node-1": first})


@pytest.mark.parametrize("ended", [False, True])
def test_an_order_to_take_a_node_out_affects_a_job_only_while_it_runs(ended: bool) -> None:
    world = started(1)
    if ended:
        jobs(world).end(CLUSTER, "1", outcome="failed")
        world.clock.advance(timedelta(minutes=1))
    world.node_orders.quarantine(world.key(), OperatorOrder("ada", "a loose cable"))
    world.process_entries()
    assert ("hit" in changes(world)) is not ended


@pytest.mark.parametrize("outcome", ["succeeded", "cancelled"])
def test_a_job_that_succeeded_or_was_canceled_is_not_reported(outcome: str) -> None:
    world = started(1)
    break_and_end(world, outcome=outcome)
    world.until(world.case_is(RESOLVED))
    world.advance_minutes(10)
    assert changes(world)[-1] == "ended"
    assert JobViews(world.table).all(CLUSTER) == ()


def test_a_job_that_no_fault_affected_is_not_reported_and_not_followed() -> None:
    world = started(1)
    jobs(world).end(CLUSTER, "1", outcome="failed")
    world.advance_minutes(10)
    assert (changes(world), JobViews(world.table).all(CLUSTER)) == (["started", "ended"], ())


def test_a_job_that_was_requeued_meanwhile_is_not_reported() -> None:
    world = started(1, 2)
    break_and_end(world)
    jobs(world).start(CLUSTER, "1", [world.key(2).node])
    world.until(world.case_is(RESOLVED))
    world.advance_minutes(10)
    assert changes(world)[-1] == "started"
    assert [job.nodes for job in JobViews(world.table).all(CLUSTER)] == [("node-2",)]


def test_a_job_that_starts_again_just_before_it_is_forgotten_is_still_followed() -> None:
    """A fault of its nodes would not be recorded on it."""
    world = started(1)
    jobs(world).end(CLUSTER, "1", outcome="failed")
    (followed,) = jobs(world).rows(CLUSTER)
    jobs(world).start(CLUSTER, "1", ["node-2"])
    jobs(world).stop_following(CLUSTER, followed)
    assert [one.nodes for one in jobs(world).rows(CLUSTER)] == [{"node-2"}]


def test_a_job_that_starts_again_while_its_nodes_are_checked_is_not_reported() -> None:
    """Its receiver would requeue a job that runs."""
    world = started(1)
    break_and_end(world)
    ended = jobs(world).show(CLUSTER, "1")
    jobs(world).start(CLUSTER, "1", ["node-2"])
    assert jobs(world).record_resumable(ended, Resume(), ("webhook",)).resumable_at is None
    assert (changes(world)[-1], jobs(world).show(CLUSTER, "1").callbacks) == ("started", ())


def test_a_retired_node_does_not_hold_a_job_back() -> None:
    world = started(1, 2, mode=Mode.OBSERVE)
    break_and_end(world)
    Retirement(world.table, world.append, world.rulebook).retire(world.key(), OperatorOrder("an operator", "sold"))
    world.advance_minutes(10)
    assert job_data(world)[-1]["resume"]["retired"] == {"count": 1, "listed": ["node-1"]}


def test_a_job_whose_node_does_not_return_is_followed_for_a_week() -> None:
    world = started(1, mode=Mode.OBSERVE)
    break_and_end(world)
    world.clock.advance(RESUME_WITHIN - timedelta(minutes=5))
    world.advance_minutes()
    assert len(JobViews(world.table).all(CLUSTER)) == 1
    world.clock.advance(timedelta(minutes=5))
    world.advance_minutes()
    assert (changes(world)[-1], JobViews(world.table).all(CLUSTER)) == ("ended", ())
