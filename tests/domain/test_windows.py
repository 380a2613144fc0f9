"""Windows: when repairs may begin, in the time zone that people mean."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultbridge.domain.windows import Window, read_cron

HOUR = timedelta(hours=1)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("now", "is_open"),
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
def test_a_window_opens_by_the_clock_of_its_zone_in_summer_and_in_winter(now, is_open):
    window = Window("0 22 * * mon-fri", 4 * HOUR, "Europe/Berlin")
    assert window.is_open(at(now)) is is_open


def test_a_day_counts_when_either_of_its_two_fields_names_it():
    cron = read_cron("0 0 13 * fri")
    assert cron.fires_on(datetime(2026, 2, 13, tzinfo=UTC))
    assert cron.fires_on(datetime(2026, 2, 20, tzinfo=UTC))
    assert not cron.fires_on(datetime(2026, 2, 21, tzinfo=UTC))


WRONG = ("", "* * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "*/0 * * * *", "5-1 * * * *", "x * * * *")


@pytest.mark.parametrize("text", WRONG)
def test_what_is_no_cron_expression_is_refused(text):
    with pytest.raises(ValueError, match=r"is no|five fields"):
        read_cron(text)


def test_sunday_is_nought_and_seven():
    assert read_cron("* * * * 7").weekdays == read_cron("* * * * sun").weekdays == read_cron("* * * * 0").weekdays


def test_a_window_that_never_opens_says_so():
    assert Window("0 0 31 2 *", HOUR).next_opening(at("2026-01-01")) is None


@given(
    st.integers(0, 59),
    st.integers(0, 23),
    st.integers(0, 525_600).map(lambda minutes: at("2026-01-01") + timedelta(minutes=minutes)),
    st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata"]),
)
def test_the_next_opening_is_the_first_minute_in_which_it_opens(minute, hour, now, zone):
    window = Window(f"{minute} {hour} * * *", timedelta(minutes=1), zone)
    found = window.next_opening(now)
    assert found is not None
    assert now < found <= now + 49 * HOUR
    assert window.is_open(found)
    assert not window.is_open(found - timedelta(minutes=1))
