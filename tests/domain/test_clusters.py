"""What decides for a cluster: breakers, holds of incidents, complete groups, and the states of its jobs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from faultbridge.domain.cluster.breakers import Breaker, BreakerScope, BreakerState, breaker_name
from faultbridge.domain.cluster.failure_domains import FailureDomain
from faultbridge.domain.cluster.incidents import Hold
from faultbridge.domain.cluster.jobs import Job
from faultbridge.domain.cluster.provider_status import GroupStatus, ProviderStatus
from faultbridge.domain.cluster.state import Control
from faultbridge.domain.faults import Family
from faultbridge.domain.nodes import DomainKind
from tests.builders import NOON, after

RACK, OTHER_RACK = FailureDomain(DomainKind.RACK, "r-1"), FailureDomain(DomainKind.RACK, "r-2")


def control(**breakers: Breaker) -> Control:
    names = {"cluster": breaker_name(BreakerScope.CLUSTER), "rack": breaker_name(BreakerScope.DOMAIN, "r-1")}
    return Control("c", breakers={names[name]: breaker for name, breaker in breakers.items()})


def test_the_strictest_breaker_of_a_node_is_that_of_its_cluster_or_of_its_own_failure_domain() -> None:
    closed, half, opened = (Breaker(state, NOON) for state in BreakerState)
    assert control(cluster=half, rack=opened).breaker("r-1") == opened
    assert control(cluster=half, rack=opened).breaker("r-2") == half
    assert control(cluster=half, rack=closed).breaker("r-1") == half
    assert control(cluster=opened, rack=replace(opened, stays_open=True)).breaker("r-1").stays_open


def test_no_breaker_stops_a_node_if_only_another_failure_domain_has_one_or_all_are_closed() -> None:
    closed, _, opened = (Breaker(state, NOON) for state in BreakerState)
    assert control().breaker("r-1") is None
    assert control(rack=opened).breaker("r-2") is None
    assert control(rack=opened).breaker(None) is None
    assert control(cluster=closed, rack=closed).breaker("r-1") is None


@pytest.mark.parametrize(
    ("domain", "family", "covered"),
    [
        (RACK, Family.NETWORK, True),
        (RACK, Family.POWER, False),
        (OTHER_RACK, Family.NETWORK, False),
        (OTHER_RACK, Family.POWER, False),
    ],
)
def test_an_incident_holds_the_nodes_of_its_failure_domain_that_show_faults_of_its_family(
    domain: FailureDomain, family: Family, covered: bool
) -> None:
    hold = Hold(Family.NETWORK, RACK)
    assert hold.covers({domain}, {family}) is covered
    assert not replace(hold, holding=False).covers({domain}, {family})
    assert Hold(Family.HEARTBEAT, FailureDomain(DomainKind.INTAKE, "c")).covers({domain}, {family})


def test_a_group_is_complete_by_its_own_instances_and_a_cluster_by_all_groups() -> None:
    status = ProviderStatus(groups={"full": GroupStatus(2, complete=True), "short": GroupStatus(2, complete=False)})
    assert status.is_complete("full")
    assert not status.is_complete("short")
    assert not status.is_complete(None)
    assert status.is_complete("gone")


RUNNING = Job("c", "42", ("n-0",), NOON)
FAILED = replace(RUNNING, ended_at=after(hours=1), outcome="failed")


@pytest.mark.parametrize(
    ("job", "state"),
    [
        (RUNNING, "running"),
        (replace(RUNNING, stalled_at=after(minutes=30)), "stalled"),
        (FAILED, "ended"),
        (replace(FAILED, affected={"n-0": None}), "waiting"),
        (replace(FAILED, affected={"n-0": None}, resumable_at=after(hours=2)), "resumable"),
        (replace(FAILED, affected={"n-0": None}, outcome="succeeded"), "ended"),
        (replace(FAILED, affected={"n-0": None}, outcome="cancelled"), "ended"),
    ],
)
def test_a_job_that_failed_waits_for_its_nodes_and_one_that_its_user_ended_does_not(job: Job, state: str) -> None:
    assert job.state == state
