"""Measures: what outages cost jobs, and the confidence intervals over seeds."""

from __future__ import annotations

import gc

import pytest

from faultbridge.decode.data.policies import default_policy
from tests.lab.baselines import EKS
from tests.lab.comparison import Compared, Measures, documents_of, interval, measure, ratio, run
from tests.lab.jobs import CAUSES, JobMix, Jobs
from tests.lab.trace import DAY, HOUR
from tests.lab.traces import scenario

ONE_JOB = JobMix(shares=(0.5,), long=1e4 * DAY)
"""One job on nodes 0 and 1 of four nodes, which does not end."""


def fleet(mix: JobMix = ONE_JOB) -> Jobs:
    return Jobs(4, mix, 1)


def lost(jobs: Jobs, end: float = 10 * HOUR) -> dict[str, float]:
    jobs.finish(end)
    return {cause: round(hours, 3) for cause, hours in jobs.lost.items() if hours}


def test_a_failed_node_of_a_job_loses_the_work_since_the_checkpoint_and_a_restart() -> None:
    jobs = fleet()
    jobs.fail(0, 2.5 * HOUR)
    jobs.open(0, 4.5 * HOUR)
    assert lost(jobs) == {"rollback": 8.0, "restart": 2.667, "node_down": 16.0}


def test_a_node_without_a_job_loses_only_its_own_hours() -> None:
    jobs = fleet()
    jobs.close(3, HOUR)
    assert lost(jobs) == {"node_down": 72.0}


def test_a_closed_node_loses_nothing_while_its_job_runs_and_its_own_hours_when_the_job_leaves_it() -> None:
    jobs = fleet()
    jobs.close(0, HOUR)
    jobs.fail(1, 2 * HOUR)  # the job restarts on nodes 2 and 3
    assert not jobs.runs_on(0)
    assert lost(jobs) == {"restart": 2.667, "node_down": 128.0}


def test_the_work_that_a_needless_eviction_loses_is_counted_apart() -> None:
    jobs = fleet()
    jobs.close(1, 1.5 * HOUR)
    jobs.evict(1, 1.5 * HOUR, faulty=False)
    assert lost(jobs)["false_alarm"] == 8.0
    assert jobs.counts["needless_evictions"] == 1


def test_a_save_on_request_costs_its_time_once_in_ten_minutes_and_keeps_the_work_before_it() -> None:
    jobs = fleet()
    answers = [jobs.request_save(node, at) for node, at in ((0, 1800.0), (1, 1900.0), (3, 1900.0))]
    assert answers == [1830.0, 1900.0, None]
    jobs.close(0, 1830.0)
    jobs.evict(0, 1830.0, faulty=True)
    assert lost(jobs, 1830.0) == {"saves": round(2 * 8 * 30 / HOUR, 3), "restart": 2.667}


def test_a_save_that_has_not_ended_when_its_node_fails_keeps_nothing() -> None:
    jobs = fleet()
    jobs.request_save(0, 1800.0)
    jobs.fail(0, 1815.0)
    assert lost(jobs, 1815.0) == {"saves": 0.067, "rollback": round(2 * 8 * 1815 / HOUR, 3), "restart": 2.667}


def test_a_job_without_enough_nodes_waits() -> None:
    jobs = fleet()
    for node in (3, 2, 0):
        jobs.fail(node, HOUR)
    assert lost(jobs, 5 * HOUR)["waiting_for_nodes"] == 8 * 4


def test_an_interruption_during_a_restart_loses_only_the_part_of_the_restart_that_has_passed() -> None:
    jobs = fleet()
    jobs.fail(0, HOUR)
    jobs.fail(1, HOUR + 300)
    assert lost(jobs, HOUR + 300)["restart"] == round(2 * 8 * (300 + 600) / HOUR, 3)


def test_a_job_that_ends_leaves_its_closed_node_idle_and_the_next_one_starts_on_another() -> None:
    jobs = fleet(JobMix(shares=(0.5,), long=DAY))
    jobs.close(0, 1.0)
    assert jobs.runs_on(0)
    end = jobs.next_end()
    jobs.end_next()
    assert (jobs.runs_on(0), jobs.runs_on(1), jobs.runs_on(2), jobs.idled) == (False, True, True, 1)
    assert jobs.next_end() > end
    assert lost(jobs, end) == {}


@pytest.mark.parametrize(("nodes", "sizes"), [(1, [1]), (10, [5, 2, 1, 1, 1]), (60, [30, 12, 6, 3, 3, 1, 1, 1])])
def test_the_jobs_of_a_small_fleet_have_together_no_more_nodes_than_the_fleet(nodes: int, sizes: list[int]) -> None:
    assert JobMix().sizes(nodes) == sizes
    assert Jobs(nodes, JobMix(), 1).job_nodes <= nodes


def test_losses_by_cause_add_up_and_goodput_is_what_is_left() -> None:
    one, jobs = scenario(nodes=4, days=1), fleet()
    jobs.fail(0, 2.5 * HOUR)
    jobs.finish(one.seconds)
    found = measure(one, jobs)
    assert sum(found.lost_by_cause.values()) == pytest.approx(found.lost_gpu_hours)
    assert found.lost_by_jobs == found.lost_gpu_hours - found.lost_by_cause["node_down"] > 0
    assert found.goodput == pytest.approx(1 - found.lost_gpu_hours / (4 * 8 * 24))


def test_an_interval_covers_its_values_mean_and_shrinks_with_their_number() -> None:
    assert interval([1.0, 3.0]).mean == 2.0
    assert interval([1.0, 3.0] * 10).margin < interval([1.0, 3.0] * 2).margin
    assert interval([1.0]).margin == float("inf")


def compared(name: str, *lost: float) -> Compared:
    """Return results of a system: one run for each number of lost GPU-hours."""
    causes = dict.fromkeys(CAUSES, 0.0)
    return Compared(name, tuple(Measures(one, one / 2, causes, 1, 0, 0, 0, 0, 0) for one in lost))


def test_losses_are_compared_by_sum_and_by_pairs() -> None:
    ours, eks = compared("ours", 90, 210, 300), compared(EKS, 100, 200, 300)
    found = {one["system"]: one["against_eks"] for one in documents_of([ours, eks], 30)}
    assert found["ours"]["lost_gpu_hours"]["ratio"] == found["ours"]["lost_by_jobs"]["ratio"] == 1.0
    assert found[EKS]["lost_gpu_hours"] == {"ratio": 1.0, "margin": 0.0}
    margin = ratio(ours, eks, "lost_gpu_hours").margin
    assert margin == pytest.approx(interval([-10.0, 10.0, 0.0]).margin / 200)
    assert ratio(compared("ours", 80, 160, 240), eks, "lost_gpu_hours").mean == pytest.approx(0.8)
    assert documents_of([ours])[0]["against_eks"] == {}


def test_a_run_leaves_the_garbage_collection_of_its_process_as_it_was() -> None:
    before = gc.get_freeze_count()
    run(scenario(nodes=4, days=1), default_policy())
    assert gc.get_freeze_count() == before
    gc.unfreeze()
    run(scenario(nodes=4, days=1), default_policy())
    assert gc.get_freeze_count() == 0
    if before:
        gc.freeze()
