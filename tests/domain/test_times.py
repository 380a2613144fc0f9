"""Times: parsing and formatting of timestamps."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from faultbridge.model.times import earliest, from_milliseconds, from_text, latest, to_milliseconds, to_text, truncate


def test_a_time_with_an_offset_is_converted_to_utc() -> None:
    assert from_text("2026-02-03T05:05:06+01:00") == datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC)


@pytest.mark.parametrize("text", ["", "yesterday", "2026-02-03T04:05:06", "0001-01-01T00:00:00+14:00"])
def test_an_invalid_time_raises_value_error(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the caller writes its own text
        from_text(text)


def test_a_fraction_is_cut_to_milliseconds() -> None:
    assert to_text(datetime(2026, 2, 3, 4, 5, 6, 999_999, tzinfo=UTC)) == "2026-02-03T04:05:06.999Z"


def test_a_time_of_another_zone_is_written_in_utc() -> None:
    berlin = timezone(timedelta(hours=1))
    assert to_text(datetime(2026, 2, 3, 5, 5, 6, tzinfo=berlin)) == "2026-02-03T04:05:06.000Z"


def test_a_timestamp_in_milliseconds_is_the_same_time() -> None:
    at = datetime(2026, 2, 3, 4, 5, 6, 789_000, tzinfo=UTC)
    assert from_milliseconds(to_milliseconds(at)) == at
    assert to_milliseconds(datetime(1970, 1, 1, 0, 0, 1, 2_999, tzinfo=UTC)) == 1_002


@pytest.mark.parametrize(("microsecond", "stored"), [(0, 0), (999, 0), (1_000, 1_000), (1_999, 1_000)])
def test_a_time_is_stored_in_whole_milliseconds(microsecond: int, stored: int) -> None:
    at = datetime(2026, 2, 3, 4, 5, 6, microsecond, tzinfo=UTC)
    assert truncate(at) == at.replace(microsecond=stored)


def test_the_earliest_and_the_latest_time_leave_unknown_ones_out() -> None:
    first, last = (datetime(2026, 2, day, tzinfo=UTC) for day in (3, 4))
    assert (earliest(None, last, first), latest(last, None, first)) == (first, last)
    assert earliest(None) is latest() is None
