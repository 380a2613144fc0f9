"""A log line without its frame, and the facts that the frame states about it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime

_INSTANCE = re.compile(r"(?:^|[/_])(i-[0-9a-f]{8,17})$")
MAX_DEPTH = 3
"""Maximum number of wrappers that are removed around one line."""


@dataclass(frozen=True, slots=True)
class Line:
    """A log line or message, and what a collector, runtime or log store recorded with it.

    `at_of_store` is True if time and node are those of the log store: those in the line itself are better. `uptime` is
    the time in seconds since boot. `program` is the name of the program that wrote the line. For a journal entry
    without a name, it is the transport, such as `kernel` or `stdout`. It is None if the frame names neither.
    `by_kernel` is True if the kernel wrote the line. `by_service` is True if a program wrote the line through the
    interface of the journal.
    `is_proven` is True if a field that no program can set shows this: the transport of the kernel, or the unit of an
    NVIDIA service.
    """

    text: str
    at: datetime | None = None
    node: str | None = None
    at_of_store: bool = False
    boot_id: str | None = None
    uptime: str | None = None
    program: str | None = None
    by_kernel: bool = False
    by_service: bool = False
    is_proven: bool = False

    def within(self, outer: Line) -> Line:
        """Return this line with the time, node and writer that `outer`, the frame around it, states for it."""
        if outer.at is None and outer.node is None and outer.program is None:
            return self
        writer = outer if self.program is None and outer.program is not None else self
        at, is_of_store = (self.at, self.at_of_store) if self.at else (outer.at, outer.at_of_store)
        return replace(writer, text=self.text, at=at, node=self.node or outer.node, at_of_store=is_of_store)


Item = str | Line
"""A line of a log: text without a frame, or the line that a frame contains."""


def lines_in(text: object, at: datetime | None = None, node: str | None = None) -> Iterator[Line]:
    """Yield the lines of a text that are not blank, all with the same time and node; nothing for another value."""
    for line in text.split("\n") if isinstance(text, str) else ():
        if line.strip():
            yield Line(line.rstrip("\r"), at, node)


def instance_of(stream: object) -> str | None:
    """Return the instance id at the end of the name of a log stream, or None if the name has none."""
    found = _INSTANCE.search(str(stream or ""))
    return found and found[1]
