"""Decodes `infiniband-state` and `rdma-counters`: states and error counters of InfiniBand, RoCE and EFA ports.

An unused port is down, so a port that is down in the first sample is no fault. A link that is lost later is a fault,
and so is a link that does not become active. An Elastic Fabric Adapter always reports active, so its state is ignored.
Its rate is checked if the instance type is known (`frames.instance_type`). The packaged thresholds define which
counters are kept, and which increase is a fault. If an input has states and counters, both are decoded.

Grammar: `path: value` lines of sysfs, the same as JSON, or metrics of node_exporter; blocks of ibstat or ibstatus;
`rdma link`; `name :value` lines below a line `# DEVICE/PORT`; `rdma statistic` as text or JSON (flat or nested); the
output of perfquery and mlxlink. If ibstat stopped at a device, the ports before that device are read. A counter that
cannot be read, such as `N/A (no PMA)`, is left out, and is not zero. Times: none. Units: Gb/s; packets, events or bytes
since the driver was loaded. Errors: `Rejected(no_framing)` without a port. Source: Linux's sysfs, rdma-core, iproute2,
node_exporter, NVIDIA's tools.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from msgspec import Struct
from msgspec import field as struct_field

from faultbridge.decode.data import table
from faultbridge.decode.data.counters import counters_of, efa_rates_with
from faultbridge.decode.frames.decoder import Hints, Judged, fault_of, snapshot_of
from faultbridge.decode.frames.documents import blocks, loads, objects, text_of
from faultbridge.decode.frames.prometheus import samples
from faultbridge.decode.frames.values import bounded, digits, members, number, pci_of
from faultbridge.decode.frames.values import text as field_text
from faultbridge.decode.network.link_state import PortRate, compare_rates
from faultbridge.model.errors import Rejected
from faultbridge.model.fault_enums import ComponentType
from faultbridge.model.faults import Component, CounterSample, EfaRates, Fault, Observation
from faultbridge.model.values import replace

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


def _ports_of(body: str) -> tuple[Port, ...] | None:
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


def _samples(pairs: list[tuple[str, str]]) -> Iterator[dict[str, str]]:
    """Yield each sample of a sysfs tree: its values by path. A path that occurs again starts the next sample."""
    sample: dict[str, str] = {}
    for path, value in pairs:
        if path in sample:
            yield sample
            sample = {}
        sample[path] = value
    yield sample


def _of_tree(sample: Mapping[str, str]) -> tuple[Port, ...]:
    ports: dict[tuple[str, int], Port] = {}
    devices: dict[str, str] = {}
    facts: dict[str, dict[str, str]] = {}
    netdevs: dict[str, dict[str, str]] = {}
    for path, text in sample.items():
        found, value = _PORT.search(path), text.strip()
        if found and len(ports) < MAX_PORTS:
            port = ports.setdefault((found[1], int(found[2])), Port(found[1], int(found[2])))
            if found[3] is None:
                port.fields[found[4]] = value
            elif _NUMBER.fullmatch(value):
                port.counters[found[4]] = int(value)
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


def _gigabits(text: str | None) -> int | None:
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


def _is_rdma_link(body: bytes) -> bool:
    """Return whether a body is probably the output of `rdma link`."""
    is_json = b'"physical_state"' in body and b'"ifname"' in body
    return is_json or (b" physical_state " in body and _LINK.search(text_of(body)) is not None)


def _ports_of_rdma_link(body: str) -> Iterator[Port]:
    """Yield the ports in the output of `rdma link` in order, up to 512."""
    if body.lstrip()[:1] in {"[", "{"}:
        links = (link for _, link in list(objects(body))[:MAX_PORTS] if "physical_state" in link)
        rows = (
            (name, min(number(link.get("port")) or 1, 999), str(link.get("state", "")), str(link["physical_state"]))
            for link in links
            if (name := field_text(link.get("ifname"), 64)) is not None
        )
    else:
        rows = ((one[1], int(one[2]), one[3], one[4]) for one in islice(_LINK.finditer(body), MAX_PORTS))
    for name, port, state, physical in rows:
        fields = {"state": _state_text("states", state), "phys_state": _state_text("physical_states", physical)}
        yield Port(name, port, {field: value for field, value in fields.items() if value})


def _state_text(kind: str, word: str) -> str | None:
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


def _is_port_tool(body: bytes) -> bool:
    """Return whether a body is probably the output of perfquery, or of mlxlink with its counters."""
    return (b"counters: Lid " in body and b"PortSelect:." in body) or _SECTIONS[0].encode() in body


def _ports_of_tools(body: str) -> Iterator[Port]:
    """Yield the ports in the output of perfquery and mlxlink, in order.

    If both tools print counters of a port, the counters of the second tool are left out. Raises `Rejected` for an
    output of mlxlink without a device name or with incomplete JSON.
    """
    tools: dict[tuple[str, int], object] = {}
    for device, text in _outputs(_COLOR.sub("", body)):
        for read in (_of_perfquery, _of_mlxlink):
            for port in read(device, text):
                # The tools count with different widths, so a port has the counters of only one of them.
                is_first = tools.setdefault((port.device, port.number), read) is read
                port.counters = port.counters if is_first else {}
                if is_first or port.fields:
                    yield port


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


STATES = "infiniband-state"
STUCK, NETDEV_DOWN, ABSENT = "net.ib_port_stuck", "net.ib_netdev_down", "net.link_absent"
_INIT, _ACTIVE, _LINK_UP = 2, 4, 5


def _decode_states(body: bytes, hints: Hints) -> tuple[Observation, ...]:
    """Return health snapshots of port states and port rates, and a counter sample of each readable port."""
    text = text_of(body)
    tree = _ports_of(text)
    listed = (*_ports_of_ibstat(text), *_ports_of_ibstatus(text))
    ports = tree if tree is not None else listed or tuple(_ports_of_rdma_link(text) if _is_rdma_link(body) else ())
    gone = tuple(_PANIC.findall(text))  # the devices at which `ibstat` stopped, because they disappeared
    if not ports and not gone:
        raise Rejected("no_framing", "no port of an InfiniBand device")
    return _states_of(ports, hints, gone)


def _states_of(ports: Sequence[Port], hints: Hints, gone: Sequence[str] = ()) -> tuple[Observation, ...]:
    """Return health snapshots of port states and of compared rates, and a counter sample of each port.

    - The snapshot of the compared rates is left out if no rates can be compared.
    - `gone` lists the names of absent devices. Each of them is a fault.
    - A port whose state cannot be read is left out.
    - Of an Elastic Fabric Adapter, only the rate is observed, because such a port always reports that it is active.
    """
    readable = [port for port in ports if not port.is_efa and _state(port) is not None]
    compared = compare_rates(STATES, _rates(readable), hints)
    states = replace(snapshot_of(STATES, _judged(readable, gone)), efa_rates=_efa_rates(ports, hints))
    return (states, *([compared] if compared else []), *(_link_reading(port) for port in readable))


def _state(port: Port, name: str = "state") -> int | None:
    """Return the number before the colon in a state such as `4: ACTIVE`, or None if there is none."""
    return digits(port.fields.get(name, "").partition(":")[0].strip(), 2)


def _efa_rates(ports: Iterable[Port], hints: Hints) -> EfaRates | None:
    rates = {port.component: _gigabits(port.fields.get("rate")) for port in ports if port.is_efa}
    reported = {device: rate for device, rate in rates.items() if rate is not None}
    return EfaRates(reported, efa_rates_with(hints.mappings)) if reported else None


def _has_states(body: bytes) -> bool:
    """Return whether a body is probably output of ibstat, ibstatus or rdma link, or lists port states."""
    if b"CA '" in body or b"Infiniband device '" in body or _is_rdma_link(body):
        return True
    tree = b"/infiniband/" in body and b"/state" in body and b"counters/" not in body
    return tree or (b"node_infiniband_state_id" in body and b"node_infiniband_link_downed" not in body)


def _judged(ports: Iterable[Port], gone: Iterable[str]) -> Iterator[Judged]:
    for port in ports:
        nic, is_up, interface = port.component, _state(port, "phys_state") == _LINK_UP, port.netdev.get("name")
        text = f"{nic.name} has a link that does not become active (state INIT)."
        yield STUCK, nic, _state_fault(port, STUCK, text) if is_up and _state(port) == _INIT else None
        if operstate := port.netdev.get("operstate"):
            text = f"{nic.name} is active, but its interface {interface} is down."
            is_down = _state(port) == _ACTIVE and operstate == "down"
            yield NETDEV_DOWN, nic, _state_fault(port, NETDEV_DOWN, text) if is_down else None
        yield ABSENT, nic, None
        if is_up:
            # A link that is up clears the fault of its loss; a link that is down clears nothing.
            yield "net.ib_port_down", nic, None
    for name in gone:
        nic = Component(ComponentType.NIC, name=name)
        yield ABSENT, nic, fault_of(STATES, ABSENT, nic, f"{name} is absent.", f"stat of IB device '{name}' failed")


def _rates(ports: Iterable[Port]) -> Iterator[PortRate]:
    """Yield the rates of the active ports.

    Ethernet ports without a model are not compared with others, because they can be management ports. Ports with
    different subnet managers belong to different fabrics, so they are not compared with each other.
    """
    for port in ports:
        rate, layer = _gigabits(port.fields.get("rate")), port.fields.get("link_layer")
        if rate is not None and _state(port) == _ACTIVE:
            kind = (port.model, layer, port.fields.get("sm_lid"))
            yield PortRate(port.component, kind if port.model or layer == "InfiniBand" else None, rate)


def _state_fault(port: Port, code: str, message: str) -> Fault:
    states: dict[str, Any] = {name: port.fields.get(name) for name in ("state", "phys_state", "rate", "link_layer")}
    states |= {"interface": port.netdev.get("name"), "operstate": port.netdev.get("operstate"), "pci": port.pci}
    shown = ", ".join(f"{name}: {value}" for name, value in states.items() if value)
    return fault_of(STATES, code, port.component, message, shown, **states)


def _link_reading(port: Port) -> CounterSample:
    values: dict[str, int | str] = {"ib_link": int(_state(port, "phys_state") == _LINK_UP)}
    rate = _gigabits(port.fields.get("rate"))
    return CounterSample(STATES, port.component, values | ({"ib_rate": rate} if rate is not None else {}))


_CA = re.compile(r"^CA '([^']{1,64})'", re.MULTILINE)
_MODEL = re.compile(r"^\s{1,16}CA type: (\S{1,64})", re.MULTILINE)
_IBSTAT_PORT = re.compile(r"^\s{1,16}Port (\d{1,3}):", re.MULTILINE)
_IBSTAT_FIELD = re.compile(r"^\s{1,16}(State|Physical state|Rate|Link layer|SM lid): {0,4}(\S.{0,64})$", re.MULTILINE)
_STATUS = re.compile(r"^Infiniband device '([^']{1,64})' port (\d{1,3}) status:", re.MULTILINE)
_STATUS_FIELD = re.compile(r"^\s{1,16}(state|phys state|rate|link_layer|sm lid):[ \t]{0,16}(\S.{0,64})$", re.MULTILINE)
_PANIC = re.compile(r"^ibpanic: .{0,128}\bIB device '([^']{1,64})' failed", re.MULTILINE)


def _ports_of_ibstat(body: str) -> Iterator[Port]:
    for name, block in blocks(_CA, body):
        model = _MODEL.search(block)
        for place, fields in blocks(_IBSTAT_PORT, block):
            stated: dict[str, str] = {}
            for label, text in _IBSTAT_FIELD.findall(fields):
                kind, value = {"State": "states", "Physical state": "physical_states"}.get(label), text.strip()
                stated[_TABLE["ibstat"][label]] = (_state_text(kind, value) if kind else None) or value
            yield Port(name[1], int(place[1]), stated, model=model[1] if model else None)


def _ports_of_ibstatus(body: str) -> Iterator[Port]:
    for heading, block in blocks(_STATUS, body):
        fields = {name.replace(" ", "_"): value.strip() for name, value in _STATUS_FIELD.findall(block)}
        yield Port(heading[1], int(heading[2]), fields)


COUNTERS = "rdma-counters"


def _decode_counters(body: bytes, hints: Hints) -> tuple[Observation, ...]:
    """Return the faults that mlxlink reports, the observations of port states, and counter samples.

    The observations of port states are those of the source `infiniband-state`. A port that has counters with a
    threshold gives one counter sample with only these counters.
    """
    document = text_of(body)
    if _is_port_tool(body):
        ports = tuple(islice(_ports_of_tools(document), MAX_PORTS))
    else:
        ports = tuple(_statistic(document)) if document.lstrip()[:1] == "[" else _ports_of(document) or ()
    ports = ports or tuple(bounded(_listed(document), MAX_PORTS))
    if not ports:
        raise Rejected(
            "no_framing", "no counter of an RDMA port; put a line `# DEVICE/PORT` before counters without one"
        )
    known = counters_of(COUNTERS)
    kept = [(port, {name: port.counters[name] for name in port.counters if name in known}) for port in ports]
    samples = (CounterSample(COUNTERS, port.component, {**values}) for port, values in kept if values)
    stated = (
        (port, code, port.fields[name]) for port in ports for name, code in _FAULTS.items() if name in port.fields
    )
    shown = ((port.component, code, error, f"{port.component.name}: {error}") for port, code, error in stated)
    faults = (fault_of(COUNTERS, code, nic, f"{text}.", text, error=error) for nic, code, error, text in shown)
    with_state = [port for port in ports if _state(port) is not None]
    return (*faults, *(_states_of(with_state, hints) if with_state else ()), *samples)


def _has_counters(body: bytes) -> bool:
    """Return whether a body probably has counters of RDMA ports, in one of the known formats."""
    tree = b"/infiniband/" in body and b"counters/" in body
    statistics = b'"ifname"' in body and b'"port"' in body and b'"operstate"' not in body
    statistics = statistics and b'"physical_state"' not in body
    listed = (b"link " in body or b" :" in body) and _LISTED.search(text_of(body)) is not None
    return tree or b"node_infiniband_link_downed" in body or statistics or listed or _is_port_tool(body)


_FAULTS = {MODULE_FAULT: "net.port_module_error", SIGNAL_FAULT: "net.link_integrity"}

# `rdma statistic` as text, on one line or one counter a line; or counters of sysfs without their path.
_LISTED = re.compile(
    r"^(?:link ([\w.-]{1,64})/(\d{1,3})\s{1,64}[a-z]\w{2,63} \d"
    r"|# ?([\w.-]{1,64})/(\d{1,3})\s{1,8}[a-z]\w{2,63} {0,32}: ?\d)",
    re.MULTILINE,
)
_LISTED_COUNTER = re.compile(r"\b([a-z]\w{2,63})(?: {1,64}| {0,32}: ?)(\d{1,20})(?=\s|$)")


def _listed(document: str) -> Iterator[Port]:
    for found, details in blocks(_LISTED, document):
        name, port = found[1] or found[3], found[2] or found[4]
        counters = {name: int(count) for name, count in _LISTED_COUNTER.findall(found[0] + details)}
        yield Port(name, int(port), counters=counters)


def _statistic(document: str) -> Iterator[Port]:
    """Yield the ports of `rdma -j statistic`. Newer versions nest the counters one level deeper."""
    for _, link in list(objects(document))[:MAX_PORTS]:
        name = field_text(link.get("ifname"), 64)
        if name is not None and "port" in link:
            pairs = [pair for group in (link, *map(members, link.values())) for pair in group.items()]
            counts = ((counter[:64], number(value)) for counter, value in pairs if counter not in {"ifindex", "port"})
            counters = {counter: count for counter, count in counts if count is not None}
            yield Port(name, min(number(link["port"]) or 1, 999), counters=counters)


def decode(source: str, body: bytes, hints: Hints) -> tuple[Observation, ...]:
    """Return the observations of port states, or of counters."""
    return _decode_states(body, hints) if source == STATES else _decode_counters(body, hints)


def recognize(source: str, body: bytes) -> bool:
    """Return whether a body probably has states or counters of RDMA ports; counters come first."""
    return _has_states(body) if source == STATES else _has_counters(body)
