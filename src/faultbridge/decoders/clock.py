"""Times as logs print them: with a comma, without a year, without a zone; never altered, only read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

_NAMES = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
MONTHS: Mapping[str, int] = {name: number for number, name in enumerate(_NAMES, 1)}
_ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?")


def iso_time(text: str) -> datetime | None:
    """Read an ISO time with a point or a comma and 1 to 9 fraction digits; without a zone it is taken as UTC."""
    return iso_instant(text) if _ISO.fullmatch(text) is not None else None


def iso_instant(text: str) -> datetime | None:
    """Read what is known to have the form of an ISO time; None where no calendar has such a time."""
    try:
        instant = datetime.fromisoformat(text)
        return instant.replace(tzinfo=UTC) if instant.tzinfo is None else instant.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def calendar_time(month: str, day: str, clock: str, year: str) -> datetime | None:
    """Read the parts of `Oct 10 03:06:53 2024`, which name no zone, as UTC."""
    return _built(int(year), month, day, clock)


def yearless_time(month: str, day: str, clock: str, received_at: datetime | None) -> datetime | None:
    """Read the parts of `Oct 16 20:47:19` as UTC in the last year that does not put it a day after receipt."""
    if received_at is None:
        return None
    this = _built(received_at.year, month, day, clock)
    if this is not None and this <= received_at + timedelta(days=1):
        return this
    return _built(received_at.year - 1, month, day, clock)


def _built(year: int, month: str, day: str, clock: str) -> datetime | None:
    hour, minute, second = (int(part) for part in clock.split(":"))
    try:
        return datetime(year, MONTHS[month], int(day), hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None
