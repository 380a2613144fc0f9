"""The journal of one history: what happened when, for people to read and for machines to compare."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from faultbridge.ports import Clock


class Kind(StrEnum):
    """What a line of the journal is about."""

    TURN = "turn"
    ACT = "act"
    FAULT = "fault"
    ENTRY = "entry"
    CALL = "call"
    NOTE = "note"


STORY = frozenset({Kind.ACT, Kind.FAULT, Kind.ENTRY, Kind.CALL, Kind.NOTE})


@dataclass(frozen=True, slots=True)
class Line:
    """One line: milliseconds since the beginning, its kind and its text."""

    at: int
    kind: Kind
    text: str


@dataclass(slots=True)
class Journal:
    """Collects lines and problems; two runs of one seed have equal journals."""

    clock: Clock
    start: datetime
    lines: list[Line] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def note(self, kind: Kind, text: str) -> None:
        """Add a line, now."""
        self.lines.append(Line((self.clock.now() - self.start) // timedelta(milliseconds=1), kind, text))

    def problem(self, invariant: str, text: str) -> None:
        """Note that an invariant was broken while the history ran."""
        self.problems.append(f"{invariant}: {text}")
        self.note(Kind.NOTE, f"BROKEN {invariant}: {text}")

    def digest(self) -> str:
        """Return a hash over every line, equal for equal histories."""
        hashed = hashlib.sha256()
        for line in self.lines:
            hashed.update(f"{line.at} {line.kind} {line.text}\n".encode())
        return hashed.hexdigest()

    def story(self) -> Iterator[str]:
        """Tell the history as a timeline, the mere turns of handlers left out."""
        for line in self.lines:
            if line.kind in STORY:
                yield f"{_elapsed(line.at)}  {line.kind.value:<5}  {line.text}"


def _elapsed(milliseconds: int) -> str:
    seconds, rest = divmod(milliseconds, 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"{days}d {hours:02d}:{minutes:02d}:{seconds:02d}.{rest:03d}"
