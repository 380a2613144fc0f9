"""Which incident a shared cause opens or extends, and which faults belong to an incident."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from faultbridge.decide.correlate.life_cycle import IncidentChange, correlate, superseded_incidents
from faultbridge.decide.correlate.shared_causes import without_records
from faultbridge.model.cluster.config import FailureDomain
from faultbridge.model.cluster.incidents import Hold, Incident
from faultbridge.model.enums import DomainKind, IncidentStatus
from faultbridge.model.fault_enums import Family
from faultbridge.model.values import replace
from tests.builders import NOON, after
from tests.pipeline.correlate.life_cycle import KINDS, LIMITS, affected, domains_of, opened, run, snapshot

RACK, ZONE, CLUSTER = domains_of(0)


def summary(changes: Iterable[IncidentChange]) -> list[tuple[str, str, int]]:
    """Return the kind, the domain and the number of nodes of each change."""
    return sorted((one.kind.value, one.after.domain.name, len(one.after.nodes)) for one in changes)


def incident_of(name: str, domain: FailureDomain, minutes: int, numbers: Iterable[int]) -> Incident:
    return Incident(
        name, "train-a", Family.NETWORK, domain, IncidentStatus.OPEN, after(minutes=minutes), NOON, "net.link_down",
        nodes=tuple(f"n-{number:02}" for number in numbers),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("minute", "numbers", "expected"),
    [
        (59, (4, 5, 6), [("grown", "r-0", 7)]),
        (60, (4, 5, 6), [("opened", "r-0", 3)]),
        (60, (4, 5), [("grown", "r-0", 6)]),
    ],
)
def test_enough_nodes_that_fail_in_the_second_half_of_the_maximum_age_are_another_incident(
    minute: int, numbers: tuple[int, ...], expected: list[tuple[str, str, int]]
) -> None:
    first = [affected(number) for number in range(4)]
    later = [affected(number, after(minutes=minute)) for number in numbers]
    assert summary(run([*first, *later], [opened(first)], after(minutes=minute))) == expected


def test_a_wide_cause_in_the_second_half_of_the_maximum_age_does_not_extend_the_incident_of_a_rack() -> None:
    rack = opened(affected(number) for number in range(8))
    late = after(minutes=61)
    changes = run((affected(number, late) for number in range(32)), [rack], late)
    assert summary(changes) == [("opened", "z-0", 24)]


def test_a_rack_that_fails_within_the_zone_of_an_incident_joins_that_incident() -> None:
    zone = [affected(number) for number in range(0, 40, 2)]
    rack = [affected(number, after(minutes=30)) for number in (1, 3, 5, 7)]
    assert summary(run([*zone, *rack], [opened(zone)], after(minutes=30))) == [("grown", "z-0", 24)]


def test_an_incident_of_another_family_does_not_explain_the_faults_of_a_rack() -> None:
    power = [affected(number, family=Family.POWER) for number in range(8)]
    network = [affected(number) for number in range(8)]
    assert summary(run([*power, *network], [opened(power)])) == [("opened", "r-0", 8)]


def test_a_smaller_group_of_later_faults_is_an_incident_although_an_incident_of_another_family_has_its_nodes() -> None:
    later = [*(number for number in range(40) if number % 8 >= 5), *range(40, 76, 4)]
    first = [affected(number) for number in range(40) if number % 8 < 5]
    power = replace(incident_of("power", CLUSTER, 0, later), family=Family.POWER)
    nodes = [*first, *(affected(number, after(minutes=40)) for number in later)]
    assert ("opened", "train-a", 24) in summary(run(nodes, [opened(first), power], after(minutes=40)))


def test_a_failed_intake_extends_the_incident_of_the_nodes_that_were_silent_before() -> None:
    silent = [affected(number, family=Family.HEARTBEAT) for number in range(8)]
    rack = opened(silent)
    found = without_records(silent, "train-a", [one.node for one in silent], NOON)
    known = replace(snapshot(found), knows_intake=True)
    (change,) = correlate(known, [rack], (), LIMITS, after(minutes=1))
    assert (change.kind, change.after.id, change.after.domain.kind) == (KINDS.GROWN, rack.id, DomainKind.INTAKE)


def test_a_fault_that_began_when_its_incident_was_closed_opens_no_second_one() -> None:
    nodes = [affected(number, after(minutes=1)) for number in range(8)]
    ended = Hold(Family.NETWORK, RACK, holding=False, ended_at=after(minutes=1), explains_until=after(minutes=1))
    assert correlate(snapshot(nodes), (), (ended,), LIMITS, after(minutes=2)) == ()
    before = replace(ended, explains_until=NOON)
    assert len(correlate(snapshot(nodes), (), (before,), LIMITS, after(minutes=2))) == 1


@pytest.mark.parametrize(("seconds", "recurrence"), [(-1, 4), (0, 0)])
def test_a_cause_that_returns_before_the_maximum_age_is_a_recurrence(seconds: int, recurrence: int) -> None:
    ended = Hold(Family.NETWORK, RACK, holding=False, ended_at=NOON, recurrence=3)
    late = after(hours=2, seconds=seconds)
    (change,) = correlate(snapshot(affected(number, late) for number in range(8)), (), (ended,), LIMITS, late)
    assert change.after.recurrence == recurrence


def test_faults_that_began_exactly_a_window_apart_belong_to_one_incident() -> None:
    nodes = [affected(number, after(minutes=minute)) for number, minute in enumerate((0, 10, 20, 30, 30, 30))]
    assert summary(run(nodes, now=after(minutes=30))) == [("opened", "r-0", 6)]


@pytest.mark.parametrize(("seconds", "nodes"), [(0, ("n-00", "n-03")), (-1, ("n-00",))])
def test_a_late_record_of_a_fault_joins_an_incident_if_the_fault_began_at_most_a_window_before_the_first(
    seconds: int, nodes: tuple[str, ...]
) -> None:
    (recovering,) = run([], [opened(affected(number) for number in range(3))], after(minutes=1))
    late = affected(3, after(minutes=-10, seconds=seconds))
    (change,) = run([affected(0), late], [recovering.after], after(minutes=2))
    assert change.after.nodes == nodes


@pytest.mark.parametrize(
    ("domain", "minutes", "superseded"),
    [
        (RACK, 59, set()),
        (RACK, 60, {"earlier"}),
        (ZONE, 59, set()),
        (ZONE, 60, {"earlier"}),
        (domains_of(40)[1], 60, set()),
        (domains_of(8)[0], 60, set()),
    ],
    ids=["same domain, early", "same domain", "wider domain, early", "wider domain", "another zone", "another rack"],
)
def test_an_incident_is_superseded_by_one_of_its_domain_or_a_wider_one_in_the_second_half_of_its_maximum_age(
    domain: FailureDomain, minutes: int, superseded: set[str]
) -> None:
    earlier, later = incident_of("earlier", RACK, 0, range(4)), incident_of("later", domain, minutes, range(40, 44))
    nodes = [affected(number) for number in (*range(4), *range(40, 44))]
    assert superseded_incidents(snapshot(nodes), [earlier, later], LIMITS) == superseded


def test_an_incident_of_another_family_supersedes_none() -> None:
    earlier, later = incident_of("earlier", RACK, 0, range(4)), incident_of("later", RACK, 60, range(4))
    power = replace(later, family=Family.POWER)
    assert superseded_incidents(snapshot(affected(number) for number in range(4)), [earlier, power], LIMITS) == set()


def test_an_incident_whose_nodes_recovered_is_followed_by_one_of_its_own_domain_only() -> None:
    earlier = incident_of("earlier", RACK, 0, ())
    for domain, superseded in ((RACK, {"earlier"}), (ZONE, set())):
        later = incident_of("later", domain, 60, range(40, 44))
        found = superseded_incidents(snapshot(affected(number) for number in range(40, 44)), [earlier, later], LIMITS)
        assert found == superseded
