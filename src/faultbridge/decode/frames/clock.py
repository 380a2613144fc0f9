"""Reads timestamps of logs and JSON as UTC: ISO 8601, RFC 1123, syslog, epoch numbers, protobuf."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import pairwise

from faultbridge.decode.data import table

_NAMES = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
MONTHS: Mapping[str, int] = {name: number for number, name in enumerate(_NAMES, 1)}
_OTHER_NAMES: Mapping[str, int] = {name: int(one) for one, found in table("months")["names"].items() for name in found}
_ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?")


def month_name(text: str) -> str | None:
    """Return the English abbreviation of a month, such as `Mar` for `mars`; None for other text."""
    word = text.lower().rstrip(".")
    number = _OTHER_NAMES.get(word) or MONTHS.get(word.capitalize())
    return _NAMES[number - 1] if number else None


def iso_time(text: str) -> datetime | None:
    """Return the UTC time of a text such as `2026-02-03T04:05:06.123Z`, or None for other text."""
    return iso_instant(text) if _ISO.fullmatch(text) is not None else None


def iso_instant(text: str) -> datetime | None:
    """Return the UTC time of any text that `datetime.fromisoformat` reads, or None for other text."""
    try:
        instant = datetime.fromisoformat(text)
        zone = instant.tzinfo
        return instant if zone is UTC else instant.replace(tzinfo=UTC) if zone is None else instant.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def calendar_time(month: str, day: str, clock: str, year: str) -> datetime | None:
    """Return the time that a month, day, clock time and year state, such as `Oct 10 03:06:53 2024`."""
    return _utc_time(int(year), month, day, clock)


def yearless_time(month: str, day: str, clock: str, received_at: datetime | None) -> datetime | None:
    """Return the time that a month, day and clock time state, such as `Oct 16 20:47:19`, or None.

    The time is taken as UTC, because no time zone is given. Its year is the year of `received_at`, or the year before
    if the time would otherwise be more than a day after `received_at`. The result is None if `received_at` is None or
    there is no such date or time.
    """
    if received_at is None:
        return None
    this_year = _utc_time(received_at.year, month, day, clock)
    if this_year is not None and this_year <= received_at + timedelta(days=1):
        return this_year
    return _utc_time(received_at.year - 1, month, day, clock)


def _utc_time(year: int, month: str, day: str, clock: str) -> datetime | None:
    hour, minute, second = (int(part) for part in clock.split(":"))
    number = MONTHS.get(month) or _OTHER_NAMES.get(month.lower().rstrip("."), 0)
    try:
        return datetime(year, number, int(day), hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None


_RFC_1123 = re.compile(r"(?:\w{3}, )?\d{1,2} \w{3} \d{4} \d\d:\d\d:\d\d (?:GMT|UTC|[+-]\d{4})")
# Ranges of seconds, milliseconds, microseconds and nanoseconds from 1973 to 5138; they do not overlap.
_UNITS = tuple(pairwise((10**8, 10**11, 10**14, 10**17, 10**20)))
_FIRST_YEAR = 1970
REMEMBERED = 512
"""The number of texts whose time is cached."""


def instant(value: object) -> datetime | None:
    """Return the UTC time of a JSON value, or None if the value is not a time.

    The value may be a text, an epoch number (in seconds, milliseconds, microseconds or nanoseconds), or a protobuf
    object with `seconds` and `nanos`. A value that only means "not set", such as the year 1, also gives None.
    """
    if isinstance(value, str):
        return _from_text(value.strip())
    if isinstance(value, Mapping):
        return _from_protobuf(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _from_epoch(value)
    return None


@lru_cache(REMEMBERED)
def _from_text(text: str) -> datetime | None:
    # Cached: the conditions of a node have few different times, and are sent again with the same ones.
    if _RFC_1123.fullmatch(text):
        # email.utils loads sockets and URLs, which a kernel log does not need at a cold start.
        from email.utils import parsedate_to_datetime

        try:
            return parsedate_to_datetime(text).astimezone(UTC)
        except (ValueError, OverflowError, TypeError):
            return None
    if text.isascii() and text.isdigit() and len(text) <= 20:  # noqa: PLR2004 - the digits of an epoch in nanoseconds
        return _from_epoch(int(text))
    found = iso_time(text.replace(" ", "T", 1) if text[10:11] == " " else text)
    # Go writes the year 1 for a time that is not set.
    return found if found is not None and found.year >= _FIRST_YEAR else None


def _from_protobuf(value: Mapping[object, object]) -> datetime | None:
    seconds, nanos = value.get("seconds"), value.get("nanos", 0)
    if isinstance(seconds, str) and seconds.isascii() and seconds.isdigit() and len(seconds) <= 12:  # noqa: PLR2004 - seconds
        seconds = int(seconds)
    if isinstance(seconds, bool) or not isinstance(seconds, int):
        return None
    fraction = nanos if isinstance(nanos, int) and 0 <= nanos < 10**9 else 0
    return _from_nanoseconds(seconds * 10**9 + fraction)


def _from_epoch(value: float) -> datetime | None:
    for power, (low, high) in zip((9, 6, 3, 0), _UNITS, strict=True):
        if low <= value < high:
            return _from_nanoseconds(int(value * 10**power))
    return None


def _from_nanoseconds(nanoseconds: int) -> datetime | None:
    try:
        return datetime.fromtimestamp(nanoseconds // 10**9, UTC).replace(microsecond=nanoseconds // 1000 % 10**6)
    except (ValueError, OverflowError, OSError):
        return None
