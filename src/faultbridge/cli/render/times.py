"""Parse the times in command options, and format stored times."""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime, timedelta, tzinfo

from faultbridge.cli.declare import BadParameter
from faultbridge.model.times import from_text, to_text

PAST_HELP = "RFC 3339, or an age such as 90s, 30m, 2h, 7d."
FUTURE_HELP = "RFC 3339, or a duration from now such as 30m, 2h, 7d"
_DURATION = re.compile(r"(\d{1,6})([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def parse_time(text: str | None, now: datetime, option: str = "--since") -> datetime | None:
    """Return the time of an RFC 3339 text or of an age such as `2h`; None stays None.

    A text without a zone is local time on a terminal, where times are printed so, else UTC.
    """
    if text is None:
        return None
    past = parse_age(text, now)
    return _limited(past if past is not None else _absolute_time(text, PAST_HELP), text, option)


def _limited(at: datetime, text: str, option: str) -> datetime:
    from faultbridge.serve.api.requests import EARLIEST, LATEST

    if not EARLIEST <= at < LATEST:
        allowed = f"times of the years {EARLIEST.year} to {LATEST.year - 1}"
        raise BadParameter(f"invalid {option}: {text!r}; allowed: {allowed}")
    return at


def parse_future_time(text: str | None, now: datetime, option: str = "--until") -> datetime | None:
    """Return the time of an option, an RFC 3339 text or a duration from now; it must be in the future."""
    if text is None:
        return None
    past = parse_age(text, now)
    at = now + (now - past) if past is not None else _absolute_time(text, FUTURE_HELP)
    if at <= now:
        raise BadParameter(f"not a future time: {text!r}; {FUTURE_HELP}")
    return _limited(at, text, option)


def parse_received_at(text: str | None, now: datetime) -> datetime:
    """Return the time of `--received-at`, else `now`; a time without a zone is ambiguous, so refused."""
    if text is None:
        return now
    from faultbridge.serve.api.requests import LATEST

    try:
        at = parse_age(text, now) or from_text(text)
    except ValueError as error:
        raise BadParameter(f"not a time with a zone: --received-at {text!r}; {PAST_HELP}") from error
    if at >= LATEST:
        raise BadParameter(f"invalid --received-at: {text!r}; allowed: times before the year {LATEST.year}")
    return at


def _absolute_time(text: str, allowed: str) -> datetime:
    try:
        at = datetime.fromisoformat(text)
        return from_text(text) if at.tzinfo else at.astimezone(UTC) if sys.stdout.isatty() else at.replace(tzinfo=UTC)
    except ValueError:
        raise BadParameter(f"not a time: {text!r}; {allowed}") from None


def parse_age(text: str, now: datetime) -> datetime | None:
    """Return `now` minus an age such as `2h`, or None if the text is not an age."""
    found = _DURATION.fullmatch(text.strip())
    try:
        return now - timedelta(**{_UNITS[found[2]]: int(found[1])}) if found else None
    except OverflowError:
        raise BadParameter(f"age too long: {text!r}; allowed: such as 90s, 30m, 2h, 7d") from None


def short_time(at: datetime | str | None) -> str:
    """Return a time in the form `2026-02-03 04:05:06`, local on a terminal, else in UTC; empty for None."""
    if not at:
        return ""
    known = from_text(at) if isinstance(at, str) else at
    return f"{known.astimezone(_zone()):%Y-%m-%d %H:%M:%S}"


def stated_time(at: datetime | str | None) -> str:
    """Return a time as `short_time` does, with the name of its zone."""
    return f"{short_time(at)} {zone_name(at)}" if at else ""


def zone_name(at: datetime | str | None = None) -> str:
    """Return the name of the zone in which times are printed, now or at a time."""
    known = from_text(at) if isinstance(at, str) else at or datetime.now(UTC)
    return known.astimezone(_zone()).tzname() or "local"


def _zone() -> tzinfo | None:
    return None if sys.stdout.isatty() else UTC


def applies_text(applies_at: datetime) -> str:
    """Return a text that states from when a change of settings applies."""
    return f"to every fault from {stated_time(applies_at)} on"


def json_time(at: datetime | None) -> str | None:
    """Return a time as RFC 3339 text for JSON; None stays None."""
    return to_text(at) if at else None
