"""Signals: what one line of a log, one decoded fault or one finding in the dumps states about a job."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from fnmatch import fnmatchcase

from faultbridge.domain.faults import Component


class Role(StrEnum):
    """The place of a signal in a failure: its first sign, its consequence, the end of the job, or none of these."""

    INITIATING = "initiating"
    CASCADE = "cascade"
    TEARDOWN = "teardown"
    CONTEXT = "context"


class Trust(StrEnum):
    """The source of a signal. Only the node's own sources are evidence of a fault of the node."""

    NODE = "node"
    DUMP = "dump"
    JOB = "job"


@dataclass(frozen=True, slots=True)
class Signal:
    """One signal with its file and line. `kind` generalizes a fault: `fault.gpu.fatal`; `device` is its GPU, if any.

    `count` is the number of equal signals in ten minutes, of which this is the first; `last_at` and `last_line`
    are the time and the line of the last one. `said` is the start of the known text of a line without its numbers: it
    shows whether several ranks report the same error. `handled` states how the process of an error continued, such as
    `retried`; empty if the log does not show that it did. `is_chained` states that an error was raised while another
    one was handled.
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
        """Return whether a name such as `xid.79` or `nccl.*` covers this signal."""
        return fnmatchcase(self.name, glob) or (self.kind != "" and fnmatchcase(self.kind, glob))


@dataclass(frozen=True, slots=True)
class LogSpan:
    """What one log file covers: how far its source is trusted, its node, and the times of its lines and of progress.

    `steps_at` and `steps_line` are the time and line of the last step but one: an error before that step ended no rank.
    `first_step_line` is the line of the first step found. `steps` is how many steps at least one attempt made.
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
