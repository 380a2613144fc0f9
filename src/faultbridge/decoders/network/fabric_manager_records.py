"""Parses log records of NVIDIA's fabric manager and persistence daemon.

The input is a log file, syslog, the journal, or the output of `systemctl status`. Grammar: `[Mon DD YYYY HH:MM:SS]
[LEVEL][ [tid N]] TEXT`, where lines without this prefix continue the record; or `PREFIX PROGRAM[PID]: TEXT` with the
program `nv-fabricmanager`, its start script, `nvidia-persistenced` or systemd; or only the
text. JSON lines of the journal are read too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime

from faultbridge.dataclass import dataclass
from faultbridge.decoders.common.clock import calendar_time, iso_instant
from faultbridge.decoders.common.prefix import unprefixed
from faultbridge.decoders.common.wrappers import unwrap
from faultbridge.domain.copies import replace

_HEAD = re.compile(
    r"\[(?:(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) {1,2}(\d{1,2}) (\d{4}) (\d\d:\d\d:\d\d)"
    r"|(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d))\] {0,4}\[(\w{1,10})\] {0,4}(?:\[tid (\d{1,10})\])? {0,4}(.*)$"
)
# What is left of the head if a collector removed the time.
_LEVEL = re.compile(r"^\[[A-Z]{4,8}\] {0,4}(?:\[tid \d{1,10}\] {0,4})?")
PERSISTENCE = "nvidia-persistenced"
_PROGRAMS = frozenset({"nv-fabricmanager", "nvidia-fabricmanager-start.sh", PERSISTENCE})
_SYSLOG = re.compile(
    r"(?:^|(?<!\S)(?P<node>\S{1,255}) )(?P<program>nv-fabricmanager|nvidia-fabricmanager-start\.sh|nvidia-persistenced)"
    r"(?:\[\d{1,10}\])?: "
    r"(?P<text>.*)$"
)
# systemd writes about the service under its own name; `systemctl status` prints the state of the unit.
_UNIT = re.compile(
    r"(?:(?P<node>\S{1,255}) systemd\[\d{1,10}\]: )?(?P<text>(?:nvidia-(?:fabricmanager|persistenced)"
    r"\.service: |Failed to start (?:nvidia-persistenced\.service - )?NVIDIA (?:fabric manager|Persistence Daemon)"
    r"|Job for nvidia-(?:fabricmanager|persistenced)\.service failed).*)$",
    re.IGNORECASE,
)
_STATUS = re.compile(r"\s{1,16}Active: (failed \(Result: [\w-]{1,32}\)|inactive \(dead\))")
_STATUS_TITLE = re.compile(r"(nvidia-(?:fabricmanager|persistenced)\.service) - ")
_STATUS_LOADED = re.compile(r"\s{1,16}Loaded: .{0,200}; enabled;")
_BARE = (
    "detected NVSwitch ",
    "detected number of NVSwitches",
    "failed to find the GPU handle ",
    "request to query NVSwitch device information ",
)
_FAILURE = re.compile(r"\b(?:fail(?:ed|ure|s)?|error|abort(?:ed|ing)?|don't match|mismatch)\b", re.IGNORECASE)
_MAY_HOLD_RECORD = re.compile(r"fabric|NVSwitch|persistence|\] {0,4}\[", re.IGNORECASE)
_MAX_LINES = 64
_MAX_HEAD = 256
UNIT = "unit"


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One log record, including its continuation lines.

    A line of systemd has no level of its own, and gets the level `unit`. `claimed` is True if any program can have
    written the record, because the name of its program is text of syslog.
    """

    at: datetime | None
    level: str
    text: str
    node: str | None = None
    program: str | None = None
    claimed: bool = False

    @property
    def is_of_persistence_daemon(self) -> bool:
        """Return whether the persistence daemon wrote the record, or systemd wrote it about that daemon."""
        return self.program == PERSISTENCE or (self.level == UNIT and "persistence" in self.text.lower())


