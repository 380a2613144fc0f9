"""No node is held longer than the maximum age, however its fault comes and goes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import timedelta
from math import ceil, log2
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faultbridge.decide.correlate.life_cycle import correlate, exempt_nodes, hold_of
from faultbridge.decide.correlate.shared_causes import without_records
from faultbridge.model.cluster.config import FailureDomain
from faultbridge.model.cluster.incidents import Hold, Incident
from faultbridge.model.cluster.state import Control
from faultbridge.model.enums import DomainKind, IncidentStatus
from faultbridge.model.fault_enums import Family
from faultbridge.model.values import replace
from tests.builders import NOON, after
from tests.pipeline.correlate.builders import QUIET, RACK
from tests.pipeline.correlate.life_cycle import (
    LIMITS,
    PER_RACK,
    affected,
    domains_of,
    opened,
    run,
    snapshot,
)

pytestmark = pytest.mark.slow

MAX_AGE = LIMITS.max_age // timedelta(minutes=1)
HOURS = 6


def expired() -> Incident:
    """Return an incident of a rack that has just reached its maximum age."""
    nodes = [affected(number) for number in RACK]
    (change,) = run(nodes, [opened(nodes)], after(hours=2))
    return change.after


def names(numbers: Iterable[int]) -> set[str]:
    return {f"n-{number:02}" for number in numbers}


def onsets_by_minute(seed: int) -> list[dict[int, int]]:
    """Return, by minute, when the fault of each node of two racks began; gaps are shorter than the quiet time."""
    random = Random(seed)
    minutes: list[dict[int, int]] = [{} for _ in range(HOURS * 60)]
    for number in range(2 * PER_RACK):
        minute = random.randint(0, 30)
        while minute < len(minutes):
            end = minute + random.randint(1, 40)
            for one in range(minute, min(end, len(minutes))):
                minutes[one][number] = minute
            minute = end + random.randint(1, QUIET - 1)
    return minutes


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 2**32))
def test_a_fault_that_comes_and_goes_delays_a_repair_no_longer_than_the_maximum_age(seed: int) -> None:
    live: dict[str, Incident] = {}
    ended: list[Hold] = []
    held: Counter[str] = Counter()
    for minute, onsets in enumerate(onsets_by_minute(seed)):
        now = after(minutes=minute)
        nodes = [affected(number, after(minutes=since)) for number, since in onsets.items()]
        for change in correlate(snapshot(nodes), live.values(), ended, LIMITS, now):
            live[change.after.id] = change.after
            if change.after.status is IncidentStatus.CLOSED:
                ended.append(live.pop(change.after.id).hold)
        held.update({name for one in live.values() if one.status.holds for name in one.nodes})
    assert max(held.values()) <= MAX_AGE


def openings_of_flapping(down: int, up: int, hours: int) -> list[Incident]:
    """Return the incidents of a rack whose links are down and up in turn; the numbers are minutes and hours."""
    found: dict[str, Incident] = {}
    for minute in range(hours * 60):
        round_start = minute - minute % (down + up)
        is_down = minute - round_start < down
        nodes = [affected(number, after(minutes=round_start)) for number in RACK] if is_down else []
        live = [one for one in found.values() if one.status is not IncidentStatus.CLOSED]
        ended = [one.hold for one in found.values() if one.status is IncidentStatus.CLOSED]
        for change in correlate(snapshot(nodes), live, ended, LIMITS, after(minutes=minute)):
            found[change.after.id] = change.after
    return list(found.values())


@pytest.mark.parametrize("up", range(1, MAX_AGE, 7))
def test_links_that_come_and_go_are_few_incidents_of_which_the_last_reaches_its_maximum_age(up: int) -> None:
    found = openings_of_flapping(8, up, hours=12)
    assert [one.recurrence for one in found] == list(range(len(found)))
    assert found[-1].status is IncidentStatus.EXPIRED
    assert len(found) <= 1 + ceil(log2(MAX_AGE / QUIET))


def test_the_quiet_period_stays_within_the_maximum_age_however_often_the_cause_returns() -> None:
    incident = replace(opened([affected(number) for number in RACK]), recurrence=10_000)
    assert incident.quiet_period(LIMITS) == LIMITS.max_age
    short = replace(LIMITS, max_age=timedelta(minutes=1))
    assert incident.quiet_period(short) == LIMITS.quiet


def test_a_cause_that_returns_after_the_maximum_age_is_no_recurrence() -> None:
    assert {one.recurrence for one in openings_of_flapping(8, MAX_AGE + QUIET, hours=12)} == {0}


def test_a_cause_of_another_rack_or_family_is_no_recurrence() -> None:
    ended = [
        Hold(Family.NETWORK, domains_of(PER_RACK)[0], holding=False, ended_at=NOON, recurrence=3),
        Hold(Family.POWER, domains_of(0)[0], holding=False, ended_at=NOON, recurrence=3),
    ]
    late = after(minutes=5)
    (change,) = correlate(snapshot([affected(number, late) for number in RACK]), [], ended, LIMITS, late)
    assert change.after.recurrence == 0


def test_an_intake_that_fails_again_is_no_recurrence_because_its_incident_holds_every_repair() -> None:
    intake = FailureDomain(DomainKind.INTAKE, "train-a")
    ended = [Hold(Family.HEARTBEAT, intake, holding=False, ended_at=NOON, recurrence=3)]
    late = after(minutes=5)
    silent = without_records([], "train-a", ["n-00"], late)
    known = replace(snapshot(silent), knows_intake=True)
    (change,) = correlate(known, [], ended, LIMITS, late)
    assert (change.after.domain, change.after.recurrence) == (intake, 0)


def test_a_node_of_an_expired_incident_opens_another_one_only_after_it_was_healthy_for_the_quiet_time() -> None:
    incident = expired()
    (shrunk,) = run([], [incident], after(hours=2, minutes=1))
    again = [affected(number, after(hours=2, minutes=3)) for number in RACK]
    (grown,) = run(again, [shrunk.after], after(hours=2, minutes=3))
    assert (grown.after.id, grown.after.status) == (incident.id, IncidentStatus.EXPIRED)
    assert set(grown.added) == names(RACK)
    late = after(hours=2, minutes=1 + QUIET)
    (opened_again,) = (
        one for one in run([affected(number, late) for number in RACK], [shrunk.after], late) if one.before is None
    )
    assert opened_again.after.status is IncidentStatus.OPEN


def test_a_node_that_was_healthy_at_the_maximum_age_is_exempt_too() -> None:
    nodes = [affected(number) for number in RACK]
    (shrunk,) = run(nodes[3:], [opened(nodes)], after(minutes=118))
    (change,) = run(nodes[3:], [shrunk.after], after(hours=2))
    exempt = exempt_nodes([change.after], LIMITS, after(hours=2))
    assert exempt == {(Family.NETWORK, name) for name in names(RACK)}


def test_an_incident_of_other_nodes_does_not_get_the_nodes_of_an_expired_one() -> None:
    late = after(hours=3)
    nodes = [affected(number, late) for number in range(2 * PER_RACK)]
    changes = run(nodes, [expired()], late)
    (other,) = (one.after for one in changes if one.after.status is IncidentStatus.OPEN)
    assert set(other.nodes) == names(range(PER_RACK, 2 * PER_RACK))


def test_an_incident_passes_a_node_on_when_another_one_of_the_node_expires() -> None:
    first, late = expired(), after(hours=2)
    second = replace(opened([affected(number) for number in RACK]), id="inc-later", opened_at=after(hours=1))
    changes = run([affected(number) for number in RACK], [replace(first, status=IncidentStatus.OPEN), second], late)
    assert {one.after.id: set(one.after.nodes) for one in changes}[second.id] == set()


def test_an_expired_incident_is_not_closed_while_a_fault_comes_back_within_the_quiet_time() -> None:
    incident = expired()
    for minute in range(1, 60):
        now = after(hours=2, minutes=minute)
        nodes = [affected(number, now) for number in (0, 1)] if minute % QUIET == QUIET - 1 else []
        for change in run(nodes, [incident], now):
            incident = change.after
    assert incident.status is IncidentStatus.EXPIRED


def test_the_repair_of_an_exempt_node_waits_for_no_incident_of_the_family_and_for_those_of_others() -> None:
    incident = expired()
    same = Hold(Family.NETWORK, domains_of(0)[1])
    power = Hold(Family.POWER, domains_of(0)[0])
    control = Control("train-a", holds={"inc-a": hold_of(incident, LIMITS, after(hours=2)), "inc-b": same})
    assert control.incident_of("n-00", domains_of(0), [Family.NETWORK]) is None
    assert control.incident_of("n-09", domains_of(9), [Family.NETWORK]) == "inc-b"
    both = replace(control, holds={**control.holds, "inc-c": power})
    assert both.incident_of("n-00", domains_of(0), [Family.NETWORK, Family.POWER]) == "inc-c"


def test_a_hold_exempts_no_node_that_has_been_healthy_for_the_quiet_time() -> None:
    (shrunk,) = run([affected(1)], [expired()], after(hours=2, minutes=1))
    assert set(hold_of(shrunk.after, LIMITS, after(hours=2, minutes=QUIET)).exempt) == names(RACK)
    assert set(hold_of(shrunk.after, LIMITS, after(hours=2, minutes=1 + QUIET)).exempt) == names([1])
    assert hold_of(opened([affected(number) for number in RACK]), LIMITS, NOON).exempt == ()
