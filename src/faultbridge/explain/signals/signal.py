"""Signals: facts about a job from its logs and dumps, its nodes and records, and the patterns that find them."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from fnmatch import fnmatchcase
from itertools import islice
from typing import Any

from faultbridge.decode.data.patterns import Pattern, patterns_of
from faultbridge.decode.frames.clock import instant, iso_instant, yearless_time
from faultbridge.decode.frames.decoder import Hints
from faultbridge.decode.frames.prefix import unprefixed
from faultbridge.model.faults import Component


class Role(StrEnum):
    """The role of a signal in a failure: first sign, consequence, end of the job, or none of these."""

    INITIATING = "initiating"
    CASCADE = "cascade"
    TEARDOWN = "teardown"
    CONTEXT = "context"


FAILURES = frozenset({Role.INITIATING, Role.CASCADE})


def text_of(body: bytes) -> str:
    """Return bytes of a file as text; what is not UTF-8 is replaced."""
    return body.decode("utf-8", "replace")


class Trust(StrEnum):
    """What reported a signal: a source of the node itself, a Flight Recorder dump, or the job."""

    NODE = "node"
    DUMP = "dump"
    JOB = "job"


@dataclass(frozen=True, slots=True)
class Signal:
    """One fact about a job, with the file and the line that state it.

    - `kind` generalizes the name of a fault, such as `fault.gpu.fatal`. `device` is the GPU that has the fault, if any.
    - `count` is the number of equal signals in ten minutes, of which only the first is kept. `last_at` and `last_line`
      are the time and the line of the last of them.
    - `said` is the text from the start of the match, with 0 for each number: equal on ranks with the same error.
    - `handled` states how the process continued after the error, such as `retried`, or is empty.
    - `is_chained` is True if the error was raised while another error was handled.
    - `attempt` is the number of the attempt in its log, from 0: a launcher may start the job again in one log.
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
    attempt: int = 0

    def matches(self, glob: str) -> bool:
        """Return whether a name pattern such as `xid.79` or `nccl.*` matches the name or kind of the signal."""
        return fnmatchcase(self.name, glob) or (self.kind != "" and fnmatchcase(self.kind, glob))


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt of a job in one log: its last training step, and its first error in any words.

    `error` is the first line after the last progress that looks like an error, whether a pattern matches it or not.
    `has_worked` is True if a line looks like progress, also in a form whose step is not read.
    """

    step: float | None = None
    error: Signal | None = None
    has_worked: bool = False

    def repeats(self, later: Attempt) -> bool:
        """Return whether a later attempt ended with the same error, and made no further step, as far as is known."""
        one, other = self.error, later.error
        is_same = one is not None and other is not None and (one.name, one.said) == (other.name, other.said)
        return is_same and (later.step or 0) <= (self.step or 0) and (later.step is not None or not later.has_worked)


@dataclass(frozen=True, slots=True)
class LogSpan:
    """The node, the times and the lines that one log file, or one range of recorded entries, covers.

    - `progress_at` and `progress_line` are the time and line at which the job last made progress.
    - `steps_at` and `steps_line` are those of the second to last training step, which decide whether the job continued
      after an error; `first_step_line` is the line of the first step, and `steps` the number that the log proves.
    - `ran_until` is when the container of the job ended, which is no progress: its errors came before.
    - `attempts` are the attempts of the job that the log shows; `last` is its last line that is not empty.
    - `boots` are the times at which the kernel of a node started.
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
    ran_until: datetime | None = None
    attempts: tuple[Attempt, ...] = ()
    last: Signal | None = None
    boots: tuple[datetime, ...] = ()


MAX_SIGNALS, MAX_TEXT = 4096, 400
_BUCKET_SECONDS = 600


class EvidenceStore:
    """The last 4,096 different signals; a repetition within ten minutes only increases a count."""

    def __init__(self) -> None:
        """Start with no stored signals."""
        self._found: dict[Hashable, tuple[Signal, int, datetime | None, int | None]] = {}

    def is_new(
        self, name: str, at: datetime | None, *, rank: int | None = None, part: str = "", line: int | None = None
    ) -> bool:
        """Return True if no signal with equal arguments but `line`, within ten minutes, is stored; else count it."""
        key = _key(name, at, rank, part)
        if key not in self._found:
            return True
        signal, count, _, _ = self._found[key]
        self._found[key] = signal, count + 1, at, line
        return False

    def add(self, signal: Signal, part: str = "") -> None:
        """Add a signal; a full store drops the first, because the end of a job is near the end of its log."""
        if len(self._found) >= MAX_SIGNALS:
            del self._found[next(iter(self._found))]
        key = _key(signal.name, signal.at, signal.rank, part)
        self._found[key] = signal, signal.count, signal.at, signal.line

    def signals(self) -> list[Signal]:
        """Return the signals in the order of `add`, with count, time and line of the last repetition."""
        found = self._found.values()
        return [replace(one, count=count, last_at=at, last_line=line) for one, count, at, line in found]


