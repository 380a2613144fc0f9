"""Admit: which queued cases may start, and why the others wait."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faultbridge.decide.admit import MAX_PICKS, admit, check_cron, is_open
from faultbridge.model.cluster.config import FailureDomain, UpdateHold
from faultbridge.model.cluster.incidents import Hold
from faultbridge.model.cluster.state import CLUSTER_BREAKER, Breaker, BreakerState, Control, Pause
from faultbridge.model.enums import DomainKind, RepairAction, WaitingFor
from faultbridge.model.fault_enums import Family
from faultbridge.model.policy import Limits, Policy, Rule, Window
from faultbridge.model.times import to_text
from faultbridge.model.values import replace
from tests.builders import NOON, after
from tests.pipeline.builders import ROOM, control, picked, queued


def test_the_most_urgent_case_is_picked_first_and_then_the_oldest():
    waiting = [queued(1, priority=1), queued(2, since=after(minutes=1)), queued(3)]
    assert picked(admit(control(), Policy("p", limits=Limits(concurrent=2)), waiting, NOON)) == ["c-3", "c-2"]


def test_a_slot_in_use_is_not_assigned_again():
    admission = admit(
        control(holders={"c-9": NOON}), Policy("p", limits=Limits(concurrent=2)), [queued(1), queued(2)], NOON
    )
    assert picked(admission) == ["c-1"]
    assert [refused.waiting_for for refused in admission.refusals] == [WaitingFor.BUDGET]


def test_a_repair_start_counts_for_one_hour():
    starts = (NOON - timedelta(minutes=59),)
    limits = Limits(concurrent=5, per_hour=1)
    assert picked(admit(control(starts=starts), Policy("p", limits=limits), [queued()], NOON)) == []
    assert picked(admit(control(starts=starts), Policy("p", limits=limits), [queued()], after(minutes=1))) == ["c-1"]


def test_a_pause_refuses_every_repair_action():
    waiting = [queued(1), queued(2, repair_action=RepairAction.VERIFY)]
    admission = admit(control(pauses={"ada": Pause(NOON)}), Policy("p", limits=Limits()), waiting, NOON)
    assert {refused.waiting_for for refused in admission.refusals} == {WaitingFor.PAUSE}
    assert not admission.picks


def test_a_case_before_its_start_time_keeps_its_waiting_reason():
    later = queued(not_before=after(minutes=1), waiting_for=WaitingFor.CAPACITY)
    (refused,) = admit(control(), Policy("p", limits=Limits()), [later], NOON).refusals
    assert refused.waiting_for is WaitingFor.CAPACITY
    assert picked(admit(control(), Policy("p", limits=Limits()), [later], after(minutes=1))) == ["c-1"]


def test_a_verification_needs_no_slot():
    waiting = [queued(1, repair_action=RepairAction.VERIFY), queued(2)]
    assert picked(admit(control(), Policy("p", limits=Limits(concurrent=1)), waiting, NOON)) == ["c-1", "c-2"]


def test_an_admission_picks_a_limited_number_and_does_not_refuse_the_rest():
    waiting = [queued(number) for number in range(40)]
    admission = admit(control(), Policy("p", limits=Limits(concurrent=40, per_hour=40)), waiting, NOON)
    assert (len(admission.picks), admission.refusals) == (MAX_PICKS, ())


cases = st.builds(
    queued,
    st.integers(1, 10_000),
    priority=st.integers(0, 3),
    since=st.integers(0, 90).map(lambda minutes: after(minutes=minutes)),
    repair_action=st.sampled_from(RepairAction),
    not_before=st.none() | st.integers(0, 90).map(lambda minutes: after(minutes=minutes)),
)


@given(
    waiting=st.lists(cases, max_size=30, unique_by=lambda one: one.case),
    held=st.integers(0, 5),
    begun=st.integers(0, 5),
    concurrent=st.integers(0, 6),
    per_hour=st.integers(0, 6),
)
@settings(deadline=None)
def test_no_limit_is_exceeded_and_no_older_case_is_skipped(waiting, held, begun, concurrent, per_hour):
    now = after(minutes=45)
    slots = control(holders={f"c-h{n}": NOON for n in range(held)}, starts=(now,) * begun)
    admission = admit(slots, Policy("p", limits=Limits(concurrent=concurrent, per_hour=per_hour)), waiting, now)
    taking = [pick for pick in admission.picks if pick.repair_action.needs_slot]
    assert not taking or held + len(taking) <= concurrent
    assert not taking or begun + len(taking) <= per_hour
    order = [(pick.priority, pick.since) for pick in admission.picks]
    assert order == sorted(order)
    refused = {one.queued.case for one in admission.refusals}
    assert not refused & {pick.case for pick in admission.picks}
    for pick in taking:
        ahead = [one for one in waiting if (one.priority, one.since) < (pick.priority, pick.since)]
        due = [one for one in ahead if one.not_before is None or one.not_before <= now]
        assert {one.case for one in due} <= {one.case for one in admission.picks}


def with_breaker(state: BreakerState, *, trial: int = 1, **others) -> Control:
    return control(breakers={CLUSTER_BREAKER: Breaker(state, NOON, trial)}, **others)


def test_an_open_breaker_refuses_every_repair_but_no_verification():
    admission = admit(
        with_breaker(BreakerState.OPEN), ROOM, [queued(1), queued(2, repair_action=RepairAction.VERIFY)], NOON
    )
    assert picked(admission) == ["c-2"]
    assert [(one.waiting_for, "is open" in one.reason) for one in admission.refusals] == [(WaitingFor.BREAKER, True)]


def test_a_half_open_breaker_permits_its_number_of_trial_repairs():
    waiting = [queued(number) for number in range(1, 5)]
    assert picked(admit(with_breaker(BreakerState.HALF_OPEN, trial=2), ROOM, waiting, NOON)) == ["c-1", "c-2"]
    verified = [queued(5, repair_action=RepairAction.VERIFY), *waiting]
    assert picked(admit(with_breaker(BreakerState.HALF_OPEN), ROOM, verified, NOON)) == ["c-1", "c-5"]


def test_a_trial_repair_is_one_that_started_since_the_breaker_is_half_open():
    before, since = {"c-8": after(minutes=-1)}, {"c-9": NOON}
    assert picked(admit(with_breaker(BreakerState.HALF_OPEN, holders=before), ROOM, [queued()], NOON)) == ["c-1"]
    assert picked(admit(with_breaker(BreakerState.HALF_OPEN, holders=since), ROOM, [queued()], NOON)) == []


def test_a_group_without_capacity_waits_and_then_one_replacement_tries_again():
    waiting = [
        queued(1, group="a"),
        queued(2, group="a"),
        queued(3, group="b"),
        queued(4, group="a", repair_action=RepairAction.VERIFY),
    ]
    exhausted = control(no_capacity_until={"a": after(minutes=1)})
    assert picked(admit(exhausted, ROOM, waiting, NOON)) == ["c-3", "c-4"]
    admission = admit(exhausted, ROOM, waiting, after(minutes=1))
    assert picked(admission) == ["c-1", "c-3", "c-4"]
    assert [one.waiting_for for one in admission.refusals] == [WaitingFor.CAPACITY]


@pytest.mark.parametrize("first", [{"group": "b"}, {"group": "a", "repair_action": RepairAction.VERIFY}])
def test_only_a_replacement_in_the_same_group_counts_as_the_one_that_tries_again(first):
    waiting = [queued(1, **first), queued(2, group="a")]
    assert picked(admit(control(no_capacity_until={"a": NOON}), ROOM, waiting, NOON)) == ["c-1", "c-2"]


def test_a_case_that_found_no_capacity_comes_after_the_others_and_the_one_whose_wait_ended_first_before_the_rest():
    tried = {"waiting_for": WaitingFor.CAPACITY}
    waiting = [
        queued(1, since=after(minutes=-9), not_before=after(minutes=-1), **tried),
        queued(2, since=after(minutes=-8), not_before=after(minutes=-2), **tried),
        queued(3, not_before=after(minutes=-5)),
    ]
    assert picked(admit(control(), ROOM, waiting, NOON)) == ["c-3", "c-2", "c-1"]


def test_the_cases_picked_before_count_for_the_hourly_limit():
    limits = Limits(concurrent=9, per_hour=2)
    admission = admit(control(starts=(NOON,)), Policy("p", limits=limits), [queued(1), queued(2)], NOON)
    assert picked(admission) == ["c-1"]


def test_a_verification_is_admitted_when_all_slots_are_in_use():
    full = control(holders={"c-8": NOON, "c-9": NOON}, starts=(NOON, NOON))
    admission = admit(
        full,
        Policy("p", limits=Limits(concurrent=2, per_hour=2)),
        [queued(1), queued(2, repair_action=RepairAction.VERIFY)],
        NOON,
    )
    assert picked(admission) == ["c-2"]


def test_a_repair_action_that_requires_approval_waits_for_the_approval():
    policy = replace(ROOM, rules=(Rule("ask", approval=(RepairAction.REPLACE_NODE,)),))
    unapproved = queued(1, rule="ask")
    (refused,) = admit(control(), policy, [unapproved], NOON).refusals
    assert (refused.waiting_for, "ask" in refused.reason) == (WaitingFor.APPROVAL, True)
    others = [
        replace(unapproved, approved=True),
        replace(unapproved, case="c-2", repair_action=RepairAction.REBOOT_NODE),
    ]
    assert picked(admit(control(), policy, others, NOON)) == ["c-1", "c-2"]


def test_a_rule_with_windows_permits_repairs_only_in_a_window_but_verifications_always():
    window = Window(cron="0 12 * * *", duration=timedelta(hours=2))
    policy = replace(ROOM, rules=(Rule("at-noon", windows=(window,)),))
    waiting = [queued(1, rule="at-noon"), queued(2, rule="at-noon", repair_action=RepairAction.VERIFY)]
    assert picked(admit(control(), policy, waiting, after(minutes=1))) == ["c-1", "c-2"]
    admission = admit(control(), policy, waiting, after(minutes=121))
    assert picked(admission) == ["c-2"]
    assert [one.waiting_for for one in admission.refusals] == [WaitingFor.WINDOW]


@pytest.mark.parametrize(("hour", "expected"), [(12, ["c-1"]), (15, []), (20, ["c-1"])])
def test_a_repair_starts_while_any_of_its_windows_is_open(hour, expected):
    windows = tuple(Window(cron=f"0 {start} * * *", duration=timedelta(hours=2)) for start in (12, 20))
    policy = replace(ROOM, rules=(Rule("twice", windows=windows),))
    assert picked(admit(control(), policy, [queued(rule="twice")], NOON.replace(hour=hour))) == expected


CLUSTER = FailureDomain(DomainKind.CLUSTER, "train-a")
INTAKE = FailureDomain(DomainKind.INTAKE, "train-a")
RACK = FailureDomain(DomainKind.RACK, "r-7")
ONE_CAUSE = "its nodes share one cause"
HALF_PAST = after(minutes=30)


@pytest.mark.parametrize(
    ("of", "domains", "families", "reason"),
    [
        (RACK, (RACK, CLUSTER), (Family.NETWORK,), ONE_CAUSE),
        (RACK, (RACK, CLUSTER), (), "it explains why the last attempt failed in rack r-7"),
        (INTAKE, (RACK, CLUSTER), (), ONE_CAUSE),
        (RACK, (CLUSTER,), (Family.NETWORK,), "whether this node shares its cause is not known yet"),
    ],
    ids=["its fault", "its last attempt", "the intake", "an unknown place"],
)
def test_a_repair_that_waits_for_an_incident_says_how_the_incident_concerns_the_node(of, domains, families, reason):
    waiting = queued(domains=domains, families=families, repeated_since=NOON)
    (refused,) = admit(control(holds={"inc-1": Hold(Family.NETWORK, of)}), ROOM, [waiting], NOON).refusals
    assert refused.waiting_for is WaitingFor.INCIDENT
    assert refused.reason.startswith("incident inc-1 is open")
    assert refused.reason.endswith(reason)


def test_repairs_but_no_verification_wait_until_the_update_of_their_group_is_over():
    waiting = [
        queued(1, group="a"),
        queued(2, group="b"),
        queued(3, group="a", repair_action=RepairAction.VERIFY),
        queued(4),
    ]
    holds = [UpdateHold("a", NOON, HALF_PAST)]
    admission = admit(control(), ROOM, waiting, NOON, holds)
    assert picked(admission) == ["c-2", "c-3", "c-4"]
    assert [one.waiting_for for one in admission.refusals] == [WaitingFor.UPDATE]
    assert picked(admit(control(), ROOM, waiting, HALF_PAST, holds)) == ["c-1", "c-2", "c-3", "c-4"]


@pytest.mark.parametrize(
    ("running", "what"),
    [(True, "is being updated by its owner, or its block ends"), (False, "was updated by its owner")],
)
def test_a_repair_that_waits_for_an_update_says_whether_it_still_runs_and_when_the_wait_ends(running, what):
    hold = UpdateHold("a", NOON, HALF_PAST, running=running)
    (refused,) = admit(control(), ROOM, [queued(group="a")], NOON, [hold]).refusals
    assert refused.reason == f"a {what}; repairs wait until {to_text(HALF_PAST)} at most"


HOUR = timedelta(hours=1)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        ("2026-02-02 20:59", False),
        ("2026-02-02 21:00", True),
        ("2026-02-03 00:59", True),
        ("2026-02-03 01:00", False),
        ("2026-07-06 20:00", True),
        ("2026-07-06 19:59", False),
        ("2026-02-07 22:00", False),
    ],
)
def test_a_window_opens_by_the_clock_of_its_zone_in_summer_and_in_winter(now, expected):
    window = Window("0 22 * * mon-fri", 4 * HOUR, "Europe/Berlin")
    assert is_open(window, at(now)) is expected


@pytest.mark.parametrize(
    ("day", "expected"), [("2026-02-13", True), ("2026-02-20", True), ("2026-02-21", False), ("2026-01-13", True)]
)
def test_a_day_fits_if_the_day_of_month_or_the_day_of_week_fits(day, expected):
    assert is_open(Window("0 0 13 * fri", HOUR), at(f"{day} 00:30")) is expected


@pytest.mark.parametrize("sunday", ["0", "7", "sun"])
def test_sunday_is_0_and_7(sunday):
    window = Window(f"0 12 * * {sunday}", HOUR)
    assert is_open(window, at("2026-02-01 12:10"))
    assert not is_open(window, at("2026-02-02 12:10"))


WRONG = (
    "",
    "* * * *",
    "* * * * * *",
    "60 * * * *",
    "* 24 * * *",
    "* * 0 * *",
    "*/0 * * * *",
    "5-1 * * * *",
    "x * * * *",
)


@pytest.mark.parametrize("text", WRONG)
def test_an_invalid_cron_expression_is_refused(text):
    with pytest.raises(ValueError, match="not a cron expression"):
        check_cron(text)


@given(
    st.integers(0, 59),
    st.integers(0, 23),
    st.integers(0, 525_600).map(lambda minutes: at("2026-01-01 00:00") + timedelta(minutes=minutes)),
    st.integers(1, 24 * 60),
)
def test_a_daily_window_is_open_from_its_minute_for_its_duration(minute, hour, now, length):
    opened = now.replace(hour=hour, minute=minute)
    opened = opened if opened <= now else opened - timedelta(days=1)
    window = Window(f"{minute} {hour} * * *", timedelta(minutes=length))
    assert is_open(window, now) is (now - opened < timedelta(minutes=length))


def test_a_window_whose_hour_the_clock_skips_opens_after_the_change():
    window = Window("30 2 * * *", HOUR, "Europe/Berlin")
    assert is_open(window, at("2026-03-29 01:10"))
