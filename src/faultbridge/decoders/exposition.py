"""The text format that Prometheus exporters write: one sample a line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from faultbridge.domain.times import from_milliseconds

# Spaces are bounded: two unbounded runs side by side would make a long line of them take hours.
_SAMPLE = re.compile(
    r"([a-zA-Z_:][a-zA-Z0-9_:]{0,200})[ \t]{0,8}(?:\{(.*)\})?[ \t]{1,8}(\S{1,40})(?:[ \t]{1,8}(-?\d{1,15}))?$"
)
_LABEL = re.compile(r'[ \t,]{0,8}([a-zA-Z_][a-zA-Z0-9_]{0,100})[ \t]{0,8}=[ \t]{0,8}"([^"\\]*(?:\\.[^"\\]*)*)"')
_ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}
_ESCAPE = re.compile(r'\\[\\"n]')
# DCGM's own blanks, which old exporters pass on as numbers.
_BLANKS = range(9223372036854775792, 9223372036854775808)


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of one series; `value` is None where it is not a number or stands for `not supported`."""

    name: str
    labels: Mapping[str, str]
    value: int | float | None
    at: datetime | None = None

    def label(self, *names: str) -> str | None:
        """Return the first of several spellings of a label."""
        return next((self.labels[name] for name in names if self.labels.get(name)), None)


def samples(text: str, prefixes: tuple[str, ...]) -> Iterator[Sample]:
    """Yield the samples whose names begin with one of the prefixes; lines that are no exposition are passed over."""
    for line in text.split("\n"):
        if not line.startswith(prefixes):
            continue
        found = _SAMPLE.match(line.rstrip())
        if found is not None:
            name, labels, value, milliseconds = found.groups()
            yield Sample(name, _labels(labels or ""), _number(value), _instant(milliseconds))


def _labels(text: str) -> dict[str, str]:
    labels: dict[str, str] = {}
    place = 0
    while (found := _LABEL.match(text, place)) is not None:
        labels[found[1]] = _ESCAPE.sub(lambda escape: _ESCAPES[escape[0]], found[2])
        place = found.end()
    return labels


def _number(text: str) -> int | float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    if number != number or number in {float("inf"), float("-inf")}:  # noqa: PLR0124 - only NaN differs from itself
        return None
    whole = int(text) if text.lstrip("-").isdigit() and text.isascii() else int(number)
    if whole in _BLANKS or whole >= _BLANKS.stop:
        return None
    return whole if whole == number else number


def _instant(milliseconds: str | None) -> datetime | None:
    try:
        return from_milliseconds(int(milliseconds)) if milliseconds else None
    except OverflowError:
        return None
