"""Decodes `fabric-manager-log`: errors of NVSwitches, NVIDIA's fabric manager and persistence daemon.

Grammar: the records of the fabric manager's log file, of syslog, the journal and `systemctl status`
(`fabric_manager_records`). A switch error is `detected NVSwitch fatal|non-fatal error C on fid|NodeId F on NVSwitch pci
bus id BDF physical id P port N`, where C is the SXid. Times: the local time of the node, taken as UTC because it has no
time zone. Units: none. Errors: `Rejected(no_framing)` without such a record. Source: Fabric Manager 450 to 595,
systemd.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta

from faultbridge.decoders.common.decoder import Decoder, Hints
from faultbridge.decoders.common.documents import text_of
from faultbridge.decoders.common.fields import attributes_of, evidence, truncate
from faultbridge.decoders.network.fabric_manager_records import UNIT, LogRecord, is_head, records_of
from faultbridge.domain.copies import replace
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
from faultbridge.domain.records import OF_SYSLOG
from faultbridge.errors import Rejected

SOURCE = "fabric-manager-log"
FAILED, ERROR = "host.fabric_manager_failed", "host.fabric_manager_error"
PERSISTENCE_FAILED = "host.persistence_daemon_failed"
_SWITCH_ERROR = re.compile(
    r"detected NVSwitch (fatal|non-fatal) error (\d{1,6})(?: on (?:fid|NodeId) (\d{1,5}))?(?: on NVSwitch pci bus id "
    r"([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]))?(?: physical id (\d{1,5}))?(?: port (\d{1,5}))?",
    re.IGNORECASE,
)
_FAILED = re.compile(
    r"fail(?:ed|ure)\b.{0,80}\b(?:initiali[sz]|topology|driver|NVLink|NVSwitch|fabric|train)|\bexiting\b|\baborting\b"
    r"|degraded mode|interface version \S{1,32} (?:don't|doesn't) match with",
    re.IGNORECASE,
)
_UNIT_FAILED = re.compile(
    r"fail(?:ed|ure)|inactive|exited, code=(?:exited, status=[1-9]|killed|dumped)|Job for", re.IGNORECASE
)
# An instance without NVSwitches; its fabric manager stops because it has nothing to do.
_NO_SWITCHES = "NV_WARN_NOTHING_TO_DO"
_STARTS = re.compile(r"fabric manager version |Scheduled restart job", re.IGNORECASE)
_START_FAILED = re.compile(r"^\S{1,64}: Failed with result|^Failed to start")
_LONGEST_START = timedelta(minutes=5)
_SERIOUS = frozenset({"ERROR", "CRITICAL", "FATAL"})


def decode(body: bytes, hints: Hints) -> tuple[Observation, ...]:
    """Return a fault for each switch error, and one fault with a count for each other distinct error."""
    records = list(records_of(text_of(body), hints.received_at))
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
    return tuple(found)


def recognize(body: bytes) -> bool:
    """Return whether one of the first 50 lines is a record of this source, and none is a kernel line."""
    lines = text_of(body).split("\n", 50)[:50]
    return any(map(is_head, lines)) and not any(" kernel: " in line for line in lines)


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
    found = _SWITCH_ERROR.search(record.text)
    if found is not None:
        return _switch_error(record, found)
    if record.level == UNIT:
        is_failure = _UNIT_FAILED.search(record.text) is not None
    elif record.level in _SERIOUS:
        is_failure = _FAILED.search(record.text) is not None
    else:
        return None
    if record.level == UNIT and not is_failure:
        return None
    if record.is_of_persistence_daemon:
        return _fault_of(record, PERSISTENCE_FAILED, NODE_COMPONENT, {"level": record.level})
    code = FAILED if is_failure and has_switches else ERROR
    fault = _fault_of(record, code, NODE_COMPONENT, {"level": record.level})
    return fault if has_switches else fault.classified(Severity.INFO, Action.NONE)


def _switch_error(record: LogRecord, found: re.Match[str]) -> Fault:
    fatality, number, fabric, address, physical, port = found.groups()
    switch = Component(ComponentType.NVSWITCH, pci=normalize_pci(address) if address else None)
    details = attributes_of(
        severity=fatality.lower(), fid=fabric, physical_id=physical, port=port, level=record.level or "ERROR"
    )
    fault = _fault_of(record, f"sxid.{int(number)}", switch, details)
    # The printed severity decides, as in the kernel log: a non-fatal error needs no action.
    if fatality.lower() == "fatal":
        return replace(fault, severity=Severity.FATAL)
    return fault.classified(Severity.WARNING, Action.NONE)


def _fault_of(record: LogRecord, code: str, component: Component, details: Mapping[str, str]) -> Fault:
    details = {**details, **OF_SYSLOG} if record.claimed else details
    return Fault(
        SOURCE, code, component, truncate(record.text), record.at, evidence(record.text), details, node=record.node
    )


DECODER = Decoder(
    name=SOURCE,
    summary="fabric manager and nvidia-persistenced: log, syslog, journal or systemctl status; errors of NVSwitches "
    "and of the services",
    example="[Feb 03 2026 04:05:06] [ERROR] [tid 812] detected NVSwitch fatal error 20034 on fid 0 on "
    "NVSwitch pci bus id 00000000:05:00.0 physical id 9 port 30",
    recognize=recognize,
    decode=decode,
    can_be_silent=True,
)
