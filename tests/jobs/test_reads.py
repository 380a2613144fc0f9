"""What the jobs of a cluster cost a sweep."""

from __future__ import annotations

from datetime import timedelta

from faultbridge.record.queries import unhealthy_nodes
from faultbridge.record.rulebook import rules_of
from faultbridge.record.verify import Verify
from faultbridge.repair.jobs.job_impact import MISSED_WITHIN, JobImpact
from tests.jobs.builders import calls
from tests.jobs.resume import break_and_end, changes, jobs, started
from tests.scenarios.world import CLUSTER, World


def missed(world: World) -> list[str]:
    unhealthy = unhealthy_nodes(world.table, rules_of(world.rulebook, CLUSTER).config)
    return [key.node for key in JobImpact(jobs(world)).missed(CLUSTER, unhealthy)]


def test_a_running_job_costs_a_sweep_no_call() -> None:
    without, with_job = World(nodes=2), started(1, 2)
    for world in (without, with_job):
        world.advance_minutes(3)
    assert len(calls(with_job)) == len(calls(without))


def test_a_job_that_succeeded_costs_a_sweep_no_call_while_a_node_is_unhealthy() -> None:
    without, with_job = World(nodes=2), started(1, 2)
    jobs(with_job).end(CLUSTER, "1", outcome="succeeded")
    for world in (without, with_job):
        world.fault(1)
        world.advance_minutes(3)
    assert len(calls(with_job)) == len(calls(without))


def test_a_sweep_looks_at_an_unhealthy_node_of_a_running_job() -> None:
    world = started(1)
    world.fault(1)
    assert missed(world) == ["node-1"]
    world.sweep.run()
    assert changes(world) == ["started", "hit"]


def test_a_node_that_already_affected_an_ended_job_is_not_looked_at_again() -> None:
    world = started(1, 2)
    break_and_end(world)
    world.fault(2)
    assert missed(world) == ["node-2"]


def test_an_ended_job_is_considered_for_an_hour() -> None:
    world = started(1, 2)
    break_and_end(world)
    world.fault(2)
    world.clock.advance(MISSED_WITHIN + timedelta(seconds=1))
    assert missed(world) == []


def test_the_row_of_a_followed_job_is_no_break_of_the_record() -> None:
    world = started(1)
    break_and_end(world)
    assert Verify(world.table, world.append.stack)(CLUSTER).breaks == []
