"""Verdicts: why a job failed, as `faultbridge explain` prints it and as it is recorded for the job."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct, field

from faultbridge.model.event_data import JobDevice


class ShownSignal(Struct, frozen=True, kw_only=True):
    """One fact about a job, with the file and the line that state it."""

    name: str
    trust: str
    role: str
    at: datetime | None
    node: str | None
    rank: int | None
    file: str
    line: int | None
    text: str
    count: int


class ShownRank(Struct, frozen=True):
    """A rank that the logs of the job single out, with its node and the index of its GPU."""

    rank: int
    node: str | None
    gpu: int | None
    reason: str


class ShownAttempts(Struct, frozen=True):
    """The attempts of a job in its logs: how many, how many of the last ended alike, and how the last one ended."""

    count: int
    repeated: int
    step: float | None
    error: ShownSignal | None


class Hardware(Struct, frozen=True):
    """Whether the hardware is `blamed`, `acquitted` (ruled out) or `undetermined`, and whose logs were checked."""

    state: str
    checked: tuple[str, ...]
    not_checked: tuple[str, ...]


class ShownPoint(Struct, frozen=True):
    """One piece of evidence for or against a cause, with the name of its weight."""

    weight: str
    points: int
    signal: ShownSignal | None


class ShownCause(Struct, frozen=True, kw_only=True):
    """A possible cause with its evidence."""

    mechanism: str
    domain: str
    outlook: str
    summary: str
    score: int
    pro: tuple[ShownPoint, ...] = field(name="for")
    against: tuple[ShownPoint, ...]


class ShownFinding(Struct, frozen=True, kw_only=True):
    """A rank that other ranks wait for, the operation that proves it, its dump, and its node."""

    rank: int
    state: str
    group: str
    description: str
    sequence: int
    operation: str
    waiting: tuple[int, ...]
    file: str | None
    node: str | None = None


class ShownCall(Struct, frozen=True):
    """One collective of a group of ranks."""

    group: str
    sequence: int


class ShownCollectives(Struct, frozen=True, kw_only=True):
    """What the dumps show: the ranks that other ranks wait for, and their nodes."""

    ranks: tuple[int, ...]
    nodes: tuple[str, ...]
    findings: tuple[ShownFinding, ...]
    waiting: tuple[int, ...]
    joined: tuple[ShownCall, ...]
    missing: tuple[int, ...]
    missing_blamed: bool


class ShownFile(Struct, frozen=True, kw_only=True):
    """A file that was read, or a range of recorded entries."""

    file: str
    source: str
    trust: str
    node: str | None
    lines: int
    first_at: datetime | None
    last_at: datetime | None
    progress_at: datetime | None


class ExplainedJob(Struct, frozen=True, kw_only=True):
    """The recorded state of the explained job."""

    job_id: str
    name: str | None
    state: str
    outcome: str | None
    ended_at: datetime | None


class ShownRepair(Struct, frozen=True, kw_only=True):
    """The latest case of a node with a recorded fault."""

    node: str
    node_status: str | None
    case_id: str
    case_status: str
    repair_action: str
    resolution: str | None
    reason: str


class JobVerdictDocument(Struct, frozen=True, kw_only=True):
    """The verdict on a job, with its evidence, all possible causes, and the files that were read."""

    verdict: str
    nodes: tuple[str, ...]
    domain: str
    mechanism: str | None
    summary: str
    settles: str
    symptom: ShownSignal | None
    ranks: tuple[ShownRank, ...]
    attempts: ShownAttempts
    check: tuple[str, ...]
    checks: tuple[ShownSignal, ...]
    shared: bool
    hardware: Hardware
    failed_at: datetime | None
    causes: tuple[ShownCause, ...]
    claims: tuple[ShownSignal, ...]
    recovered: tuple[ShownSignal, ...]
    devices: tuple[JobDevice, ...]
    collectives: ShownCollectives | None
    files: tuple[ShownFile, ...]
    skipped: tuple[str, ...]
    job: ExplainedJob | None = None
    repairs: tuple[ShownRepair, ...] = ()
