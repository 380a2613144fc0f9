"""Signals: facts about a job from its logs and dumps, its nodes and Faultbridge's records."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from fnmatch import fnmatchcase

from faultbridge.domain.faults import Component


class Role(StrEnum):
    """The role of a signal in a failure: first sign, consequence, end of the job, or none of these."""

    INITIATING = "initiating"
    CASCADE = "cascade"
    TEARDOWN = "teardown"
    CONTEXT = "context"


class Trust(StrEnum):
    """What reported a signal: a source of the node itself, a Flight Recorder dump, or the job."""

    NODE = "node"
    DUMP = "dump"
    JOB = "job"


@dataclass(frozen=True, slots=True)
class Signal:
    """One fact about a job, with the file and the line that state it.

    - `kind` generalizes the name of a fault, such as `fault.gpu.fatal`. `device` is the GPU that has the fault, if any.
    - `count` is the number of equal signals in the same ten-minute interval. Only the first of them is kept. `last_at`
      and `last_line` are the time and the line of the last of them.
    - `said` is the text of the line from the start of the pattern's match, with 0 for each number. Ranks whose signals
      have the same name and `said` report the same error.
    - `handled` states how the process continued after the error, such as `retried`. It is empty if the log does not
      show that the process continued.
    - `is_chained` is True if the error was raised while another error was handled.
    """

    name: str
    role: Role
    trust: Trust
    file: str
    line: int | None
    text: str
    at: datetime | None = None
    node: str | None = None
    rank: int | None = None
    kind: str = ""
    count: int = 1
    device: Component | None = None
    said: str = ""
    handled: str = ""
    last_at: datetime | None = None
    last_line: int | None = None
    is_chained: bool = False

    def matches(self, glob: str) -> bool:
        """Return whether a name pattern such as `xid.79` or `nccl.*` matches the name or kind of the signal."""
        return fnmatchcase(self.name, glob) or (self.kind != "" and fnmatchcase(self.kind, glob))


@dataclass(frozen=True, slots=True)
class LogSpan:
    """The node, the times and the lines that one log file, or one range of recorded entries, covers.

    - `progress_at` and `progress_line` are the time and line at which the job last made progress.
    - `steps_at` and `steps_line` are the time and line of the second to last training step. They help to decide
      whether the job continued after an error.
    - `first_step_line` is the line of the first training step that was found.
    - `steps` is the largest number of training steps that one series of increasing step numbers in the log proves.
    """

    file: str
    trust: Trust
    source: str
    node: str | None = None
    first_at: datetime | None = None
    last_at: datetime | None = None
    progress_at: datetime | None = None
    progress_line: int | None = None
    lines: int = 0
    steps_at: datetime | None = None
    steps_line: int | None = None
    first_step_line: int | None = None
    steps: int = 0
