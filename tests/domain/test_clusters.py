"""What decides for a cluster: breakers, holds of incidents, complete groups, and its jobs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from faultbridge.model.cluster.config import DeclaredDomain, FailureDomain, failure_domains
from faultbridge.model.cluster.incidents import Hold, Incident
from faultbridge.model.cluster.jobs import LOSS_SPIKE, MIN_LOSSES, NOT_FINITE, Job, JobVerdict, Progress, loss_alarm
from faultbridge.model.cluster.state import (
    Breaker,
    BreakerState,
    Control,
    GroupStatus,
    ProviderStatus,
    Spare,
    SpareStatus,
    breaker_name,
)
from faultbridge.model.enums import BreakerScope, DomainKind, IncidentStatus
from faultbridge.model.fault_enums import Family
from faultbridge.model.nodes import MovingVolume, left_behind
from faultbridge.model.values import replace
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


def test_an_incident_holds_a_node_of_its_family_whose_failure_domains_are_not_known_yet() -> None:
    whole_cluster = FailureDomain(DomainKind.CLUSTER, "train-a")
    hold = Hold(Family.NETWORK, RACK)
    assert hold.covers({whole_cluster}, {Family.NETWORK})
    assert not hold.covers({whole_cluster}, {Family.POWER})
    assert not replace(hold, holding=False).covers({whole_cluster}, {Family.NETWORK})


def test_a_group_is_complete_by_its_own_instances_and_a_cluster_by_all_groups() -> None:
    status = ProviderStatus(groups={"full": GroupStatus(2, complete=True), "short": GroupStatus(2, complete=False)})
    assert status.is_complete("full")
    assert not status.is_complete("short")
    assert not status.is_complete(None)
    assert status.is_complete("gone")


def test_a_node_of_an_expired_incident_waits_for_no_other_one_of_its_family() -> None:
    exempting = Hold(Family.NETWORK, OTHER_RACK, holding=False, exempt=("n-1",))
    held = Control("c", holds={"inc-2": exempting, "inc-1": Hold(Family.NETWORK, RACK)})
    assert held.incident_of("n-1", {RACK}, {Family.NETWORK}) is None
    assert held.incident_of("n-2", {RACK}, {Family.NETWORK}) == "inc-1"


@pytest.mark.parametrize(
    ("hold", "incident"),
    [
        (Hold(Family.NETWORK, RACK), "inc-1"),
        (Hold(Family.NETWORK, OTHER_RACK), None),
        (Hold(Family.NETWORK, RACK, holding=False), None),
        (Hold(Family.NETWORK, RACK, holding=False, ended_at=NOON), None),
    ],
)
def test_only_a_repeated_repair_waits_for_an_incident_of_another_family(hold: Hold, incident: str | None) -> None:
    held = Control("c", holds={"inc-1": hold})
    assert held.incident_of("n-1", {RACK}, (), repeated_since=NOON) == incident
    assert held.incident_of("n-1", {RACK}, (Family.POWER,)) is None


def test_a_repeated_repair_waits_for_no_further_incident_of_a_family_that_reached_its_maximum_age() -> None:
    cluster = FailureDomain(DomainKind.CLUSTER, "c")
    both = {"inc-1": Hold(Family.NETWORK, RACK, holding=False), "inc-2": Hold(Family.NETWORK, cluster)}
    assert Control("c", holds=both).incident_of("n-1", {RACK, cluster}, (), repeated_since=NOON) is None
    assert Control("c", holds=both).incident_of("n-1", {OTHER_RACK, cluster}, (), repeated_since=NOON) == "inc-2"


def test_a_case_that_was_opened_after_an_incident_expired_waits_for_the_next_one() -> None:
    expired = Hold(Family.NETWORK, RACK, holding=False, expired_at=NOON)
    held = Control("c", holds={"inc-1": expired, "inc-2": Hold(Family.NETWORK, RACK)})
    assert held.incident_of("n-1", {RACK}, (), repeated_since=after(seconds=1)) == "inc-2"
    assert held.incident_of("n-1", {RACK}, (), repeated_since=NOON) is None


@pytest.mark.parametrize(
    ("minutes", "domain", "incident"), [(10, RACK, "inc-1"), (11, RACK, None), (0, OTHER_RACK, None)]
)
def test_a_closed_incident_is_found_by_its_failure_domain_if_it_was_closed_late_enough(
    minutes: int, domain: FailureDomain, incident: str | None
) -> None:
    closed = Hold(Family.NETWORK, RACK, holding=False, ended_at=after(minutes=10))
    held = Control("c", holds={"inc-1": closed, "inc-2": Hold(Family.NETWORK, domain)})
    assert held.closed_incident_of({domain}, after(minutes=minutes)) == incident


def test_an_expired_incident_is_found_by_its_failure_domain_until_it_is_closed() -> None:
    expired = Hold(Family.NETWORK, RACK, holding=False)
    held = Control("c", holds={"inc-2": expired, "inc-1": expired, "inc-0": Hold(Family.POWER, RACK)})
    assert held.expired_incident_of({RACK}) == "inc-1"
    assert held.expired_incident_of({OTHER_RACK}) is None
    closed = replace(expired, ended_at=NOON)
    assert Control("c", holds={"inc-1": closed}).expired_incident_of({RACK}) is None


@pytest.mark.parametrize(
    ("status", "kind", "exempt"),
    [
        (IncidentStatus.EXPIRED, DomainKind.RACK, ("n-1", "n-2")),
        (IncidentStatus.EXPIRED, DomainKind.INTAKE, ()),
        (IncidentStatus.OPEN, DomainKind.RACK, ()),
    ],
)
def test_the_nodes_of_an_expired_incident_are_exempt_unless_the_intake_failed(
    status: IncidentStatus, kind: DomainKind, exempt: tuple[str, ...]
) -> None:
    domain, given = FailureDomain(kind, "d"), {"nodes": ("n-2",), "left": {"n-1": NOON}}
    incident = Incident("inc-1", "c", Family.NETWORK, domain, status, NOON, NOON, "net.link_down", **given)
    assert incident.hold == Hold(Family.NETWORK, domain, status.holds, None, exempt)


def test_a_node_is_in_the_domains_of_its_inventory_and_its_declared_ones_from_narrow_to_wide() -> None:
    declared = (DeclaredDomain(DomainKind.POWER, "p-1", "n-[1-4]"), DeclaredDomain(DomainKind.CHASSIS, "c-9", "n-9"))
    zone = {"zone": "use1-az1"}
    found = failure_domains("c", "n-4", "r-1", zone, declared)
    assert [one.text for one in found] == ["rack r-1", "power p-1", "zone use1-az1", "cluster c"]
    assert [one.text for one in failure_domains("c", "n-4", "use1-az1", zone)] == ["zone use1-az1", "cluster c"]
    assert [one.text for one in failure_domains("c", "n-4", None, {})] == ["cluster c"]


@pytest.mark.parametrize(
    ("changes", "hours", "serves"),
    [
        ({}, 23, True),
        ({}, 24, False),
        ({"verified_at": None}, 1, False),
        ({"status": SpareStatus.VERIFYING}, 1, False),
        ({"group": "others"}, 1, False),
    ],
)
def test_a_spare_serves_its_own_group_for_a_day_after_its_verification(
    changes: dict[str, Any], hours: int, serves: bool
) -> None:
    spare = Spare("c", 1, "workers", SpareStatus.READY, verified_at=NOON)
    assert replace(spare, **changes).serves("workers", after(hours=hours)) is serves


@pytest.mark.parametrize(("names", "recorded", "stated"), [(("data",), 0, True), (("data",), 1, False), ((), 0, False)])
def test_volumes_that_were_not_recorded_are_named(names: tuple[str, ...], recorded: int, stated: bool) -> None:
    text = left_behind(names, [MovingVolume("vol-1", "use1-az1", "i-0aaaaaaaaaaaaaaa1")] * recorded)
    assert ("(data) were not recorded" in text) is stated
    assert bool(text) is stated


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
        (replace(FAILED, affected={"n-0": None}, verdict=JobVerdict("STOP", (), None, "undetermined")), "ended"),
    ],
)
def test_a_job_that_failed_waits_for_its_nodes_unless_its_user_ended_it_or_its_verdict_is_stop(
    job: Job, state: str
) -> None:
    assert job.state_at(after(hours=3)) == state


def test_a_job_waits_for_its_nodes_for_seven_days() -> None:
    job = replace(FAILED, affected={"n-0": None})
    assert [job.state_at(after(hours=hours)) for hours in (168, 169)] == ["waiting", "ended"]


@pytest.mark.parametrize(
    ("job", "minutes", "ordered", "taken"),
    [
        (RUNNING, 600, False, True),
        (FAILED, 65, False, True),
        (FAILED, 66, False, False),
        (FAILED, 60, True, True),
        (FAILED, 61, True, False),
        (replace(FAILED, outcome="succeeded"), 10, False, False),
    ],
)
def test_a_fault_affects_a_job_up_to_five_minutes_after_it_failed_and_an_order_until_then(
    job: Job, minutes: int, ordered: bool, taken: bool
) -> None:
    assert job.takes_hit(after(minutes=minutes), ordered=ordered) is taken


@pytest.mark.parametrize(("outlook", "stops"), [(None, False), ("RESTART", False), ("STOP", True)])
def test_only_the_verdict_that_a_restart_would_fail_again_stops_a_job(outlook: str | None, stops: bool) -> None:
    verdict = JobVerdict(outlook, (), None, "undetermined") if outlook else None
    assert replace(FAILED, verdict=verdict).must_stop is stops


def test_a_job_is_stalled_from_its_limit_and_its_progress_is_stored_each_quarter_of_it() -> None:
    progress, limit = Progress(NOON, 10, NOON, NOON), timedelta(minutes=40)
    assert [progress.is_stalled(after(minutes=minutes), limit) for minutes in (39, 40)] == [False, True]
    assert [progress.is_old(after(minutes=minutes), limit) for minutes in (9, 10)] == [False, True]


@pytest.mark.parametrize(
    ("loss", "alarm", "found"),
    [(8.0, None, None), (8.1, None, LOSS_SPIKE), (float("nan"), None, NOT_FINITE), (8.0, LOSS_SPIKE, None)],
)
def test_a_loss_is_a_spike_above_twice_the_median(loss: float, alarm: str | None, found: str | None) -> None:
    assert loss_alarm((4.0,) * MIN_LOSSES, loss, alarm) == found


def test_a_loss_up_to_the_highest_earlier_one_is_a_spike_only_while_there_is_an_alarm() -> None:
    losses = (*(4.0,) * MIN_LOSSES, 9.0)
    assert [loss_alarm(losses, loss) for loss in (8.5, 9.0, 9.5)] == [None, None, LOSS_SPIKE]
    assert loss_alarm(losses, 8.5, LOSS_SPIKE) == LOSS_SPIKE


def test_a_rollback_is_no_progress_and_the_steps_after_it_are() -> None:
    reached = Progress(NOON, 100, NOON, NOON)
    back, advanced = reached.reported(60, after(minutes=1))
    assert (back.last_step, back.advanced_at, advanced) == (60, NOON, False)
    again, advanced = back.reported(61, after(minutes=2))
    assert (again.last_step, again.advanced_at, advanced) == (61, after(minutes=2), True)
    same, advanced = again.reported(61, after(minutes=3))
    assert (same.advanced_at, same.seen_at, advanced) == (after(minutes=2), after(minutes=3), False)
    repeated, advanced = same.reported(100, after(minutes=4))
    assert (repeated.last_step, advanced) == (61, False)
    beyond, advanced = same.reported(101, after(minutes=5))
    assert (beyond.last_step, beyond.rollback, advanced) == (101, None, True)