def _key(name: str, at: datetime | None, rank: int | None, part: str) -> Hashable:
    return name, rank, part, int(at.timestamp()) // _BUCKET_SECONDS if at else None


_HEAD = 120
_MAX_LINES = 1024
_TIME = re.compile(
    r"(?P<iso>\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?)"
    r"|\b[EWIF](?P<month>\d{1,2})(?P<day>\d\d) (?P<clock>\d\d:\d\d:\d\d)"
    r"|(?P<name>Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) {1,2}(?P<date>\d{1,2}) (?P<hour>\d\d:\d\d:\d\d)"
    r"|\b(?P<mm>\d\d)-(?P<dd>\d\d) (?P<time>\d\d:\d\d:\d\d)\b"
    r"|[A-Z][a-z]{2}, (?P<rfc>\d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d [+-]\d{4})"
)
_NAMES = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_RANK = re.compile(r"\[rank(\d{1,6})\]|\[(?:PG [^\[\]]{0,64} )?Rank (\d{1,6})\]|\b[Rr]ank (\d{1,6})\b|^(\d{1,6}): ")
_HOST = re.compile(r"\bnode: (?P<node>[\w.-]{1,253})|(?:^|[\] ])(?P<host>[A-Za-z][\w.-]{0,252}):\d{1,8}:\d{1,8} \[\d")
# A field of `journalctl -o export` starts a line; in JSON, a quotation mark within a message is escaped.
_JOURNAL_TIME = re.compile(
    r"^[ \t]{0,16}__REALTIME_TIMESTAMP=(?P<export>\d{16})$"
    r'|(?<!\\)"__REALTIME_TIMESTAMP" {0,4}: {0,4}"(?P<json>\d{16})"',
    re.MULTILINE,
)
_NAMED_RANK = re.compile(r"rank[_-]?(\d{1,6})")


def time_of(text: str, received_at: datetime | None, *, last: bool = False) -> datetime | None:
    """Return the first time in the first 120 characters of a line, with `last` that of the last such line.

    A time without a zone is UTC. A time without a year gets its year from `received_at`, or is ignored.
    """
    lines = text.splitlines()
    for line in reversed(lines) if last else lines:
        found = _TIME.search(line[:_HEAD])
        instant = _instant(found, received_at) if found else None
        if instant is not None:
            return instant
    return None


def span_time_of(text: str, received_at: datetime | None, *, last: bool = False) -> datetime | None:
    """Return the first or last time in a text for a log's span, from journal entries if there are any."""
    entries = _JOURNAL_TIME.findall(text)
    if entries:
        return instant("".join(entries[-1 if last else 0]))
    return time_of(text, received_at, last=last)


def latest_date_of(head: bytes) -> datetime | None:
    """Return the latest time with a year in the first 1,024 lines of a text, or None if there is none."""
    lines = head.decode("utf-8", "replace").splitlines()[:_MAX_LINES]
    return max((at for line in lines if (at := unprefixed(line).observed_at or time_of(line, None))), default=None)


def _instant(found: re.Match[str], received_at: datetime | None) -> datetime | None:
    if found["iso"]:
        return iso_instant(found["iso"].replace("/", "-").replace(" ", "T"))
    if found["name"]:
        return yearless_time(found["name"], found["date"], found["hour"], received_at)
    if found["rfc"]:
        with suppress(ValueError):  # a day such as 45
            return parsedate_to_datetime(found["rfc"]).astimezone(UTC)
        return None
    month, day, clock = int(found["month"] or found["mm"]), found["day"] or found["dd"], found["clock"] or found["time"]
    return yearless_time(_NAMES[month - 1], day, clock, received_at) if 1 <= month <= len(_NAMES) else None


def rank_of(line: str) -> int | None:
    """Return the first global rank that a line states, or None if the line does not state a rank."""
    found = _RANK.search(line)
    return int(next(one for one in found.groups() if one)) if found else None


def rank_of_file(file: str) -> int | None:
    """Return the rank in the name of a file such as `rank_3.err`, or None if the name states no rank."""
    found = _NAMED_RANK.search(file.rsplit("/", 1)[-1])
    return int(found[1]) if found else None


def host_of(line: str) -> str | None:
    """Return the host that a line states in NCCL's log format or after `node:`, or None."""
    found = _HOST.search(line[:512])
    return (found["node"] or found["host"]) if found else None


# Log patterns: each recognizes one kind of signal in the lines of a job log.
#
# Most lines with a signal contain one of the short texts in `FRAGMENTS`. To save time, a piece of a log without any of
# these texts is not searched, so any signal in this piece is missed. The end of the log is always searched.

