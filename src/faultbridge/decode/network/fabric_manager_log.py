"""Decodes `fabric-manager-log`: errors of NVSwitches, NVIDIA's fabric manager and persistence daemon.

Grammar: the records of the fabric manager's log file, of syslog, the journal and `systemctl status`.
A switch error is `detected NVSwitch fatal|non-fatal error C on fid|NodeId F on NVSwitch pci
bus id BDF physical id P port N`, where C is the SXid. Times: the local time of the node, taken as UTC because it has no
time zone. Units: none. Errors: `Rejected(no_framing)` without such a record. Source: Fabric Manager 450 to 595,
systemd.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice, pairwise
from typing import Any

from faultbridge.decode.data.patterns import Pattern, first_match, packaged_texts
from faultbridge.decode.frames.chain import lines_of
from faultbridge.decode.frames.clock import calendar_time, iso_instant
from faultbridge.decode.frames.decoder import Decoded, Hints, fault_of
from faultbridge.decode.frames.line import Item
from faultbridge.decode.frames.prefix import unprefixed
from faultbridge.model.errors import Rejected
from faultbridge.model.fault_enums import Action, Severity
from faultbridge.model.faults import NODE_COMPONENT, Component, Fault
from faultbridge.model.records import OF_SYSLOG
from faultbridge.model.values import replace

# Parses log records of NVIDIA's fabric manager and persistence daemon.
#
# The input is a log file, syslog, the journal, or the output of `systemctl status`. Grammar: `[Mon DD YYYY HH:MM:SS]
# [LEVEL][ [tid N]] TEXT`, where lines without this prefix continue the record; or `PREFIX PROGRAM[PID]: TEXT` with the
# program `nv-fabricmanager`, its start script, `nvidia-persistenced` or systemd; or only the
# text. JSON lines of the journal are read too.

_HEAD = re.compile(
    r"\[(?:(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) {1,2}(\d{1,2}) (\d{4}) (\d\d:\d\d:\d\d)"
    r"|(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d))\] {0,4}\[(\w{1,10})\] {0,4}(?:\[tid (\d{1,10})\])? {0,4}(.*)$"
)
_HEAD_START = re.compile(r"\[(?:[A-Z][a-z]{2} {1,2}\d{1,2} \d{4}|\d{4}-\d\d-\d\d) \d\d:\d\d:\d\d\] {0,4}\[[A-Z]{4,8}\]")
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
_MAX_LINES = 64
_MAX_HEAD = 256
UNIT = "unit"


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One log record, including its continuation lines."""

    at: datetime | None
    level: str
    text: str
    node: str | None = None
    program: str | None = None
    claimed: bool = False


def _records_of(lines: Iterable[Item], received_at: datetime | None) -> Iterator[LogRecord]:
    """Yield the log records in the lines of a log."""
    current: LogRecord | None = None
    continuation: list[str] = []
    status: list[str] = []
    for line in lines:
        text = (line if isinstance(line, str) else line.text).rstrip("\r")
        if not text:
            continue
        text, *further = _records_of_line(text)
        record = _framed_record(text, line, received_at) or _state_of_unit(text, status)
        if record is not None:
            yield from _joined(current, continuation)
            for head in filter(None, map(_HEAD.match, further)):
                yield record
                record = replace(_headed(head), node=record.node, program=record.program, claimed=record.claimed)
            current, continuation = record, []
        elif current is not None and text.strip() and len(continuation) < _MAX_LINES:
            continuation.append(text.strip())
    yield from _joined(current, continuation)


def _records_of_line(text: str) -> list[str]:
    """Return the records in a line, which a collector may have joined; only the first can have another prefix."""
    starts = [found.start() for found in _HEAD_START.finditer(text)]
    bounds = [0, *starts[1:], len(text)]
    return [text[start:end].strip() if start else text[:end] for start, end in pairwise(bounds)]


def _joined(record: LogRecord | None, continuation: list[str]) -> Iterator[LogRecord]:
    if record is not None:
        # Only records of the log file continue on other lines.
        has_more = continuation and record.level not in {"", UNIT}
        yield replace(record, text="\n".join([record.text, *continuation])) if has_more else record


def _record(line: str, received_at: datetime | None) -> LogRecord | None:
    found = _HEAD.search(line[:_MAX_HEAD])
    if found is not None:
        found = found if len(line) <= _MAX_HEAD else _HEAD.search(line) or found
        if found.start() == 0:
            return _headed(found)
        message = unprefixed(line, received_at)
        return replace(_headed(found), claimed=message.claimed or _HEAD.match(message.text) is None)
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


def _headed(found: re.Match[str]) -> LogRecord:
    month, day, year, clock, iso, level, _, text = found.groups()
    at = calendar_time(month, day, clock, year) if month else iso_instant(iso.replace(" ", "T"))
    return LogRecord(at, level.upper(), text.strip())


def _framed_record(text: str, line: Item, received_at: datetime | None) -> LogRecord | None:
    if isinstance(line, str):
        return None if text.lstrip()[:1] == "{" else _record(text, received_at)
    if line.program in _PROGRAMS:
        return LogRecord(line.at, _level(text), text.strip(), line.node, line.program, claimed=not line.is_proven)
    record = _record(text, received_at)
    return replace(record, at=record.at or line.at, node=record.node or line.node) if record else None


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


