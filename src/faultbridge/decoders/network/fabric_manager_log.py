"""Decodes `fabric-manager-log`: errors of NVSwitches and of NVIDIA's fabric manager.

Grammar: `[Mon DD YYYY HH:MM:SS] [LEVEL] [tid N] TEXT`; a record may continue on lines without that head. A switch
error is `detected NVSwitch fatal|non-fatal error C on fid F on NVSwitch pci bus id BDF physical id P port N`, where C
is the SXid. Times: the node's local time without a time zone, as UTC. Units: none.
Errors: `Rejected(no_framing)` without such a line. Source: Fabric Manager 450 to 570.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from faultbridge.decoders.common.clock import calendar_time
from faultbridge.decoders.common.decoder import Decoder, Hints
from faultbridge.decoders.common.documents import text_of
from faultbridge.decoders.common.fields import evidence, truncate
from faultbridge.domain.faults import (
    NODE_COMPONENT,
    Action,
    Component,
    ComponentType,
    Fault,
    Observation,
    Severity,
    normalize_pci,
)
from faultbridge.errors import Rejected

SOURCE = "fabric-manager-log"
_RECORD = re.compile(
    r"\[(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) (\d{1,2}) (\d{4}) (\d\d:\d\d:\d\d)\] "
    r"\[(\w{1,10})\] \[tid (\d{1,10})\] ?(.*)$"
)
_SWITCH_ERROR = re.compile(
    r"detected NVSwitch (fatal|non-fatal) error (\d{1,6}) on fid (\d{1,5}) on NVSwitch pci bus id "
    r"([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]) physical id (\d{1,5}) port (\d{1,5})",
    re.IGNORECASE,
)
_FAILED = re.compile(
    r"fail(?:ed|ure)\b.{0,80}\b(?:initiali[sz]|topology|driver|NVLink|NVSwitch|fabric|train)|\bexiting\b|\baborting\b"
    r"|degraded mode",
    re.IGNORECASE,
)
_SERIOUS = frozenset({"ERROR", "CRITICAL", "FATAL"})
_MAX_LINES = 64


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One record of the log, with its continuation lines."""

    at: datetime | None
    level: str
    text: str


def decode(body: bytes, _hints: Hints) -> tuple[Observation, ...]:
    """Return a fault for each switch error, and one with a count for each distinct other error."""
    records = list(_records(text_of(body)))
    if not records:
        raise Rejected("no_framing", "no line has the head of a fabric manager record")
    positions: dict[tuple[str, str], int] = {}
    found: list[Fault] = []
    for record in records:
        fault = _fault(record)
        if fault is None:
            continue
        key = (fault.code, fault.message)
        if fault.component is NODE_COMPONENT and key in positions:
            position = positions[key]
            found[position] = replace(found[position], count=found[position].count + 1)
            continue
        positions[key] = len(found)
        found.append(fault)
    return tuple(found)


def recognize(body: bytes) -> bool:
    """Return whether one of the first lines has the head of a record."""
    return any(_RECORD.match(line) for line in text_of(body).split("\n", 50)[:50])


def _records(text: str) -> Iterator[LogRecord]:
    """Yield each whole record; lines before the first head belong to a record that was cut off."""
    head: re.Match[str] | None = None
    continuation: list[str] = []
    for line in text.split("\n"):
        found = _RECORD.match(line)
        if found is None:
            if head is not None and line.strip() and len(continuation) < _MAX_LINES:
                continuation.append(line.strip())
            continue
        if head is not None:
            yield _joined_record(head, continuation)
        head, continuation = found, []
    if head is not None:
        yield _joined_record(head, continuation)


def _joined_record(head: re.Match[str], continuation: list[str]) -> LogRecord:
    month, day, year, clock, level, _, text = head.groups()
    return LogRecord(calendar_time(month, day, clock, year), level.upper(), "\n".join([text.strip(), *continuation]))


def _fault(record: LogRecord) -> Fault | None:
    found = _SWITCH_ERROR.search(record.text)
    if found is not None:
        return _switch_error(record, found)
    if record.level not in _SERIOUS:
        return None
    code = "host.fabric_manager_failed" if _FAILED.search(record.text) else "host.fabric_manager_error"
    return _fault_of(record, code, NODE_COMPONENT, {"level": record.level})


def _switch_error(record: LogRecord, found: re.Match[str]) -> Fault:
    fatality, number, fabric, address, physical, port = found.groups()
    switch = Component(ComponentType.NVSWITCH, pci=normalize_pci(address))
    details = {
        "severity": fatality.lower(),
        "fid": fabric,
        "physical_id": physical,
        "port": port,
        "level": record.level,
    }
    fault = _fault_of(record, f"sxid.{int(number)}", switch, details)
    # The printed severity decides, as in the kernel log: a non-fatal error needs no action.
    if fatality.lower() == "fatal":
        return replace(fault, severity=Severity.FATAL)
    return fault.classified(Severity.WARNING, Action.NONE)


def _fault_of(record: LogRecord, code: str, component: Component, details: Mapping[str, str]) -> Fault:
    return Fault(SOURCE, code, component, truncate(record.text), record.at, evidence(record.text), details)


DECODER = Decoder(
    name=SOURCE,
    summary="log of NVIDIA's fabric manager: errors of NVSwitches, and of the fabric manager itself",
    example="[Feb 03 2026 04:05:06] [ERROR] [tid 812] detected NVSwitch fatal error 20034 on fid 0 on "
    "NVSwitch pci bus id 00000000:05:00.0 physical id 9 port 30",
    recognize=recognize,
    decode=decode,
    can_be_silent=True,
)
