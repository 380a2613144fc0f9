"""Timestamp: every observation has a time, and none is in the future."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from faultbridge.decide.normalize.timestamp import EARLIEST, MAX_DELAY, assign_times, bounded_sent_at
from faultbridge.model.fault_enums import ComponentType
from faultbridge.model.faults import Clear, Component, CounterSample, Fault, Snapshot
from faultbridge.model.policy import Limits
from faultbridge.model.times import to_text

NOON = datetime(2026, 2, 3, 12, 0, tzinfo=UTC)
GPU = Component(ComponentType.GPU, pci="0000:c1:00")
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
instants = st.datetimes(datetime(1970, 1, 2), datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - given a zone by the strategy


def fault(at: datetime | None) -> Fault:
    return Fault("kernel-log", "xid.79", GPU, "gone", at, attributes={"pid": "1"})


def with_time(at: datetime | None, *, sent_at: datetime | None = None) -> Fault:
    (found,) = assign_times([fault(at)], received_at=NOON, sent_at=sent_at)
    assert isinstance(found, Fault)
    return found


def test_a_missing_time_becomes_the_time_of_sending() -> None:
    found = with_time(None, sent_at=NOON - MINUTE)
    assert found.observed_at == NOON - MINUTE
    assert found.attributes == {"pid": "1", "time_source": "sent"}


def test_a_missing_time_without_a_sender_time_becomes_the_receipt() -> None:
    found = with_time(None)
    assert (found.observed_at, found.attributes["time_source"]) == (NOON, "received")


def test_a_sender_clock_ahead_gives_no_time_in_the_future() -> None:
    assert with_time(None, sent_at=NOON + HOUR).observed_at == NOON


def test_a_given_time_is_kept() -> None:
    assert with_time(NOON - HOUR, sent_at=NOON) == fault(NOON - HOUR)


def test_a_time_is_shifted_back_by_the_offset_of_the_sender_clock() -> None:
    found = with_time(NOON + HOUR - MINUTE, sent_at=NOON + HOUR)
    assert found.observed_at == NOON - MINUTE
    assert found.attributes["time_source"] == "shifted"
    assert found.attributes["time_claimed"] == "2026-02-03T12:59:00.000Z"


@pytest.mark.parametrize(("claimed", "sent_at"), [(NOON, NOON + HOUR), (EARLIEST, NOON - MINUTE)])
def test_the_time_of_the_receipt_and_the_start_of_2020_are_kept(claimed: datetime, sent_at: datetime) -> None:
    assert with_time(claimed, sent_at=sent_at) == fault(claimed)


def test_a_time_in_2038_becomes_the_receipt() -> None:
    assert with_time(datetime(2038, 1, 19, tzinfo=UTC)).observed_at == NOON


def test_a_time_in_the_past_is_kept() -> None:
    assert with_time(NOON - 300 * 24 * HOUR, sent_at=NOON).observed_at == NOON - 300 * 24 * HOUR
    assert with_time(NOON - 24 * HOUR, sent_at=NOON - HOUR).observed_at == NOON - 24 * HOUR


@pytest.mark.parametrize("behind", [MAX_DELAY + MINUTE, timedelta(days=365), NOON - datetime(1970, 1, 1, tzinfo=UTC)])
def test_times_of_a_clock_that_was_not_set_are_shifted_forward(behind: timedelta) -> None:
    found = with_time(NOON - behind - MINUTE, sent_at=NOON - behind)
    assert found.observed_at == NOON - MINUTE
    assert found.attributes["time_source"] == "shifted"
    assert found.attributes["time_claimed"] == to_text(NOON - behind - MINUTE)
    assert with_time(NOON - behind, sent_at=NOON - behind).observed_at == NOON


def test_a_record_may_wait_for_fourteen_days() -> None:
    waited, unset = NOON - timedelta(days=13, hours=23), NOON - timedelta(days=14, minutes=1)
    assert with_time(waited - MINUTE, sent_at=waited) == fault(waited - MINUTE)
    assert with_time(unset - MINUTE, sent_at=unset).observed_at == NOON - MINUTE


def test_a_record_that_waited_is_not_too_old_to_count() -> None:
    assert Limits().remember_for > MAX_DELAY


def test_a_time_from_a_right_clock_is_kept_although_the_sender_clock_was_not_set() -> None:
    assert with_time(NOON - MINUTE, sent_at=datetime(1970, 1, 2, tzinfo=UTC)) == fault(NOON - MINUTE)


def test_a_time_before_2020_becomes_the_time_of_sending() -> None:
    found = with_time(datetime(1970, 1, 1, 0, 5, tzinfo=UTC), sent_at=NOON - MINUTE)
    assert found.observed_at == NOON - MINUTE
    assert found.attributes["time_claimed"] == "1970-01-01T00:05:00.000Z"


@pytest.mark.parametrize("sent_at", [NOON + HOUR, NOON - MAX_DELAY - MINUTE])
def test_a_missing_time_with_an_implausible_time_of_sending_is_the_receipt_and_is_marked(sent_at: datetime) -> None:
    found = with_time(None, sent_at=sent_at)
    assert found.observed_at == NOON
    assert found.attributes == {"pid": "1", "time_source": "received", "time_claimed": to_text(sent_at)}


def test_a_time_of_sending_at_the_longest_delay_is_used() -> None:
    assert bounded_sent_at(NOON - MAX_DELAY, NOON) == NOON - MAX_DELAY


@given(instants)
def test_a_time_of_sending_is_used_only_within_the_longest_delay(sent_at: datetime) -> None:
    bounded = bounded_sent_at(sent_at, NOON)
    assert NOON - MAX_DELAY <= bounded <= NOON
    assert bounded in {sent_at, NOON}


def test_every_kind_of_observation_and_every_fault_of_a_snapshot_gets_a_time() -> None:
    snapshot = Snapshot("nvidia-smi-xml", {}, (fault(None),))
    clear = Clear("kernel-log", "xid.154", GPU, "over")
    found = assign_times([snapshot, clear, CounterSample("link-state", GPU, {"carrier": 1})], received_at=NOON)
    assert [one.observed_at for one in found] == [NOON, NOON, NOON]
    assert isinstance(found[0], Snapshot)
    assert found[0].present[0].observed_at == NOON


@given(claimed=st.none() | instants, sent_at=st.none() | instants)
def test_no_time_is_later_than_the_receipt_or_than_claimed_by_a_clock_that_was_set(
    claimed: datetime | None, sent_at: datetime | None
) -> None:
    at = with_time(claimed, sent_at=sent_at).observed_at
    assert at is not None
    assert at <= NOON
    unset = claimed is not None and (claimed < EARLIEST or (sent_at is not None and sent_at < NOON - MAX_DELAY))
    assert claimed is None or at <= claimed or unset


@given(claimed=st.none() | instants, sent_at=st.none() | instants)
def test_assigning_times_of_a_set_clock_twice_changes_nothing(
    claimed: datetime | None, sent_at: datetime | None
) -> None:
    assume(sent_at is None or sent_at >= NOON - MAX_DELAY)
    once = assign_times([fault(claimed)], received_at=NOON, sent_at=sent_at)
    assert assign_times(once, received_at=NOON, sent_at=sent_at) == once
