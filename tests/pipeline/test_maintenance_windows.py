"""Maintenance windows: when repairs may start, in the window's time zone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultbridge.decide.admit import check_cron, is_open
from faultbridge.model.policy import Window

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
