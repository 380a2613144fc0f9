"""Completes the times that `dmesg -H` prints.

`dmesg -H` prints date and minute only on the first line of each minute. Any other line has the seconds since the line
before it.
"""

from __future__ import annotations

import re

_STAMP = re.compile(rb"^(?:(\[[A-Z][a-z]{2} {1,2}\d{1,2} \d\d:\d\d\])|\[ {1,8}\+\d{1,10}\.\d{1,9}\])", re.MULTILINE)


class MinuteCarrier:
    """Replaces each relative time that `dmesg -H` prints with the date and minute printed before it."""

    def __init__(self) -> None:
        self._minute = b""

    def carried(self, text: bytes) -> bytes:
        """Return the next piece of a log, with each relative time replaced by the last printed minute.

        Relative times before the first printed minute are not replaced.
        """
        return _STAMP.sub(self._replaced, text)

    def _replaced(self, stamp: re.Match[bytes]) -> bytes:
        self._minute = stamp[1] or self._minute
        return self._minute or stamp[0]
