"""Decodes `bmc-events`: events of a baseboard management controller (`ipmitool`, FreeIPMI, Redfish).

Grammar: `ID | MM/DD/[YY]YY | HH:MM:SS[ AM][ ZONE] | SENSOR | EVENT | Asserted or Deasserted` of `ipmitool sel`; `ID |
MON-DD-YYYY | HH:MM:SS | NAME | TYPE [| STATE] [| DIRECTION] | EVENT` of `ipmi-sel`; or Redfish's
LogEntry objects, alone or in a collection, or its Event. A deasserted event is a clear. A Redfish event that is OK or
resolved is skipped. Times: those of the controller, taken as UTC; Redfish's `EventTimestamp` or `Created`. Units: none.
Errors: `Rejected(no_framing)` for other input. Source: ipmitool 1.8, FreeIPMI 1.1 to 1.6, Redfish's LogEntry and Event
schemas.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from faultbridge.decode.data.patterns import first_match, packaged_texts
from faultbridge.decode.frames.clock import MONTHS, calendar_time, instant, iso_instant
from faultbridge.decode.frames.decoder import Hints, fault_of, to_clear
from faultbridge.decode.frames.documents import objects, text_of
from faultbridge.decode.frames.values import members, objects_in, text
from faultbridge.model.errors import Rejected
from faultbridge.model.fault_enums import Action, ComponentType, Severity
from faultbridge.model.faults import NODE_COMPONENT, Clear, Component, Fault, Observation
from faultbridge.model.values import replace

# Reads the listing of FreeIPMI's `ipmi-sel`: a heading with column names, and one event per line.
#
# Grammar: `ID | Date | Time | Name | Type [| State] [| Event Direction] | Event`, separated by `|` or, with an option,
# by commas. A date is `MON-DD-YYYY`, or `PreInit` or `PostInit` if the clock of the controller was not set yet. Without
# a heading, the columns are those of the default output.

_DEFAULT = ("ID", "Date", "Time", "Name", "Type", "Event")
_COLUMN = r"[ \t]{0,64}[|,][ \t]{0,8}"
_HEADING = re.compile(
    rf"^ID{_COLUMN}Date{_COLUMN}Time{_COLUMN}Name{_COLUMN}[^\n]{{0,200}}\bEvent[ \t]{{0,64}}\r?$", re.MULTILINE
)
_ROW = re.compile(
    rf"^[ \t]{{0,8}}\d{{1,6}}{_COLUMN}(?:[A-Z][a-z]{{2}}-\d\d-\d{{4}}|P(?:re|ost)Init){_COLUMN}"
    rf"(?:\d\d:\d\d:\d\d|P(?:re|ost)Init){_COLUMN}[^\n]{{1,400}}$",
    re.MULTILINE,
)


def _is_listing(text: str) -> bool:
    """Return whether a text has the heading or an event of an `ipmi-sel` listing."""
    return _HEADING.search(text) is not None or _ROW.search(text) is not None


def _of_listing(whole: str) -> Iterator[Fault | Clear | None]:
    heading = _HEADING.search(whole)
    names = _cells(heading[0], len(heading[0])) if heading else _DEFAULT
    for row in _ROW.finditer(whole):
        values = _cells(row[0], len(names))
        cells = dict(zip(names, values, strict=False))
        if len(values) >= len(_DEFAULT):
            name, says = cells["Name"], f"{cells['Name']} {cells['Type']}: {cells.get('Event', '')}"
            fault = _fault(says, name, _listed_time(cells["Date"], cells["Time"]), row[0].strip())
            direction = next((value for column, value in cells.items() if "Direction" in column), "")
            yield to_clear(fault) if fault is not None and direction.startswith("Deassert") else fault


def _listed_time(date: str, clock: str) -> datetime | None:
    month, _, rest = date.partition("-")
    day, _, year = rest.partition("-")
    return calendar_time(month, day, clock, year) if month in MONTHS and ":" in clock else None


def _cells(line: str, count: int) -> Sequence[str]:
    separator = "|" if "|" in line else ","
    return [cell.strip() for cell in line.split(separator, count - 1)]


SOURCE = "bmc-events"
_EVENT = re.compile(
    r"^\s{0,16}[0-9a-f]{1,6} \| (\d\d)/(\d\d)/(\d{4}|\d\d) \| (\d\d):(\d\d:\d\d)(?: ([AP]M))?(?: \w{1,5})? "
    r"\| ([^|\n]{1,128}?) ?\| "
    r"([^|\n]{1,160}?) ?(?:\| ?(Asserted|Deasserted)[^\n]{0,160})?$",
    re.MULTILINE,
)
_HEAD = re.compile(r"^\s{0,16}[0-9a-f]{1,6} \| (?:\d\d/\d\d/(?:\d{4}|\d\d) \||Pre-Init|Unspecified)", re.MULTILINE)
# The Xid that NVIDIA's baseboard controller names in an event of a GPU.
_XID = re.compile(r"\bXID {0,2}:? ?(\d{1,4})\b", re.IGNORECASE)
_GPU = re.compile(r"(?<![A-Za-z0-9])GPU_(?:SXM_)?\d{1,3}\b")
_UNNAMED = "agent.gpu_unhealthy"
# The severity that the controller states determines the code of an event of an unknown kind.
_UNKNOWN = {"Critical": "host.bmc_critical", "Warning": "host.bmc_warning"}


def decode(body: bytes, _hints: Hints) -> tuple[Observation, ...]:
    """Return a fault for each event about a fault, or a clear if the event is deasserted."""
    whole = text_of(body)
    found: Iterable[Fault | Clear | None]
    if _HEAD.search(whole) is None and whole.lstrip()[:1] in {"{", "["}:
        entries = [entry for _, document in objects(whole) for entry in _entries(document)]
        if not entries:
            raise Rejected("no_framing", "no LogEntry or Event of Redfish")
        found = (_of_entry(entry) for entry in entries)
    elif _HEAD.search(whole) is not None:
        found = (_of_event(event) for event in _EVENT.finditer(whole))
    elif _is_listing(whole):
        found = _of_listing(whole)
    else:
        raise Rejected("no_framing", "no event of a management controller")
    return tuple(one for one in found if one is not None)


def recognize(body: bytes) -> bool:
    """Return whether a body probably has an event of an IPMI event log, or a LogEntry or Event of Redfish."""
    is_redfish = b"#LogEntry" in body or (b'"#Event.' in body and b'"Events"' in body)
    head = text_of(body[:16384]) if b"|" in body and not is_redfish else ""
    return is_redfish or _HEAD.search(head) is not None or _is_listing(head)


def _of_event(event: re.Match[str]) -> Fault | Clear | None:
    month, day, year, hour, rest, half, sensor, says, state = event.groups()
    # The C locale prints a year with two digits; no controller of this kind is older than 2000.
    year = year if len(year) > 2 else f"20{year}"  # noqa: PLR2004 - digits
    hour = f"{int(hour) % 12 + 12 * (half == 'PM'):02}" if half else hour
    fault = _fault(f"{sensor}: {says}", sensor, iso_instant(f"{year}-{month}-{day}T{hour}:{rest}"), event[0].strip())
    return to_clear(fault) if fault is not None and state == "Deasserted" else fault


def _entries(document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for entry in (document, *objects_in(document.get("Members"))):
        if "LogEntry." in str(entry.get("@odata.type")) and text(entry.get("Message")):
            yield entry
    if "#Event." in str(document.get("@odata.type")):
        yield from (event for event in objects_in(document.get("Events")) if text(event.get("Message")))


def _of_entry(entry: Mapping[str, Any]) -> Fault | Clear | None:
    severity = text(entry.get("Severity")) or text(entry.get("MessageSeverity")) or "OK"
    message = text(entry.get("Message")) or ""
    sensor = " ".join(filter(None, (text(entry.get("SensorType")), text(members(entry.get("Links")).get("Name")))))
    at = instant(entry.get("EventTimestamp")) or instant(entry.get("Created"))
    if severity == "OK" or entry.get("Resolved") is True:
        return None
    raw = f"{severity} {message}"
    origins = (
        text(members(one.get("OriginOfCondition")).get("@odata.id")) for one in (members(entry.get("Links")), entry)
    )
    gpu = _GPU.search(f"{message} {next(filter(None, origins), '')}")
    component = Component(ComponentType.GPU, name=gpu[0] if gpu else None)
    if (xid := _XID.search(message)) is not None:
        return _of_gpu(fault_of(SOURCE, f"xid.{int(xid[1])}", component, message, raw, at))
    fault = _fault(f"{sensor}: {message}" if sensor else message, sensor or None, at, raw, severity)
    if gpu is None or fault is None or fault.code not in _UNKNOWN.values():
        return fault
    return _of_gpu(replace(fault, code=_UNNAMED, component=component))


def _of_gpu(fault: Fault) -> Fault:
    """Rate a fault of a GPU in the log of a management controller.

    The event may be years old. A critical fault therefore only needs diagnostics, and any other one needs no action.
    """
    if not fault.evidence.startswith("Critical"):
        return fault.classified(Severity.WARNING, Action.NONE)
    severity = Severity.WARNING if fault.code == _UNNAMED else Severity.ERROR
    return fault.classified(severity, Action.RUN_DIAGNOSTICS)


def _fault(shown: str, sensor: str | None, at: datetime | None, raw: str, severity: str = "") -> Fault | None:
    matched = first_match(packaged_texts("bmc"), shown)
    if matched is None and severity not in _UNKNOWN:
        return None
    row = matched[0].row if matched else {"code": _UNKNOWN[severity], "component": ComponentType.NODE}
    kind = ComponentType(row["component"])
    component = NODE_COMPONENT if kind is ComponentType.NODE else Component(kind, name=sensor[:64] if sensor else None)
    fault = fault_of(SOURCE, row["code"], component, shown, raw, at, sensor=(sensor or "")[:128])
    return fault.classified(Severity.ERROR, Action.RUN_DIAGNOSTICS) if row.get("past") else fault