def records_of(text: str, received_at: datetime | None) -> Iterator[LogRecord]:
    """Yield the log records of a text.

    `received_at` determines the year of a time without a year. Lines before the first record are skipped, because they
    belong to a record whose start was cut off.
    """
    current: LogRecord | None = None
    continuation: list[str] = []
    status: list[str] = []
    for line in text.split("\n"):
        record = (_record(line.rstrip("\r"), received_at) if line else None) or _state_of_unit(line, status)
        if record is not None:
            yield from _joined(current, continuation)
            current, continuation = record, []
        elif current is not None and line.strip() and len(continuation) < _MAX_LINES:
            continuation.append(line.strip())
    yield from _joined(current, continuation)


def _joined(record: LogRecord | None, continuation: list[str]) -> Iterator[LogRecord]:
    if record is not None:
        # Only records of the log file continue on other lines.
        has_more = continuation and record.level not in {"", UNIT}
        yield replace(record, text="\n".join([record.text, *continuation])) if has_more else record


def is_head(line: str) -> bool:
    """Return whether a line is the first line of a log record, or the title of `systemctl status`."""
    return _record(line, None) is not None or _STATUS_TITLE.search(line) is not None


def _record(line: str, received_at: datetime | None) -> LogRecord | None:
    if line.lstrip()[:1] == "{":
        return _journal_record(line, received_at)
    found = _HEAD.search(line[:_MAX_HEAD])
    if found is not None:
        found = found if len(line) <= _MAX_HEAD else _HEAD.search(line) or found
        return replace(_headed(found), claimed=found.start() > 0 and _may_be_of_program(line, received_at))
    text = _LEVEL.sub("", line, count=1) if line.startswith("[") else line
    if text.startswith(_BARE):
        return LogRecord(None, "ERROR", text.strip())
    message = unprefixed(line, received_at)
    found = _SYSLOG.search(message.text)
    if found is not None:
        # The log's own head can follow the head of syslog.
        inner = _HEAD.match(found["text"])
        record = (
            _headed(inner) if inner else LogRecord(message.observed_at, _level(found["text"]), found["text"].strip())
        )
        return replace(record, node=found["node"], program=found["program"], claimed=True)
    found = _UNIT.match(message.text)
    if found is None:
        return None
    claimed = message.claimed or found["node"] is not None
    return LogRecord(message.observed_at, UNIT, found["text"].strip(), found["node"], claimed=claimed)


def _may_be_of_program(line: str, received_at: datetime | None) -> bool:
    message = unprefixed(line, received_at)
    return message.claimed or _HEAD.match(message.text) is None


def _headed(found: re.Match[str]) -> LogRecord:
    month, day, year, clock, iso, level, _, text = found.groups()
    at = calendar_time(month, day, clock, year) if month else iso_instant(iso.replace(" ", "T"))
    return LogRecord(at, level.upper(), text.strip())


def _journal_record(line: str, received_at: datetime | None) -> LogRecord | None:
    wrapped = unwrap(line) if _MAY_HOLD_RECORD.search(line) else None
    if wrapped is None:
        return None
    if wrapped.program in _PROGRAMS:
        level, claimed = _level(wrapped.text), not wrapped.is_proven
        return LogRecord(wrapped.at, level, wrapped.text.strip(), wrapped.node, wrapped.program, claimed)
    inner = _record(wrapped.text, received_at) if wrapped.text.lstrip()[:1] != "{" else None
    return replace(inner, at=inner.at or wrapped.at, node=inner.node or wrapped.node) if inner else None


def _level(text: str) -> str:
    return "ERROR" if _FAILURE.search(text) or text.startswith(_BARE) else ""


def _state_of_unit(line: str, status: list[str]) -> LogRecord | None:
    """Return a record if `systemctl status` shows that a service failed, or is enabled but inactive.

    Returns None for any other line. `status` is updated by each call: it contains the name of the service from an
    earlier line, and `enabled` if the service is enabled.
    """
    title = _STATUS_TITLE.search(line)
    if title is not None:
        status[:] = [title[1]]
    elif status and _STATUS_LOADED.match(line):
        status.append("enabled")
    elif status and (found := _STATUS.match(line)) is not None:
        unit, is_enabled = status[0], "enabled" in status
        status.clear()
        # Another service starts a static unit when it needs it, so an inactive one is no failure.
        if is_enabled or found[1].startswith("failed"):
            return LogRecord(None, UNIT, f"{unit}: {found[1]}")
    return None
