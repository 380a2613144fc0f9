"""Attempts: the runs of a job are counted, and the same end without progress again and again is STOP."""

from __future__ import annotations

from datetime import timedelta

import pytest

from faultbridge.model.cluster.jobs import Attempts
from faultbridge.repair.jobs.progress import JobProgress
from faultbridge.repair.jobs.verdicts import record_verdict
from tests.events.validate import assert_valid_event
from tests.jobs.builders import document
from tests.jobs.resume import jobs
from tests.scenarios.world import CLUSTER, World

UNKNOWN, DEAD = "nccl_timeout", "gpu_lost"


def run(world: World, step: int | None, mechanism: str | None = None, *, outcome: str = "failed", **facts: str) -> None:
    """Run the job until a step, end it, and record the verdict of its logs."""
    jobs(world).start(CLUSTER, "1", ["node-1"])
    world.clock.advance(60)
    if step is not None:
        JobProgress(jobs(world)).heartbeat(CLUSTER, "1", step)
    world.clock.advance(60)
    jobs(world).end(CLUSTER, "1", outcome=outcome)
    if mechanism:
        domain = facts.get("domain", "software")
        record_verdict(jobs(world).writer, CLUSTER, "1", document("RESTART", mechanism=mechanism, domain=domain))
    world.clock.advance(60)


def attempts(world: World) -> tuple[int, int]:
    """Return the number of the present run, and of the last ones that ended alike, as the job and its event say."""
    job = jobs(world).start(CLUSTER, "1", ["node-1"])
    data = [body for body in world.bodies(None) if body["metadata"]["event_type"] == "Job Change"][-1]
    assert_valid_event(data)
    counted = job.attempts.number, job.attempts.repeated
    assert (data["data"]["attempt"], data["data"]["repeated_attempts"]) == counted
    return counted


@pytest.mark.parametrize(
    ("runs", "counted"),
    [
        ([], (1, 0)),
        ([(1200, UNKNOWN)], (2, 1)),
        ([(1200, UNKNOWN), (1200, UNKNOWN), (1180, UNKNOWN)], (4, 3)),
        ([(1200, UNKNOWN), (1200, UNKNOWN), (1201, UNKNOWN)], (4, 1)),
        ([(1200, UNKNOWN), (1200, DEAD)], (3, 1)),
        ([(1200, UNKNOWN), (1180, UNKNOWN), (1190, UNKNOWN)], (4, 3)),
        ([(None, None), (None, None)], (3, 2)),
        ([(None, UNKNOWN), (5, UNKNOWN)], (3, 1)),
    ],
)
def test_the_runs_that_end_alike_without_progress_are_counted(
    runs: list[tuple[int | None, str | None]], counted: tuple[int, int]
) -> None:
    world = World(nodes=1)
    for step, mechanism in runs:
        run(world, step, mechanism)
    assert attempts(world) == counted


def test_a_run_that_a_user_ended_is_no_repetition() -> None:
    world = World(nodes=1)
    run(world, 1200)
    run(world, 1200, outcome="cancelled")
    assert attempts(world) == (3, 0)


@pytest.mark.parametrize(
    ("steps", "domain", "outlook"),
    [
        ([1200, 1200], "software", "RESTART"),
        ([1200, 1200, 1200], "software", "STOP"),
        ([1200, 1200, 1300], "software", "RESTART"),
        ([1200, 1200, 1200], "hardware", "RESTART"),
    ],
)
def test_the_third_run_that_ends_alike_without_progress_stops_the_job(
    steps: list[int], domain: str, outlook: str
) -> None:
    world = World(nodes=1)
    for step in steps:
        run(world, step, UNKNOWN, domain=domain)
    verdict = jobs(world).show(CLUSTER, "1").verdict
    assert verdict is not None
    assert verdict.outlook == outlook
    (*_, event) = (body for body in world.bodies(None) if body["metadata"]["event_type"] == "Job Explained")
    assert_valid_event(event)
    assert event["data"]["verdict"] == outlook


@pytest.mark.parametrize(("limit", "outlooks"), [(2, ["RESTART", "STOP"]), (4, ["RESTART"] * 3 + ["STOP"])])
def test_the_policy_may_state_how_many_runs_that_end_alike_stop_the_job(limit: int, outlooks: list[str]) -> None:
    world, found = World(nodes=1), []
    for _ in outlooks:
        run(world, 1200)
        facts = document("RESTART", mechanism=UNKNOWN, domain="software")
        job = record_verdict(jobs(world).writer, CLUSTER, "1", facts, limit)
        found.append(job.verdict.outlook if job.verdict else None)
    assert found == outlooks


@pytest.mark.parametrize(("hours", "outlook"), [(0, "STOP"), (2, "RESTART")])
def test_long_runs_without_heartbeats_may_have_made_progress_and_short_ones_did_not(hours: int, outlook: str) -> None:
    world = World(nodes=1)
    for _ in range(3):
        jobs(world).start(CLUSTER, "1", ["node-1"])
        world.clock.advance(timedelta(hours=hours, minutes=1))
        run(world, None, UNKNOWN)
    verdict = jobs(world).show(CLUSTER, "1").verdict
    assert verdict is not None
    assert verdict.outlook == outlook


@pytest.mark.parametrize(
    ("errors", "outlook"),
    [
        ([f"rank {rank}: widget flange is loose" for rank in (3, 12, 7)], "STOP"),
        ([f"the {part} is loose" for part in ("flange", "bolt", "nut")], "RESTART"),
        ([None, None, None], "RESTART"),
    ],
)
def test_runs_of_unknown_cause_stop_the_job_if_they_end_with_the_same_first_error(
    errors: list[str | None], outlook: str
) -> None:
    world = World(nodes=1)
    for text in errors:
        run(world, 1200)
        attempts = {"error": {"text": text} if text else None}
        facts = document("RESTART", mechanism=None, domain="unknown", attempts=attempts)
        job = record_verdict(jobs(world).writer, CLUSTER, "1", facts)
    assert job.verdict is not None
    assert job.verdict.outlook == outlook


def test_the_best_step_of_all_runs_is_kept() -> None:
    counted = Attempts()
    for step in (100, 80, None, 90):
        counted = counted.after("same", step, timedelta(minutes=5))
    assert (counted.number, counted.repeated, counted.step) == (5, 4, 100)