SOURCE = "fabric-manager-log"
ERROR, PERSISTENCE_FAILED = "host.fabric_manager_error", "host.persistence_daemon_failed"
# An instance without NVSwitches; its fabric manager stops because it has nothing to do.
_NO_SWITCHES = "NV_WARN_NOTHING_TO_DO"
_STARTS = re.compile(r"fabric manager version |Scheduled restart job", re.IGNORECASE)
_START_FAILED = re.compile(r"^\S{1,64}: Failed with result|^Failed to start")
_LONGEST_START = timedelta(minutes=5)
_SERIOUS = frozenset({"ERROR", "CRITICAL", "FATAL"})


def decode(body: bytes, hints: Hints) -> Decoded:
    """Decode the lines of a body."""
    return decode_lines(lines_of(body), hints)


def decode_lines(lines: Iterable[Item], hints: Hints) -> Decoded:
    """Return a fault for each switch error, and one fault with a count for each other distinct error."""
    records = list(_records_of(lines, hints.received_at))
    if not records:
        raise Rejected("no_framing", "no line has the head of a fabric manager record")
    positions: dict[tuple[str, str], int] = {}
    found: list[Fault] = []
    for record, has_switches in zip(records, _having_switches(records), strict=True):
        fault = _fault(record, has_switches=has_switches)
        if fault is None:
            continue
        # One failed start is several lines of systemd.
        key = (fault.code, UNIT if record.level == UNIT else fault.message)
        if fault.component is NODE_COMPONENT and key in positions:
            position = positions[key]
            count = found[position].count + (0 if record.level == UNIT else 1)
            found[position] = replace(found[position], count=count)
            continue
        positions[key] = len(found)
        found.append(fault)
    return Decoded(tuple(found))


def recognize(body: bytes) -> bool:
    """Return whether one of the first 50 lines is a record of this source, and none is a kernel line."""
    lines = [(line if isinstance(line, str) else line.text, line) for line in islice(lines_of(body), 50)]
    is_framed = any(_framed_record(text, line, None) or _STATUS_TITLE.search(text) for text, line in lines)
    return is_framed and not any(" kernel: " in text for text, _ in lines)


def _having_switches(records: Sequence[LogRecord]) -> list[bool]:
    """Return, for each record, whether its node has NVSwitches.

    The fabric manager of a node without NVSwitches reports this after it starts. The value is then False for all
    records of the same node and the same start of the fabric manager.
    """
    starts: list[tuple[str | None, int]] = []
    last: dict[str | None, tuple[int, LogRecord]] = {}
    named = {record.node for record in records if record.node}
    only = named.pop() if len(named) == 1 else None  # the head of `systemctl status` names no node
    for record in records:
        node = record.node or only
        number, before = last.get(node, (0, record))
        number += _is_of_next_start(before, record)
        last[node] = number, record
        starts.append((node, number))
    without = {start for start, record in zip(starts, records, strict=True) if _NO_SWITCHES in record.text}
    return [start not in without for start in starts]


def _is_of_next_start(before: LogRecord, record: LogRecord) -> bool:
    if before.at is not None and record.at is not None and abs(record.at - before.at) > _LONGEST_START:
        return True
    has_ended = record.level != UNIT and _START_FAILED.search(before.text) is not None
    return has_ended or _STARTS.search(record.text) is not None


def _fault(record: LogRecord, *, has_switches: bool) -> Fault | None:
    level = record.level if record.level == UNIT else "error" if record.level in _SERIOUS else None
    rows = (row for row in packaged_texts("fabric_manager") if row.row["level"] in {"any", level})
    matched = first_match(rows, record.text)
    if matched is not None and "number" in matched[1]:
        return _switch_error(record, *matched)
    if level is None or (matched is None and level == UNIT):
        return None
    is_about_persistence = record.level == UNIT and "persistence" in record.text.lower()
    if record.program == PERSISTENCE or is_about_persistence:
        return _fault_of(record, PERSISTENCE_FAILED, NODE_COMPONENT, {"level": record.level})
    code = matched[0].code if matched and has_switches else ERROR
    fault = _fault_of(record, code, NODE_COMPONENT, {"level": record.level})
    return fault if has_switches else fault.classified(Severity.INFO, Action.NONE)


def _switch_error(record: LogRecord, row: Pattern, details: dict[str, str]) -> Fault:
    switch, number, severity = row.component(details), details.pop("number"), details["severity"].lower()
    details |= {"severity": severity, "level": record.level or "ERROR"}
    fault = _fault_of(record, row.code.format(number=number), switch, details)
    # The printed severity decides, as in the kernel log: a non-fatal error needs no action.
    if severity == "fatal":
        return replace(fault, severity=Severity.FATAL)
    return fault.classified(Severity.WARNING, Action.NONE)


def _fault_of(record: LogRecord, code: str, component: Component, details: Mapping[str, Any]) -> Fault:
    claims: Mapping[str, Any] = OF_SYSLOG if record.claimed else {}
    return fault_of(SOURCE, code, component, record.text, None, record.at, record.node, **details, **claims)
