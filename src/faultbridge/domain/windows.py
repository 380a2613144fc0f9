"""Maintenance windows: a cron expression says when one opens, in its own time zone, a duration how long it lasts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
LONGEST = timedelta(days=7)
HORIZON = timedelta(days=400)

_MONTH_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAY_NAMES = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_MONTHS = {name: number for number, name in enumerate(_MONTH_NAMES, 1)}
_DAYS = {name: number for number, name in enumerate(_DAY_NAMES)}
_FIELDS: Sequence[tuple[str, int, int, Mapping[str, int]]] = (
    ("minute", 0, 59, {}),
    ("hour", 0, 23, {}),
    ("day of month", 1, 31, {}),
    ("month", 1, 12, _MONTHS),
    ("day of week", 0, 7, _DAYS),
)


@dataclass(frozen=True, slots=True)
class Window:
    """A time in which repairs may begin: `cron` has the five usual fields, `zone` is an IANA name."""

    cron: str
    duration: timedelta
    zone: str = "UTC"

    def is_open(self, now: datetime) -> bool:
        """Tell whether the window opened less than its duration ago."""
        cron, zone = read_cron(self.cron), ZoneInfo(self.zone)
        minute = now.replace(second=0, microsecond=0)
        while minute > now - self.duration:
            if cron.fires(minute.astimezone(zone)):
                return True
            minute -= MINUTE
        return False

    def next_opening(self, now: datetime) -> datetime | None:
        """Return when it opens next, or None when it does not within 400 days."""
        cron, zone = read_cron(self.cron), ZoneInfo(self.zone)
        at, end = now.replace(second=0, microsecond=0) + MINUTE, now + HORIZON
        while at < end:
            local = at.astimezone(zone)
            if cron.fires(local):
                return at
            # No hour is skipped that a change to or from daylight saving time could shorten.
            at += MINUTE if cron.fires_on(local) else HOUR - timedelta(minutes=local.minute)
        return None


@dataclass(frozen=True, slots=True)
class Cron:
    """The values of each field; a day counts when either of its two fields names it, if both are given."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either: bool

    def fires_on(self, local: datetime) -> bool:
        """Tell whether it fires at all on the day of a local time."""
        if local.month not in self.months:
            return False
        by_date, by_weekday = local.day in self.days, local.isoweekday() % 7 in self.weekdays
        return by_date or by_weekday if self.either else by_date and by_weekday

    def fires(self, local: datetime) -> bool:
        """Tell whether it fires in the minute of a local time."""
        return local.minute in self.minutes and local.hour in self.hours and self.fires_on(local)


@lru_cache(maxsize=64)
def read_cron(text: str) -> Cron:
    """Read the five fields minute, hour, day of month, month, day of week; ValueError names the wrong one."""
    parts = text.lower().split()
    if len(parts) != len(_FIELDS):
        raise ValueError("five fields are expected: minute, hour, day of month, month, day of week")
    minutes, hours, days, months, weekdays = (_values(part, *named) for part, named in zip(parts, _FIELDS, strict=True))
    either = not parts[2].startswith("*") and not parts[4].startswith("*")
    return Cron(minutes, hours, days, months, frozenset(day % 7 for day in weekdays), either)


def _values(part: str, name: str, low: int, high: int, names: Mapping[str, int]) -> frozenset[int]:
    found: set[int] = set()
    for one in part.split(","):
        span, _, step = one.partition("/")
        first, _, last = span.partition("-")
        try:
            start = low if first == "*" else names[first] if first in names else int(first)
            end = high if first == "*" or (step and not last) else names[last] if last in names else int(last or start)
            wide = range(start, end + 1, int(step or 1))
        except ValueError:
            raise ValueError(f"{one!r} is no {name}") from None
        if not wide or start < low or end > high:
            raise ValueError(f"{one!r} is no {name} ({low} to {high})")
        found.update(wide)
    return frozenset(found)