FRAGMENTS = (
    b"rror", b"NCCL WARN", b"imeout", b"imed out", b"xitcode: -", b"illed", b"xception", b"(SIG", b": nan", b"=nan",
    b"NaN", b"Xid (", b"DUE TO", b"orker group", b"heckpoint from",
)  # fmt: skip
"""Parts of most pattern texts: only a piece with one of them, or at the end of the log, is searched."""

_EXCEPTION = re.compile(r"(?<![\w.])(?:[A-Za-z_]\w{0,63}\.){0,8}([A-Z]\w{2,63})(?=:(?: |\Z)|\): |\s{0,8}\Z)")
_SOURCE_CODE = re.compile(r"\b(?:raise|except|import|class|from|return|catch) \(?[\w., ]{0,64}\Z")
_MAX_NAMES = 16
_MAX_BEFORE = 80
_INNERMOST = 6
HEDGES = re.compile(
    r"[Pp]otential root causes|[Pp]ossible (?:reasons|causes)|[Tt]his can happen if|[Tt]his (?:indicates|can mean) that"
    r"|[Ee]ither (?:the|a) |[Pp]revious (?:attempt|run) |[Rr]estart count \d(?:\S{0,16} last |(?!.{0,512}Error: ))"
)
"""Matches the start of a list of possible causes in a line. The rest of the line is no evidence."""


@dataclass(frozen=True, slots=True)
class LogPattern:
    """One pattern of a signal, with example lines that match (`cases`) or do not match (`not_cases`).

    - If `classes` is not empty, the line must also name an exception whose class matches one of these globs. A glob
      with a dot is compared with the full name, which includes the module.
    - If `frames` is not empty, the file or function of one of the six innermost frames of the traceback must contain
      one of these texts. Of several chained tracebacks, the first in the log is examined.
    - If `is_fallback` is True, the pattern counts only in a line that no pattern with `is_fallback` False matches.
    """

    name: str
    role: Role
    pattern: Pattern
    cases: tuple[str, ...]
    not_cases: tuple[str, ...]
    classes: tuple[str, ...] = ()
    frames: tuple[str, ...] = ()
    is_fallback: bool = False

    def find(self, line: str) -> re.Match[str] | None:
        """Return the first match in a line, or None; with `classes`, the match is the name of the exception."""
        found = self.pattern.find(line)
        return self._exception(line) if found and self.classes else found

    def is_in(self, lines: Sequence[str]) -> bool:
        """Return whether one of the innermost frames in the lines of a traceback is one of `frames`."""
        files = [one for one in lines if 'File "' in one][-_INNERMOST:]
        return any(part in one for one in files for part in self.frames)

    def _exception(self, line: str) -> re.Match[str] | None:
        """Return the match of an exception of one of `classes`, not in a line of source code, or None."""
        for found in islice(_EXCEPTION.finditer(line), _MAX_NAMES):
            has_text = bool(line[found.end() :].strip())
            fits = any(fnmatchcase(found[0] if "." in one else found[1], one) for one in self.classes)
            before = line[max(0, found.start() - _MAX_BEFORE) : found.start()]
            if fits and (has_text or "." in found[0]) and not _SOURCE_CODE.search(before):
                return found
        return None


def matches_of(
    patterns: Iterable[LogPattern], line: str, frames: Callable[[], Sequence[str]] = list
) -> list[tuple[LogPattern, re.Match[str]]]:
    """Return the patterns that match a line before its `HEDGES`, or else the first fallback pattern."""
    patterns, hedge = tuple(patterns), HEDGES.search(line)
    line = line[: hedge.start()] if hedge else line
    found = [
        (one, match)
        for one in patterns
        if not one.is_fallback and (match := one.find(line)) and (not one.frames or one.is_in(frames()))
    ]
    fallbacks = ((one, match) for one in patterns if one.is_fallback and (match := one.find(line)))
    return found or list(islice(fallbacks, 1))


def read_pattern(row: Mapping[str, Any]) -> LogPattern:
    """Return the pattern of a row of `signals`; raises `Misconfigured` for an invalid or unbounded one."""
    (pattern,) = patterns_of([{"pattern": re.escape(row["contains"]), **row}])
    texts = {name: tuple(row.get(name, ())) for name in ("cases", "not_cases", "classes", "frames")}
    return LogPattern(row["name"], Role(row["role"]), pattern, is_fallback=row.get("fallback", False), **texts)


@dataclass(frozen=True, slots=True)
class ReadContext:
    """What is needed besides the files to read them: patterns, roles of fault codes, nodes of ranks, hints."""

    patterns: tuple[LogPattern, ...]
    roles: Mapping[str, Role]
    nodes: Mapping[int, str] = field(default_factory=dict)
    hints: Hints = field(default_factory=Hints)
