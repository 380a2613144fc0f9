"""Reads the ports whose counters `perfquery` and `mlxlink -c` print.

Neither tool prints the name of the device. A line `# DEVICE/PORT` before an output provides it. Without this line, a
port of perfquery has its LID as name, and an output of mlxlink is `Rejected`, because its ports cannot be
distinguished. Grammar: perfquery's `# ... counters: Lid N port N` and `Name:....value`; mlxlink's `Name : value` or its
JSON. Source: rdma-core's perfquery, NVIDIA's firmware tools 4.18 to 4.34.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from faultbridge.decoders.common.documents import loads
from faultbridge.decoders.common.fields import members
from faultbridge.decoders.network.rdma_ports import MAX_PORTS, Port
from faultbridge.errors import Rejected

_HEADING = re.compile(r"^# ?([A-Za-z][\w.-]{1,63})/(\d{1,3})[ \t\r]{0,8}$", re.MULTILINE)
_PERFQUERY = re.compile(
    r"^# [\w ]{1,40}counters: Lid (\d{1,6}) (?:\([^)\n]{0,64}\) )?port (\d{1,3})\b[^\n]{0,128}$", re.MULTILINE
)
_VALUE = re.compile(r"^(\w{1,60}):\.{1,60}(\d{1,20})\s{0,4}$", re.MULTILINE)
_FIELD = re.compile(r"^([A-Z][\w \[\]-]{1,60}?) {0,60}: (\S[^\n]{0,200})$", re.MULTILINE)
_COLOR = re.compile(r"\x1b\[[0-9;]{0,16}m")
_SECTIONS = ("Physical Counters and BER Info", "Operational Info", "Module Info", "Troubleshooting Info")
_NUMBER = re.compile(r"\d{1,20}")
# The names of both tools for the counters of sysfs, which have the thresholds.
_COUNTERS: Mapping[str, str] = {
    "SymbolErrorCounter": "symbol_error",
    "LinkErrorRecoveryCounter": "link_error_recovery",
    "LinkDownedCounter": "link_downed",
    "PortRcvErrors": "port_rcv_errors",
    "PortRcvRemotePhysicalErrors": "port_rcv_remote_physical_errors",
    "PortXmitDiscards": "port_xmit_discards",
    "LocalLinkIntegrityErrors": "local_link_integrity_errors",
    "ExcessiveBufferOverrunErrors": "excessive_buffer_overrun_errors",
    "Symbol Errors": "symbol_error",
    "Link Error Recovery Counter": "link_error_recovery",
    "Link Down Counter": "link_downed",
}
# The recommendation of the firmware for the opcodes 15, 17, 42, 48, 49 and 52 of a link, as NVIDIA lists them.
_BAD_SIGNAL = re.compile(r"bad signal integrity", re.IGNORECASE)
SIGNAL_FAULT = "signal_fault"
_MODULE_FAULTS = ("Module FW Fault", "DataPath FW Fault", "Tx Fault [per lane]")
MODULE_FAULT = "module_fault"


def is_port_tool(body: bytes) -> bool:
    """Return whether a body is probably the output of perfquery, or of mlxlink with its counters."""
    return (b"counters: Lid " in body and b"PortSelect:." in body) or _SECTIONS[0].encode() in body


def ports_of_tools(body: str) -> tuple[Port, ...]:
    """Return up to 512 ports in the output of perfquery and mlxlink, in order.

    If both tools print counters of a port, the counters of the second tool are left out. Raises `Rejected` for an
    output of mlxlink without a device name or with incomplete JSON.
    """
    readers: dict[tuple[str, int], object] = {}
    found = (
        port
        for device, text in _outputs(_COLOR.sub("", body))
        for read in (_of_perfquery, _of_mlxlink)
        for port in read(device, text)
        # The tools count with different widths, so a port has the counters of only one of them.
        if readers.setdefault((port.device, port.number), read) is read or _without_counters(port)
    )
    return tuple(islice(found, MAX_PORTS))


def _without_counters(port: Port) -> bool:
    port.counters = {}
    return bool(port.fields)


def _outputs(body: str) -> Iterator[tuple[tuple[str, int] | None, str]]:
    headings = list(_HEADING.finditer(body))
    yield None, body[: headings[0].start() if headings else len(body)]
    ends = (*(heading.start() for heading in headings[1:]), len(body))
    for heading, end in zip(headings, ends, strict=False):
        yield (heading[1], int(heading[2])), body[heading.end() : end]


def _of_perfquery(device: tuple[str, int] | None, text: str) -> Iterator[Port]:
    heads = list(_PERFQUERY.finditer(text))
    ends = (*(head.start() for head in heads[1:]), len(text))
    for head, end in zip(heads, ends, strict=False):
        name, number = device or (f"lid{int(head[1])}", int(head[2]))
        yield Port(name, number, counters=_counters(dict(_VALUE.findall(text[head.end() : end]))))


def _of_mlxlink(device: tuple[str, int] | None, text: str) -> Iterator[Port]:
    if not any(section in text for section in _SECTIONS):
        return
    if device is None:
        raise Rejected("no_framing", "mlxlink names no device; put a line `# DEVICE/PORT` before each of its outputs")
    fields = _of_json(text) if text.lstrip()[:1] == "{" else dict(_FIELD.findall(text))
    faults = [name for name in _MODULE_FAULTS if "1" in str(fields.get(name, "")).split(",")]
    port = Port(*device, counters=_counters(fields))
    port.fields |= {MODULE_FAULT: ", ".join(faults)} if faults else {}
    recommended = str(fields.get("Recommendation", ""))
    port.fields |= {SIGNAL_FAULT: recommended[:128]} if _BAD_SIGNAL.search(recommended) else {}
    yield port


def _of_json(text: str) -> dict[str, Any]:
    try:
        output = members(members(members(loads(text)).get("result")).get("output"))
    except (ValueError, RecursionError) as error:
        raise Rejected("malformed_json", "an output of mlxlink is not complete JSON") from error
    fields: dict[str, Any] = {}
    for name in _SECTIONS:
        for field, value in members(output.get(name)).items():
            lanes = members(value).get("values")
            fields[field] = ",".join(map(str, lanes)) if isinstance(lanes, list) else value
    return fields


def _counters(fields: Mapping[str, Any]) -> dict[str, int]:
    values = {name: str(fields[tool]).strip() for tool, name in _COUNTERS.items() if tool in fields}
    return {name: int(value) for name, value in values.items() if _NUMBER.fullmatch(value)}
