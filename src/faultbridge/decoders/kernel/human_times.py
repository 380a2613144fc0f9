"""Completes the times that `dmesg -H` prints.

`dmesg -H` prints the full minute only on the first line of that minute. The other lines have the seconds since the line
before.
"""

from __future__ import annotations

import re

_STAMP = re.compile(rb"^(?:(\[[A-Z][a-z]{2} {1,2}\d{1,2} \d\d:\d\d\])|\[ {1,8}\+\d{1,10}\.\d{1,9}\])", re.MULTILINE)


class MinuteCarrier:
    """Replaces the relative times that `dmesg -H` prints with the last full minute printed before them."""

    def __init__(self) -> None:
        """Start without a minute. Relative times before the first minute are not replaced."""
        self._minute = b""

    def carried(self, text: bytes) -> bytes:
        """Return the next piece of a log, with each relative time replaced by the last printed minute."""
        return _STAMP.sub(self._replaced, text)

    def _replaced(self, stamp: re.Match[bytes]) -> bytes:
        self._minute = stamp[1] or self._minute
        return self._minute or stamp[0]
