"""Finds the crash dumps of an earlier boot, which pstore kept, in a kernel log.

Grammar: a first line `Panic#1 Part1`, then lines `<LEVEL>[UPTIME] TEXT`. The dump ends at a heading `==> FILE <==`, at
the end of the log, or at a line without a level if the other lines of the dump have one. Times and units: none. Errors:
none. Source: Linux's fs/pstore/platform.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TypeVar

from faultbridge.dataclass import dataclass
from faultbridge.decoders.common.lazy_pattern import lazy_pattern
from faultbridge.domain.copies import replace
from faultbridge.domain.faults import Action, Clear, Fault, Severity

_Observation = TypeVar("_Observation", Fault, Clear, Fault | Clear)
_START = rb"(?:Panic|Oops|Emergency|Restart|Halt|Poweroff|Shutdown)#\d{1,6} Part\d{1,6}\b"
_HEAD = lazy_pattern(rb"^[ \t\r]{0,16}" + _START + rb"[^\n]*", re.MULTILINE)
_LEVEL = lazy_pattern(rb"\s{0,16}<\d{1,3}>")
_END = lazy_pattern(rb"^==> [^\n]{1,512} <==", re.MULTILINE)
_END_OF_LEVELS = lazy_pattern(rb"^(?=\S)(?!<\d{1,3}>|" + _START + rb")", re.MULTILINE)


@dataclass(slots=True)
class DumpSplitter:
    """Splits one log, read in pieces, into crash dumps and other text.

    A dump can continue in the next piece.
    """

    _end: re.Pattern[bytes] | None = None

    def parts(self, text: bytes) -> Iterator[tuple[bytes, bool]]:
        """Yield the parts of the next piece of the log in order, each with True if it belongs to a crash dump."""
        position = 0
        while position < len(text):
            search_from = position
            if self._end is None:
                # Most logs have no dump: the search for a fixed text is faster than that of the pattern.
                head = _HEAD.search(text, position) if b" Part" in text else None
                if head is None:
                    yield text[position:], False
                    return
                if head.start() > position:
                    yield text[position : head.start()], False
                self._end = _END_OF_LEVELS if _LEVEL.match(text, head.end()) else _END
                position, search_from = head.start(), head.end()
            end = self._end.search(text, search_from)
            stop = end.start() if end else len(text)
            if end is not None:
                self._end = None
            if stop > position:
                yield text[position:stop], True
            position = stop


def of_previous_boot(observation: _Observation) -> _Observation:
    """Mark a fault as a fault of an earlier boot. A clear is returned unchanged.

    A fault without a time is only recorded: it gets severity `info` and no action.
    """
    if not isinstance(observation, Fault):
        return observation
    earlier = replace(observation, attributes={**observation.attributes, "boot": "previous"})
    return earlier if earlier.observed_at else replace(earlier, severity=Severity.INFO, action=Action.NONE)
