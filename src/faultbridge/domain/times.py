"""Instants as text: RFC 3339, UTC, milliseconds, `Z`; text order is time order."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_text(instant: datetime) -> str:
    """Render an aware instant as `2026-02-03T04:05:06.000Z`; finer fractions are cut, not rounded."""
    return instant.astimezone(UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


def from_text(text: str) -> datetime:
    """Read an RFC 3339 instant with any offset; raises ValueError when it has none, or is before year 1 in UTC."""
    instant = datetime.fromisoformat(text)
    if instant.tzinfo is None:
        message = f"{text!r} has no time zone"
        raise ValueError(message)
    try:
        return instant.astimezone(UTC)
    except OverflowError as error:
        raise ValueError(f"{text!r} lies outside of the calendar") from error


def from_milliseconds(milliseconds: int) -> datetime:
    """Read a Unix time in milliseconds, as SQS stamps messages."""
    return EPOCH + timedelta(milliseconds=milliseconds)


def to_milliseconds(instant: datetime) -> int:
    """Render an instant as Unix time in whole milliseconds."""
    return (instant - EPOCH) // timedelta(milliseconds=1)


def truncate(instant: datetime) -> datetime:
    """Cut an instant to whole milliseconds, the precision in which it can be stored and compared again."""
    return instant.replace(microsecond=instant.microsecond // 1000 * 1000)


def earliest(*instants: datetime | None) -> datetime | None:
    """Return the first of the instants that are there, or None."""
    return min((instant for instant in instants if instant is not None), default=None)


def latest(*instants: datetime | None) -> datetime | None:
    """Return the last of the instants that are there, or None."""
    return max((instant for instant in instants if instant is not None), default=None)
