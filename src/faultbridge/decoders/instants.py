"""Times as JSON carries them: with a zone and nanoseconds, in seconds or milliseconds, RFC 1123, zero, or null."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from itertools import pairwise

from faultbridge.decoders.clock import iso_time

_RFC_1123 = re.compile(r"(?:\w{3}, )?\d{1,2} \w{3} \d{4} \d\d:\d\d:\d\d (?:GMT|UTC|[+-]\d{4})")
# Seconds, milliseconds, microseconds and nanoseconds between 1973 and 5138: no two overlap.
_UNITS = tuple(pairwise((10**8, 10**11, 10**14, 10**17, 10**20)))
_FIRST_YEAR = 1970


def instant(value: object) -> datetime | None:
    """Read a time in any of the shapes that JSON sources use, or None where it is none or says `not yet`."""
    if isinstance(value, str):
        return _of_text(value.strip())
    if isinstance(value, Mapping):
        return _of_protobuf(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _of_number(value)
    return None


def _of_text(text: str) -> datetime | None:
    if _RFC_1123.fullmatch(text):
        try:
            return parsedate_to_datetime(text).astimezone(UTC)
        except (ValueError, OverflowError, TypeError):
            return None
    if text.isascii() and text.isdigit() and len(text) <= 20:  # noqa: PLR2004 - as many digits as nanoseconds have
        return _of_number(int(text))
    found = iso_time(text.replace(" ", "T", 1) if text[10:11] == " " else text)
    # The year 1 is how Go writes that there is no time.
    return found if found is not None and found.year >= _FIRST_YEAR else None


def _of_protobuf(value: Mapping[object, object]) -> datetime | None:
    seconds, nanos = value.get("seconds"), value.get("nanos", 0)
    if isinstance(seconds, str) and seconds.isascii() and seconds.isdigit() and len(seconds) <= 12:  # noqa: PLR2004 - seconds
        seconds = int(seconds)
    if isinstance(seconds, bool) or not isinstance(seconds, int):
        return None
    fraction = nanos if isinstance(nanos, int) and 0 <= nanos < 10**9 else 0
    return _of_nanoseconds(seconds * 10**9 + fraction)


def _of_number(value: float) -> datetime | None:
    for power, (low, high) in zip((9, 6, 3, 0), _UNITS, strict=True):
        if low <= value < high:
            return _of_nanoseconds(int(value * 10**power))
    return None


def _of_nanoseconds(nanoseconds: int) -> datetime | None:
    try:
        return datetime.fromtimestamp(nanoseconds // 10**9, UTC).replace(microsecond=nanoseconds // 1000 % 10**6)
    except (ValueError, OverflowError, OSError):
        return None
