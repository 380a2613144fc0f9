"""Times as people give them: RFC 3339, or how long ago."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import typer

from faultbridge.domain.times import from_text, to_text

HELP = "RFC 3339, or how long ago: 90s, 30m, 2h, 7d."
COMING = "RFC 3339, or in how long: 30m, 2h, 7d"
_AGO = re.compile(r"(\d{1,6})([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def instant(text: str | None, now: datetime) -> datetime | None:
    """Read a time that a person gave; None stays None, nonsense is wrong usage."""
    if text is None:
        return None
    past = ago(text, now)
    if past is not None:
        return past
    try:
        at = datetime.fromisoformat(text)
        return from_text(text) if at.tzinfo else at.replace(tzinfo=UTC)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no time ({HELP})") from None


def coming(text: str | None, now: datetime) -> datetime | None:
    """Read a time to come that a person gave; None stays None, nonsense and the past are wrong usage."""
    if text is None:
        return None
    past = ago(text, now)
    at = now + (now - past) if past is not None else instant(text, now)
    if at is None or at <= now:
        raise typer.BadParameter(f"{text!r} is no time to come ({COMING})")
    return at


def ago(text: str, now: datetime) -> datetime | None:
    """Read how long ago something was; None where the text is no duration."""
    found = _AGO.fullmatch(text.strip())
    return now - timedelta(**{_UNITS[found[2]]: int(found[1])}) if found else None


def short(text: str | None) -> str:
    """Show a stored instant to a person: to the second, with a blank; it is UTC."""
    return "" if not text else text[:19].replace("T", " ")


def text_of(at: datetime | None) -> str | None:
    """Render an instant for JSON."""
    return to_text(at) if at else None
