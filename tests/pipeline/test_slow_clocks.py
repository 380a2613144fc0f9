"""Slow clocks: how far heartbeats show that a clock is behind, and which times are corrected by how much."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from faultbridge.decide.normalize.timestamp import (
    MAX_HEARTBEAT_DELAY,
    TOLERANCE,
    clock_has_moved,
    correct_observation,
    correct_record,
    slow_by,
)
from faultbridge.model.conditions import Condition, Reporter
from faultbridge.model.faults import NODE_COMPONENT, Fault, Snapshot
from faultbridge.model.nodes import NodeState
from faultbridge.model.records import RawRecord, SentValues
from faultbridge.model.values import replace
from tests.builders import NOON, after, condition, fault, node

SLOW = timedelta(hours=2)
SECOND = timedelta(seconds=1)


def reported(source: str, code: str = "host.clock") -> Snapshot:
    """Return a health snapshot with a clock that is two hours behind."""
    return Snapshot(source, {}, (fault(code, NODE_COMPONENT, source=source, attributes={"seconds_off": "-7200"}),))


def heartbeat(seconds_off: int) -> Snapshot:
    """Return a heartbeat of a clock that is off by so many seconds, negative if it is behind."""
    (found,) = reported("heartbeat").present
    return Snapshot("heartbeat", {}, (replace(found, attributes={"seconds_off": str(seconds_off)}),))


def known(source: str, code: str = "host.clock") -> NodeState:
    """Return a node with an active condition that says how far a clock is off."""
    active: Condition = replace(
        condition(), code=code, reporters={source: Reporter(True, NOON)}, attributes={"seconds_off": "-7200"}
    )
    return node(conditions={f"{code}@node": active})


@pytest.mark.parametrize(
    ("source", "code", "slow"),
    [
        ("heartbeat", "host.clock", SLOW),
        ("gpud", "host.clock", timedelta(0)),
        ("heartbeat", "host.silent", timedelta(0)),
    ],
)
def test_only_heartbeats_that_report_a_wrong_clock_show_that_it_is_behind(
    source: str, code: str, slow: timedelta
) -> None:
    assert slow_by(node(), [reported(source, code)]) == slow
    assert slow_by(known(source, code)) == slow


def test_a_heartbeat_that_is_being_processed_decides_before_the_state_of_the_node() -> None:
    assert slow_by(known("heartbeat"), [heartbeat(-600)]) == timedelta(minutes=10)


def test_of_several_heartbeats_the_least_delayed_shows_how_far_a_clock_is_behind() -> None:
    assert slow_by(node(), [heartbeat(-7428), heartbeat(-7200), heartbeat(300)]) == SLOW


@pytest.mark.parametrize(("seconds", "moved"), [(120, False), (121, True)])
def test_a_clock_has_moved_if_the_reports_differ_by_more_than_two_minutes(seconds: int, moved: bool) -> None:
    for one, other in ((0, seconds), (seconds, 0)):
        assert clock_has_moved({"seconds_off": f"-{one}"}, {"seconds_off": f"-{other}"}) is moved


def record(sent_at: datetime, **others: SentValues | None) -> RawRecord:
    return RawRecord("r-1", "kernel-log", "train-a", "n-1", b"x", sent_at, NOON, **others)


def test_the_sending_time_of_a_slow_clock_and_the_earlier_ones_in_the_record_are_moved_alike() -> None:
    corrected = correct_record(record(NOON - SLOW, values=SentValues("d", {"d": after(hours=-3)})), SLOW)
    assert (corrected.sent_at, corrected.values) == (NOON, SentValues("d", {"d": after(hours=-1)}))


def test_a_record_of_another_clock_is_not_corrected() -> None:
    sent = record(after(minutes=-1), values=SentValues("d", {"d": after(hours=-3)}))
    assert correct_record(sent, SLOW) is sent


@pytest.mark.parametrize(
    ("slow", "tolerance"),
    [
        (timedelta(minutes=5), TOLERANCE),
        (timedelta(minutes=16), TOLERANCE),
        (timedelta(minutes=40), timedelta(minutes=5)),
        (SLOW, MAX_HEARTBEAT_DELAY),
        (timedelta(days=5), MAX_HEARTBEAT_DELAY),
    ],
)
def test_a_time_counts_as_one_of_the_slow_clock_up_to_the_delay_that_its_heartbeat_may_have(
    slow: timedelta, tolerance: timedelta
) -> None:
    def corrected(age: timedelta) -> Fault:
        return correct_observation(fault(observed_at=NOON - age), record(NOON - slow), slow)

    of_the_clock, of_another = slow - tolerance, slow - tolerance - SECOND
    assert corrected(of_the_clock).observed_at == NOON
    assert "time_claimed" in corrected(of_the_clock).attributes
    assert corrected(of_another).observed_at == NOON - of_another
    assert "time_claimed" not in corrected(of_another).attributes


def test_a_fault_whose_time_is_not_corrected_is_unchanged() -> None:
    observed: Fault = fault(observed_at=after(minutes=-1))
    assert correct_observation(observed, record(NOON - SLOW), SLOW) is observed


def test_a_record_that_waited_longer_than_the_clock_is_behind_is_moved_to_its_receipt() -> None:
    waited = SLOW + timedelta(hours=1)
    found = correct_observation(fault(observed_at=NOON - waited - SECOND), record(NOON - waited), SLOW)
    assert found.observed_at == NOON - SECOND
