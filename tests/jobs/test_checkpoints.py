"""Checkpoints: which jobs are asked to save one, when, how the request reaches them, and what their answer permits."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from faultbridge.decide.work import work_stays
from faultbridge.decode.data import load_catalog
from faultbridge.model.cluster.config import RepairOwner
from faultbridge.model.cluster.jobs import Job
from faultbridge.model.enums import Isolation, NodeStatus, ProviderFailure
from faultbridge.model.errors import Rejected, Transient
from faultbridge.model.faults import NODE_COMPONENT
from faultbridge.repair.jobs.checkpoints import answer_checkpoint, answered
from faultbridge.repair.registry.job_views import job_document
from faultbridge.repair.registry.registration import Registration
from tests.builders import GPU
from tests.jobs.builders import callback, configure
from tests.jobs.resume import changes, jobs
from tests.scenarios.world import CLUSTER, World
from tests.sim.fakes import raise_once

AT_RISK = "xid.149"
"""A link error: work runs and may die."""

TEN_MINUTES = timedelta(minutes=10)


def running(*nodes: int, **others: Any) -> World:
    """Return a world of four nodes with an orchestrator, in which job 1 runs on the given nodes."""
    world = World(nodes=4, orchestrated=True, catalog=load_catalog())
    jobs(world).start(CLUSTER, "1", [world.key(node).node for node in nodes], **others)
    return world


def job(world: World, job_id: str = "1") -> Job:
    return jobs(world).show(CLUSTER, job_id)


def owned_by(world: World, owner: RepairOwner) -> World:
    Registration(world.table, world.append, world.clock).set_cluster(CLUSTER, {"repair_owner": owner})
    return world


def requests(world: World) -> list[dict[str, Any]]:
    return [body["data"] for body in world.bodies(None) if body["metadata"]["event_type"] == "Job Checkpoint Requested"]


def endanger(world: World, node: int = 1, code: str = AT_RISK, **others: Any) -> None:
    world.fault_and_react(node, code, **others)


def test_a_job_on_a_node_at_risk_is_asked_for_a_checkpoint_with_id_and_deadline():
    world = running(1, 2)
    endanger(world)
    (request,) = requests(world)
    asked = job(world).checkpoint
    assert asked is not None
    assert (request["checkpoint_id"], asked.deadline) == (asked.id, world.clock.now() + TEN_MINUTES)
    assert (request["risk"]["node"], request["risk"]["about"]["code"]) == ("node-1", AT_RISK)
    shown = job_document(job(world), world.clock.now()).checkpoint
    assert shown is not None
    assert (shown.id, shown.requested_by, shown.deadline) == (asked.id, "node-1, xid.149", asked.deadline)


def test_a_job_is_asked_once_in_ten_minutes_whatever_the_number_of_nodes_at_risk():
    world = running(1, 2, 3)
    endanger(world, 1)
    endanger(world, 1, "xid.74")
    endanger(world, 1)
    world.advance_minutes(5)
    endanger(world, 1, "sxid.11004")
    world.advance_minutes(3)
    assert len(requests(world)) == 1
    world.advance_minutes(4)
    assert len(requests(world)) == 2


def test_a_job_on_other_nodes_an_ended_job_and_a_job_that_was_lost_are_not_asked():
    world = running(2)
    endanger(world, 1)
    endanger(world, 2, "xid.79")
    jobs(world).end(CLUSTER, "1")
    endanger(world, 2)
    assert requests(world) == []


def test_a_node_that_only_its_provider_repairs_is_not_cordoned_but_its_job_is_asked():
    world = owned_by(running(1), RepairOwner.PROVIDER)
    endanger(world)
    assert len(requests(world)) == 1


def test_a_node_that_takes_new_work_asks_nothing_of_its_job():
    world = owned_by(running(1), RepairOwner.OBSERVE)
    endanger(world)
    assert requests(world) == []


def test_an_answer_is_recorded_once_and_permits_to_drain():
    world = running(1)
    endanger(world)
    asked = job(world).checkpoint
    assert asked is not None
    since = world.clock.now()
    assert not answered([job(world)], "node-1", since)
    for _ in range(2):
        answer_checkpoint(jobs(world), CLUSTER, "1", asked.id)
    assert changes(world).count("checkpointed") == 1
    assert answered([job(world)], "node-1", since)
    assert job_document(job(world), since).checkpoint is None
    world.advance_minutes(30)
    assert len(requests(world)) == 1


def test_an_answer_to_an_earlier_request_or_of_an_earlier_run_changes_nothing():
    world = running(1)
    endanger(world)
    assert answer_checkpoint(jobs(world), CLUSTER, "1", "ckpt-other").requested_checkpoint is not None
    jobs(world).end(CLUSTER, "1")
    jobs(world).start(CLUSTER, "1", ["node-2"])
    assert answer_checkpoint(jobs(world), CLUSTER, "1", "ckpt-other").checkpoint is None
    with pytest.raises(Rejected, match="no checkpoint was requested"):
        answer_checkpoint(jobs(world), CLUSTER, "1")


def test_a_node_is_free_when_all_its_jobs_ended_or_answered():
    world = running(1)
    jobs(world).start(CLUSTER, "2", ["node-1"])
    endanger(world)
    since = world.clock.now()
    answer_checkpoint(jobs(world), CLUSTER, "1")
    assert not answered([job(world), job(world, "2")], "node-1", since)
    jobs(world).end(CLUSTER, "2")
    assert answered([job(world), job(world, "2")], "node-1", since)


def precursor(*job_ids: str) -> World:
    """Return a world in which these jobs run on a node with a fault that precedes a lost GPU."""
    world = running(1)
    world.orchestrator.busy_until["node-1"] = world.clock.now() + timedelta(days=1)
    for one in job_ids:
        jobs(world).start(CLUSTER, one, ["node-1"])
    world.fault_and_react(code="host.pcie_fatal")
    world.advance_minutes(5)
    assert (world.status(), world.node().isolation) == (NodeStatus.DEGRADED, Isolation.CONFIRMED)
    return world


def test_a_node_with_a_precursor_of_lost_work_is_drained_once_all_its_jobs_answered():
    world = precursor("1", "2")
    answer_checkpoint(jobs(world), CLUSTER, "1")
    world.advance_minutes(5)
    assert world.status() is NodeStatus.DEGRADED
    answer_checkpoint(jobs(world), CLUSTER, "2")
    world.until(lambda: world.status() is NodeStatus.DRAINING, minutes=3)


def test_a_node_whose_jobs_are_not_followed_is_not_drained_because_no_job_can_answer():
    world = precursor()
    jobs(world).end(CLUSTER, "1")
    world.advance_minutes(10)
    assert (world.status(), world.seam.named("orchestrator.drain")) == (NodeStatus.DEGRADED, [])


def test_the_two_minutes_of_a_spot_interruption_are_the_deadline_also_of_a_request_that_waits():
    world = running(1)
    endanger(world)
    world.clock.advance(timedelta(minutes=3))
    now = world.clock.now()
    endanger(world, 1, "cloud.spot_interruption", source="ec2-event", component=NODE_COMPONENT)
    world.advance_minutes()
    first, second = requests(world)
    assert first["checkpoint_id"] == second["checkpoint_id"]
    asked = job(world).checkpoint
    assert asked is not None
    assert asked.deadline == now + timedelta(minutes=2)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("number", range(6))
def test_a_crash_or_a_lost_answer_at_any_write_leaves_one_request(when: str, number: int):
    world = running(1)
    hook = raise_once(*[("table.transact", Transient("lost"))])
    left = [number]

    def at_the_next(call: Any) -> None:
        if call.name == "table.transact":
            left[0] -= 1
            if left[0] == -1:
                hook(call)

    setattr(world.seam, when, at_the_next)
    with suppress(Transient):
        endanger(world)
    endanger(world)
    world.advance_minutes(3)
    assert len({request["checkpoint_id"] for request in requests(world)}) == 1


def signaled(world: World) -> list[str | None]:
    return [notice.signal for notice in callback(world, "slurm-signal").received]


def test_only_a_job_that_named_a_signal_is_signaled():
    world = running(1)
    endanger(world)
    world.advance_minutes(2)
    assert signaled(world) == []
    named = running(1, checkpoint_signal="USR1")
    endanger(named)
    assert signaled(named) == ["USR1"]
    named.advance_minutes(15)
    assert signaled(named) == ["USR1"]


def test_a_signal_that_failed_is_repeated_by_the_sweep_until_the_deadline():
    world = running(1, checkpoint_signal="USR1")
    callback(world, "slurm-signal").fail_next(*[ProviderFailure.TIMEOUT] * 2)
    endanger(world)
    assert signaled(world) == []
    world.advance_minutes(3)
    assert signaled(world) == ["USR1"]


def test_an_answered_request_is_not_carried_any_more():
    world = running(1, checkpoint_signal="USR1")
    callback(world, "slurm-signal").fail_next(ProviderFailure.TIMEOUT)
    endanger(world)
    answer_checkpoint(jobs(world), CLUSTER, "1")
    world.advance_minutes(3)
    assert signaled(world) == []


def test_a_webhook_for_jobs_that_may_resume_gets_no_request():
    world = running(1)
    configure(world, "webhook", "slurm-requeue")
    endanger(world)
    world.advance_minutes(2)
    assert callback(world, "webhook").received == []


def test_a_proven_precursor_drains_after_the_answer_and_a_mere_risk_never_does():
    for code, drains in (("cloud.spot_interruption", True), (AT_RISK, False)):
        world = running(1)
        world.orchestrator.busy_until["node-1"] = world.clock.now() + timedelta(hours=8)
        source, component = ("ec2-event", NODE_COMPONENT) if drains else ("kernel-log", GPU)
        endanger(world, 1, code, source=source, component=component)
        world.advance_minutes(1)
        case = world.case(1)
        assert case.drain_for is None
        assert work_stays(world.node(1), case)
        answer_checkpoint(jobs(world), CLUSTER, "1")
        world.advance_minutes(1)
        assert work_stays(world.node(1), world.case(1)) is not drains


def test_a_false_alarm_that_ends_costs_the_job_only_the_save():
    world = running(1)
    world.orchestrator.busy_until["node-1"] = world.clock.now() + timedelta(hours=8)
    endanger(world, 1, "dcgm.health_pcie", source="dcgm")
    answer_checkpoint(jobs(world), CLUSTER, "1")
    world.advance_minutes(1)
    world.clear(1, "dcgm.health_pcie", source="dcgm")
    world.advance_minutes(5)
    assert list(world.node(1).active()) == []
    assert not world.orchestrator.cordoned
    assert job(world).runs
    assert changes(world) == ["started", "hit", "checkpointed"]
