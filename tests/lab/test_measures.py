"""Measures: what outages cost jobs, and the confidence intervals over seeds."""

from __future__ import annotations

import pytest

from tests.lab.fleet_log import FleetLog, Outage
from tests.lab.job_mix import JobLosses, JobMix
from tests.lab.measures import interval, measure
from tests.lab.trace import HOUR
from tests.lab.traces import scenario

ONE_JOB = JobMix(shares=(0.5,), checkpoint=HOUR, restart=600)


def losses(*outages: Outage, nodes: int = 4, end: float = 10 * HOUR) -> dict[str, float]:
    found = JobLosses(nodes, ONE_JOB)
    found.follow(outages, end)
    return {cause: round(hours, 3) for cause, hours in found.lost.items()}


def test_a_failed_node_of_a_job_loses_the_work_since_the_checkpoint_and_a_restart() -> None:
    down, up = Outage(2.5 * HOUR, 0, up=False, needless=False), Outage(4.5 * HOUR, 0, up=True, needless=True)
    assert losses(down, up) == {"rollback": 8.0, "restart": 2.667, "waiting_for_nodes": 0.0, "node_down": 16.0}


def test_a_node_without_a_job_loses_only_its_own_hours() -> None:
    assert losses(Outage(HOUR, 3, up=False, needless=False)) == {"node_down": 72.0}


def test_the_work_that_a_needless_eviction_loses_is_counted_apart() -> None:
    down, up = Outage(1.5 * HOUR, 1, up=False, needless=True), Outage(2 * HOUR, 1, up=True, needless=True)
    assert losses(down, up)["false_alarm"] == 8.0


def test_a_job_without_enough_nodes_waits() -> None:
    outages = [Outage(HOUR, node, up=False, needless=False) for node in (0, 2, 3)]
    assert losses(*outages, end=5 * HOUR)["waiting_for_nodes"] == 8 * 4


def test_an_interruption_during_a_restart_loses_only_the_part_of_the_restart_that_has_passed() -> None:
    first, second = (Outage(at, node, up=False, needless=False) for at, node in ((HOUR, 0), (HOUR + 300, 1)))
    found = losses(first, second)
    assert found["restart"] == round(2 * 8 * (300 + 600) / HOUR, 3)
    assert found["rollback"] == 0.0


@pytest.mark.parametrize(("nodes", "sizes"), [(1, [1]), (10, [5, 2, 1, 1, 1]), (60, [30, 12, 6, 3, 3, 1, 1, 1])])
def test_the_jobs_of_a_small_fleet_have_together_no_more_nodes_than_the_fleet(nodes: int, sizes: list[int]) -> None:
    assert JobMix().sizes(nodes) == sizes
    assert JobLosses(nodes, JobMix()).job_nodes <= nodes


def test_a_node_is_logged_once_per_outage() -> None:
    log = FleetLog()
    for at, serving in ((1.0, True), (2.0, False), (3.0, False), (4.0, True)):
        log.update(7, at, serving=serving, faulty=False)
    assert [(one.at, one.up) for one in log.outages] == [(2.0, False), (4.0, True)]
    assert log.counts["needless_evictions"] == 1


def test_losses_by_cause_add_up_and_goodput_is_what_is_left() -> None:
    one, log = scenario(nodes=4, days=1), FleetLog()
    log.update(0, 2.5 * HOUR, serving=False, faulty=True)
    found = measure(one, log)
    assert sum(found.lost_by_cause.values()) == pytest.approx(found.lost_gpu_hours)
    assert found.goodput == pytest.approx(1 - found.lost_gpu_hours / (4 * 8 * 24))


def test_an_interval_covers_its_values_mean_and_shrinks_with_their_number() -> None:
    assert interval([1.0, 3.0]).mean == 2.0
    assert interval([1.0, 3.0] * 10).margin < interval([1.0, 3.0] * 2).margin
    assert interval([1.0]).margin == float("inf")
