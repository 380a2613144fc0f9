"""Reads the ports of InfiniBand, RoCE and EFA devices from sysfs and from node_exporter metrics.

A counter whose value is not a number, such as `N/A (no PMA)`, is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from msgspec import Struct
from msgspec import field as struct_field

from faultbridge.decode.data import table
from faultbridge.decode.frames.decoder import members, number, pci_of
from faultbridge.decode.frames.decoder import text as field_text
from faultbridge.decode.frames.documents import blocks, loads, objects, text_of
from faultbridge.decode.frames.prometheus import samples
from faultbridge.model.errors import Rejected
from faultbridge.model.fault_enums import ComponentType
from faultbridge.model.faults import Component

METRICS = ("node_infiniband_",)
_TABLE = table("rdma")
_INFO = "node_infiniband_info"
MAX_PORTS = 512
_PORT = re.compile(r"/infiniband/([^/\s:]{1,64})/ports/(\d{1,3})/(?:(hw_counters|counters)/)?(\w{1,64})$")
_DEVICE = re.compile(r"/infiniband/([^/\s:]{1,64})/(?:device/)?(vendor|node_desc|hca_type|board_id)$")
_NETDEV = re.compile(r"/devices/(?:[^/\s]{1,64}/){0,16}([0-9a-f:.]{7,16})/net/([^/\s:]{1,64})/(operstate|carrier)$")
_PCI_DEVICE = re.compile(r"/([0-9a-f:.]{7,16})/infiniband/([^/\s:]{1,64})/")
_LINE = re.compile(r"(/\S{8,512}/\w{1,64}):[ \t]{0,4}(.{0,256})$")
_NUMBER = re.compile(r"\d{1,20}")
_EFA = re.compile(r"rdmap|efa_")
_AMAZON = "0x1d0f"


class Port(Struct):
    """One RDMA port, and the PCI address, vendor and model of its device.

    `fields` has the states and the rate by name, as text, and faults that mlxlink reports. `counters` has the counters
    by name. `netdev` has the name and states of the network interface of the device.
    """

    device: str
    number: int
    fields: dict[str, str] = struct_field(default_factory=dict)
    counters: dict[str, int] = struct_field(default_factory=dict)
    netdev: dict[str, str] = struct_field(default_factory=dict)
    pci: str | None = None
    vendor: str | None = None
    model: str | None = None

    @property
    def component(self) -> Component:
        """Return the port as a NIC component.

        Its name is the name of the device, such as `mlx5_0`. A port number above 1 is added, such as `mlx5_0/2`.
        """
        name = self.device if self.number in {0, 1} else f"{self.device}/{self.number}"
        return Component(ComponentType.NIC, name=name)

    @property
    def is_efa(self) -> bool:
        """Return whether the port is an Elastic Fabric Adapter, which always reports `ACTIVE` and `LinkUp`."""
        return self.vendor == _AMAZON or _EFA.match(self.device) is not None


def ports_of(body: str) -> tuple[Port, ...] | None:
    """Return up to 512 ports in a sysfs tree or in metrics, in order, or None for other input."""
    if body.lstrip()[:1] == "{":
        pairs = [
            (path, value)
            for _, document in objects(body)
            for path, value in document.items()
            if isinstance(value, str) and path.startswith("/sys")
        ]
    else:
        pairs = [(found[1], found[2]) for line in body.splitlines() if (found := _LINE.match(line[:1024]))]
    if any("/infiniband/" in path for path, _ in pairs):
        return tuple(port for sample in _samples(pairs) for port in _of_tree(sample))[:MAX_PORTS]
    return _of_metrics(body) if METRICS[0] in body else None


def _samples(pairs: list[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    """Yield the (path, value) pairs of each sample of a sysfs tree."""
    sample: dict[str, str] = {}
    for path, value in pairs:
        if path in sample:
            yield list(sample.items())
            sample = {}
        sample[path] = value
    yield list(sample.items())


def _of_tree(pairs: list[tuple[str, str]]) -> tuple[Port, ...]:
    ports: dict[tuple[str, int], Port] = {}
    devices: dict[str, str] = {}
    facts: dict[str, dict[str, str]] = {}
    netdevs: dict[str, dict[str, str]] = {}
    for path, text in pairs:
        found, value = _PORT.search(path), text.strip()
        if found and len(ports) < MAX_PORTS:
            port = ports.setdefault((found[1], int(found[2])), Port(found[1], int(found[2])))
            _set_value(port, found[4], value, is_counter=found[3] is not None)
            pci = _PCI_DEVICE.search(path)
            if pci:
                devices[pci[2]] = pci[1]
        elif device := _DEVICE.search(path):
            facts.setdefault(device[1], {})[device[2]] = value
        elif netdev := _NETDEV.search(path):
            netdevs.setdefault(netdev[1], {"name": netdev[2]})[netdev[3]] = value
    for port in ports.values():
        address = devices.get(port.device)
        known = facts.get(port.device, {})
        port.pci, port.vendor = pci_of(address or ""), known.get("vendor")
        port.model = known.get("board_id") or known.get("hca_type")
        port.netdev = netdevs.get(address or "", {})
    return tuple(ports.values())


def _set_value(port: Port, name: str, value: str, *, is_counter: bool) -> None:
    if not is_counter:
        port.fields[name] = value
    elif _NUMBER.fullmatch(value):
        port.counters[name] = int(value)


def _of_metrics(body: str) -> tuple[Port, ...]:
    """Return the ports of all scrapes in a text of metrics."""
    ports: dict[tuple[str, int], Port] = {}
    earlier: list[Port] = []
    seen: set[tuple[str, str, str]] = set()
    models: dict[str, str | None] = {}
    for sample in samples(body, METRICS):
        device, number = sample.label("device"), sample.label("port") or "1"
        if device is None or not number.isdigit() or len(number) > 3 or sample.value is None:  # noqa: PLR2004 - as in sysfs
            continue
        if len(ports) + len(earlier) >= MAX_PORTS:
            break
        if sample.name == _INFO:
            models[device[:64]] = sample.label("board_id", "hca_type")
            continue
        series = device[:64], number, sample.name
        if series in seen:
            earlier += ports.values()
            ports, seen = {}, set()
        seen.add(series)
        port = ports.setdefault((device[:64], int(number)), Port(device[:64], int(number)))
        name = sample.name.removeprefix(METRICS[0])
        if name.endswith("_total"):
            port.counters[_TABLE["metrics"].get(name[:-6], name[:-6])] = int(sample.value)
        elif name in {"state_id", "physical_state_id"}:
            port.fields[{"state_id": "state"}.get(name, "phys_state")] = f"{int(sample.value)}:"
        elif name == "rate_bytes_per_second":
            port.fields["rate"] = f"{int(sample.value) * 8 // 10**9} Gb/sec"
    found = (*earlier, *ports.values())
    for port in found:
        port.model = models.get(port.device)
    return found


def state_number(text: str | None) -> int | None:
    """Return the number before the colon in a state such as `4: ACTIVE`, or None if there is none."""
    head = (text or "").partition(":")[0].strip()
    return int(head) if head.isascii() and head.isdigit() and len(head) <= 2 else None  # noqa: PLR2004 - at most two digits


def gigabits(text: str | None) -> int | None:
    """Return the rate in Gb/s of a text such as `200 Gb/sec (4X HDR)` or `200`, or None for other text."""
    found = re.match(r"(\d{1,5})(?:\.\d{1,3})?(?: Gb/sec|$)", (text or "").strip())
    return int(found[1]) if found else None


# Reads the ports that `rdma link` prints, as text or JSON.
#
# Grammar: one line `link DEVICE/PORT state STATE physical_state STATE [netdev NAME]` per port, or JSON objects with
# these members. Source: iproute2's rdma/link.c.

_LINK = re.compile(
    r"^(?:link |\d{1,3}/\d{1,3}: )?([\w.-]{1,64})/(\d{1,3}):? (?:.{0,64} )?state (\w{1,16}) physical_state (\w{1,32})",
    re.MULTILINE,
)


def is_rdma_link(body: bytes) -> bool:
    """Return whether a body is probably the output of `rdma link`."""
    is_json = b'"physical_state"' in body and b'"ifname"' in body
    return is_json or (b" physical_state " in body and _LINK.search(text_of(body)) is not None)


def ports_of_rdma_link(body: str) -> Iterator[Port]:
    """Yield the ports in the output of `rdma link` in order, up to 512."""
    if body.lstrip()[:1] in {"[", "{"}:
        for _, link in list(objects(body))[:MAX_PORTS]:
            name = field_text(link.get("ifname"), 64)
            if name is not None and "physical_state" in link:
                port = min(number(link.get("port")) or 1, 999)
                yield _port(name, port, str(link.get("state", "")), str(link["physical_state"]))
        return
    for found in list(_LINK.finditer(body))[:MAX_PORTS]:
        yield _port(found[1], int(found[2]), found[3], found[4])


def _port(name: str, number: int, state: str, physical: str) -> Port:
    fields = {"state": state_text("states", state), "phys_state": state_text("physical_states", physical)}
    return Port(name, number, {field: value for field, value in fields.items() if value})


def state_text(kind: str, word: str) -> str | None:
    """Return the text of sysfs, such as `5: LinkUp`, for a word of another tool; None for an unknown word."""
    text: str | None = _TABLE[kind].get(word.upper().replace("_", ""))
    return text


# Reads the ports whose counters `perfquery` and `mlxlink -c` print.
#
# Neither tool prints the name of the device. A line `# DEVICE/PORT` before an output provides it. Without this line, a
# port of perfquery has its LID as name, and an output of mlxlink is `Rejected`, because its ports cannot be
# distinguished. Grammar: perfquery's `# ... counters: Lid N port N` and `Name:....value`; mlxlink's `Name : value` or
# its JSON. Source: rdma-core's perfquery, NVIDIA's firmware tools 4.18 to 4.34.

_HEADING = re.compile(r"^# ?([A-Za-z][\w.-]{1,63})/(\d{1,3})[ \t\r]{0,8}$", re.MULTILINE)
_PERFQUERY = re.compile(
    r"^# [\w ]{1,40}counters: Lid (\d{1,6}) (?:\([^)\n]{0,64}\) )?port (\d{1,3})\b[^\n]{0,128}$", re.MULTILINE
)
_VALUE = re.compile(r"^(\w{1,60}):\.{1,60}(\d{1,20})\s{0,4}$", re.MULTILINE)
_FIELD = re.compile(r"^([A-Z][\w \[\]-]{1,60}?) {0,60}: (\S[^\n]{0,200})$", re.MULTILINE)
_COLOR = re.compile(r"\x1b\[[0-9;]{0,16}m")
_SECTIONS = ("Physical Counters and BER Info", "Operational Info", "Module Info", "Troubleshooting Info")
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
    first = _HEADING.search(body)
    yield None, body[: first.start() if first else len(body)]
    yield from (((heading[1], int(heading[2])), text) for heading, text in blocks(_HEADING, body))


def _of_perfquery(device: tuple[str, int] | None, text: str) -> Iterator[Port]:
    for head, values in blocks(_PERFQUERY, text):
        name, number = device or (f"lid{int(head[1])}", int(head[2]))
        yield Port(name, number, counters=_counters(dict(_VALUE.findall(values))))


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
    values = {name: str(fields[tool]).strip() for tool, name in _TABLE["tools"].items() if tool in fields}
    return {name: int(value) for name, value in values.items() if _NUMBER.fullmatch(value)}
