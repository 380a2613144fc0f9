"""The journal of one run: a readable timeline, and a digest to compare two runs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from msgspec import Struct

from faultbridge.record.ports.table import Clock


class Kind(StrEnum):
    """The kind of a journal line: scheduled step, external action, fault, entry, port call, or note."""

    STEP = "step"
    ACTION = "act"
    FAULT = "fault"
    ENTRY = "entry"
    CALL = "call"
    NOTE = "note"


STORY_KINDS = frozenset({Kind.ACTION, Kind.FAULT, Kind.ENTRY, Kind.CALL, Kind.NOTE})


class Line(Struct, frozen=True):
    """One journal line: milliseconds since the start of the run, kind and text."""

    at: int
    kind: Kind
    text: str


@dataclass(slots=True)
class Journal:
    """Collects the journal lines and the invariant violations of a run.

    Two runs of the same seed with the same actions and faults have equal journals.
    """

    clock: Clock
    start: datetime
    lines: list[Line] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)

    def add(self, kind: Kind, text: str) -> None:
        """Add a line of this kind with the current simulated time."""
        self.lines.append(Line((self.clock.now() - self.start) // timedelta(milliseconds=1), kind, text))

    def add_violation(self, invariant: str, text: str) -> None:
        """Record a violation of an invariant, and add it to the timeline."""
        self.violations.append(f"{invariant}: {text}")
        self.add(Kind.NOTE, f"BROKEN {invariant}: {text}")

    def digest(self) -> str:
        """Return a SHA-256 hash of all lines; equal runs have equal digests."""
        hashed = hashlib.sha256()
        for line in self.lines:
            hashed.update(f"{line.at} {line.kind} {line.text}\n".encode())
        return hashed.hexdigest()

    def story(self) -> Iterator[str]:
        """Yield the timeline as readable lines of text, without the scheduled steps."""
        for line in self.lines:
            if line.kind in STORY_KINDS:
                yield f"{_elapsed(line.at)}  {line.kind.value:<5}  {line.text}"


def _elapsed(milliseconds: int) -> str:
    seconds, rest = divmod(milliseconds, 1000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"{days}d {hours:02d}:{minutes:02d}:{seconds:02d}.{rest:03d}"
