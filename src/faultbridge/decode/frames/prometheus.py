"""Reads the Prometheus text exposition format, one sample per line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from math import isfinite

from msgspec import Struct

from faultbridge.decode.frames.clock import instant

# Runs of spaces are bounded: two unbounded runs side by side would take hours on a long line.
_SAMPLE = re.compile(
    r"([a-zA-Z_:][a-zA-Z0-9_:]{0,200})[ \t]{0,8}(?:\{(.*)\})?[ \t]{1,8}(\S{1,40})(?:[ \t]{1,8}(-?\d{1,15}))?$"
)
_LABEL = re.compile(r'[ \t,]{0,8}([a-zA-Z_][a-zA-Z0-9_]{0,100})[ \t]{0,8}=[ \t]{0,8}"([^"\\]*(?:\\.[^"\\]*)*)"')
_ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}
_ESCAPE = re.compile(r'\\[\\"n]')
# DCGM's blank values, which old exporters print as numbers, start here.
_FIRST_BLANK = 9223372036854775792


class Sample(Struct, frozen=True):
    """One value of one metric series."""

    name: str
    labels: Mapping[str, str]
    value: int | float | None
    at: datetime | None = None

    def label(self, *names: str) -> str | None:
        """Return the value of the first label in `names` that is present and not empty, or None.

        Several names are accepted, because exporters name the same label differently.
        """
        return next(filter(None, map(self.labels.get, names)), None)


def samples(text: str, prefixes: tuple[str, ...]) -> Iterator[Sample]:
    """Yield the samples whose metric names start with one of `prefixes`. All other lines are skipped."""
    for line in text.split("\n"):
        if not line.startswith(prefixes):
            continue
        match = _SAMPLE.match(line.rstrip())
        if match is not None:
            name, labels, value, milliseconds = match.groups()
            yield Sample(name, _labels(labels or ""), number_of(value), instant(milliseconds))


def _labels(text: str) -> dict[str, str]:
    labels: dict[str, str] = {}
    position = 0
    while (match := _LABEL.match(text, position)) is not None:
        labels[match[1]] = _ESCAPE.sub(lambda escape: _ESCAPES[escape[0]], match[2])
        position = match.end()
    return labels


def number_of(text: str) -> int | float | None:
    """Return the value that a text prints; None if it is not a finite number, or is DCGM's blank value."""
    try:
        number = float(text)
    except ValueError:
        return None
    if not isfinite(number):
        return None
    whole = int(text) if text.lstrip("-").isdigit() and text.isascii() else int(number)
    if whole >= _FIRST_BLANK:
        return None
    return whole if whole == number else number
