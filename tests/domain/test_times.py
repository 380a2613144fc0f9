"""Times: parsing and formatting of timestamps."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from faultbridge.domain.times import from_text, to_text


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
