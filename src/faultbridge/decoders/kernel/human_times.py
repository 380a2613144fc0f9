"""Completes the times of `dmesg -H`.

It prints a line with a new minute in full, and on the following lines only the seconds since the previous line.
"""

from __future__ import annotations

import re

_STAMP = re.compile(rb"^(?:(\[[A-Z][a-z]{2} {1,2}\d{1,2} \d\d:\d\d\])|\[ {1,8}\+\d{1,10}\.\d{1,9}\])", re.MULTILINE)


class MinuteCarrier:
    """Replaces the relative times of `dmesg -H` by the last minute that was printed."""

    def __init__(self) -> None:
        """Start without a minute, so that relative times before the first minute stay as they are."""
        self._minute = b""

    def carried(self, text: bytes) -> bytes:
        """Return a piece of a log in which each relative time is replaced by the minute before it."""
        return _STAMP.sub(self._replaced, text)

    def _replaced(self, stamp: re.Match[bytes]) -> bytes:
        self._minute = stamp[1] or self._minute
        return self._minute or stamp[0]
