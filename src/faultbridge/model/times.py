"""Timestamps as text: RFC 3339 in UTC with milliseconds and `Z`, so that texts sort by time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
REMEMBERED = 4096
"""How many conversions are remembered in each direction: a state contains the same times again and again."""


@lru_cache(REMEMBERED)
def to_text(instant: datetime) -> str:
    """Return a time with a zone as `2026-02-03T04:05:06.000Z`; digits below a millisecond are cut off."""
    if instant.tzinfo is not UTC:
        instant = instant.astimezone(UTC)
    return instant.isoformat(timespec="milliseconds")[:-6] + "Z"


@lru_cache(REMEMBERED)
def from_text(text: str) -> datetime:
    """Parse an ISO 8601 time, such as `2026-02-03T04:05:06Z`, and return it in UTC.

    Raises ValueError for any other text, for a time without an offset, and outside of the years 1 to 9999 in UTC.
    """
    instant = datetime.fromisoformat(text)
    if instant.tzinfo is None:
        message = f"the time zone is missing: {text!r}; example: 2026-02-03T04:05:06Z"
        raise ValueError(message)
    try:
        return instant.astimezone(UTC)
    except OverflowError as error:
        raise ValueError(f"the time is out of range: {text!r}; allowed: years 1 to 9999 in UTC") from error


def from_milliseconds(milliseconds: int) -> datetime:
    """Return the time of a Unix timestamp in milliseconds, the unit of SQS timestamps."""
    return EPOCH + timedelta(milliseconds=milliseconds)


def to_milliseconds(instant: datetime) -> int:
    """Return a time as a Unix timestamp in whole milliseconds."""
    return (instant - EPOCH) // timedelta(milliseconds=1)


def truncate(instant: datetime) -> datetime:
    """Return a time cut to whole milliseconds, the precision of stored times."""
    rest = instant.microsecond % 1000
    return instant.replace(microsecond=instant.microsecond - rest) if rest else instant


def earliest(*instants: datetime | None) -> datetime | None:
    """Return the earliest of these times. None values are ignored; the result is None if all are None."""
    return min((instant for instant in instants if instant is not None), default=None)


def latest(*instants: datetime | None) -> datetime | None:
    """Return the latest of these times. None values are ignored; the result is None if all are None."""
    return max((instant for instant in instants if instant is not None), default=None)
