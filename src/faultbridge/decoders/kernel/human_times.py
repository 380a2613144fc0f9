"""The times of `dmesg -H`: a line with its minute, then lines of that minute with the seconds since the line before."""

from __future__ import annotations

import re

_STAMP = re.compile(rb"^(?:(\[[A-Z][a-z]{2} {1,2}\d{1,2} \d\d:\d\d\])|\[ {1,8}\+\d{1,10}\.\d{1,9}\])", re.MULTILINE)


class MinuteCarrier:
    """Replaces the seconds since the line before by the last minute printed; `dmesg -H` prints each new minute."""

    def __init__(self) -> None:
        """Start without a minute."""
        self._minute = b""

    def carried(self, text: bytes) -> bytes:
        """Return a piece of a log with a minute in place of the seconds since the line before."""
        return _STAMP.sub(self._replaced, text)

    def _replaced(self, stamp: re.Match[bytes]) -> bytes:
        self._minute = stamp[1] or self._minute
        return self._minute or stamp[0]
