"""Decodes `infiniband-state`: the states of InfiniBand and RoCE ports.

An unused port is down, so a port that is down in the first sample is no fault. A link that is lost later is a fault,
and so is a link that does not become active. An Elastic Fabric Adapter always reports active, so its state is ignored.
Its rate is checked if the instance type is known (`common.instance_type`).

Grammar: blocks of ibstat or ibstatus, `rdma link` (`rdma_link`), `path: value` lines of sysfs, the same as JSON, or
metrics (`rdma_ports`). If ibstat stopped at a device, the ports before that device are read. Times: none. Units: Gb/s.
Errors: `Rejected(no_framing)` without a port. Source: rdma-core's tools, Linux's sysfs, node_exporter.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from faultbridge.decode.data import table
from faultbridge.decode.data.counters import efa_rates_with
from faultbridge.decode.frames.decoder import Hints, attributes_of, evidence, truncate
from faultbridge.decode.frames.documents import blocks, text_of
from faultbridge.decode.network.link_state import PortRate, compare_rates
from faultbridge.decode.network.rdma_ports import (
    Port,
    gigabits,
    is_rdma_link,
    ports_of,
    ports_of_rdma_link,
    state_number,
    state_text,
)
from faultbridge.model.errors import Rejected
from faultbridge.model.fault_enums import ComponentType
from faultbridge.model.faults import Component, CounterSample, EfaRates, Fault, Observation, Snapshot

SOURCE = "infiniband-state"
STUCK, NETDEV_DOWN, ABSENT = "net.ib_port_stuck", "net.ib_netdev_down", "net.link_absent"
_INIT, _ACTIVE, _LINK_UP = 2, 4, 5


def decode(body: bytes, hints: Hints) -> tuple[Observation, ...]:
    """Return health snapshots of port states and port rates, and a counter sample of each readable port."""
    text = text_of(body)
    tree = ports_of(text)
    listed = (*_ports_of_ibstat(text), *_ports_of_ibstatus(text))
    ports = tree if tree is not None else listed or tuple(ports_of_rdma_link(text) if is_rdma_link(body) else ())
    gone = _vanished(text)
    if not ports and not gone:
        raise Rejected("no_framing", "no port of an InfiniBand device")
    return states_of(ports, hints, gone)


def states_of(ports: Sequence[Port], hints: Hints, gone: Sequence[str] = ()) -> tuple[Observation, ...]:
    """Return health snapshots of port states and of compared rates, and a counter sample of each port.

    - The snapshot of the compared rates is left out if no rates can be compared.
    - `gone` lists the names of absent devices. Each of them is a fault.
    - A port whose state cannot be read is left out.
    - Of an Elastic Fabric Adapter, only the rate is observed, because such a port always reports that it is active.
    """
    readable = [port for port in ports if not port.is_efa and state_number(port.fields.get("state")) is not None]
    present = [fault for port in readable for fault in _faults(port)] + [_absent(name) for name in gone]
    compared = compare_rates(SOURCE, _rates(readable), hints)
    states = Snapshot(SOURCE, _covers(readable, gone), tuple(present), efa_rates=_efa_rates(ports, hints))
    return (states, *([compared] if compared else []), *(_reading(port) for port in readable))


def _efa_rates(ports: Iterable[Port], hints: Hints) -> EfaRates | None:
    rates = {port.component: gigabits(port.fields.get("rate")) for port in ports if port.is_efa}
    reported = {device: rate for device, rate in rates.items() if rate is not None}
    return EfaRates(reported, efa_rates_with(hints.mappings)) if reported else None


def recognize(body: bytes) -> bool:
    """Return whether a body is probably output of ibstat, ibstatus or rdma link, or lists port states."""
    if b"CA '" in body or b"Infiniband device '" in body or is_rdma_link(body):
        return True
    tree = b"/infiniband/" in body and b"/state" in body and b"counters/" not in body
    return tree or (b"node_infiniband_state_id" in body and b"node_infiniband_link_downed" not in body)


def _covers(readable: Iterable[Port], gone: Iterable[str]) -> dict[str, tuple[Component, ...]]:
    ports = tuple(readable)
    present_ports = tuple(port.component for port in ports)
    with_netdev = tuple(port.component for port in ports if port.netdev.get("operstate"))
    absent = tuple(Component(ComponentType.NIC, name=name) for name in gone)
    up = tuple(port.component for port in ports if state_number(port.fields.get("phys_state")) == _LINK_UP)
    # A link that is up clears the fault of its loss; a link that is down clears nothing.
    covers = {STUCK: present_ports, NETDEV_DOWN: with_netdev, ABSENT: (*present_ports, *absent), "net.ib_port_down": up}
    return {code: components for code, components in covers.items() if components}


def _rates(ports: Iterable[Port]) -> Iterator[PortRate]:
    """Yield the rates of the active ports.

    Ethernet ports without a model are not compared with others, because they can be management ports. Ports with
    different subnet managers belong to different fabrics, so they are not compared with each other.
    """
    for port in ports:
        rate, layer = gigabits(port.fields.get("rate")), port.fields.get("link_layer")
        is_active = state_number(port.fields.get("state")) == _ACTIVE
        if rate is not None and is_active:
            kind = (port.model, layer, port.fields.get("sm_lid"))
            yield PortRate(port.component, kind if port.model or layer == "InfiniBand" else None, rate)


def _faults(port: Port) -> Iterator[Fault]:
    state, physical = state_number(port.fields.get("state")), state_number(port.fields.get("phys_state"))
    if physical == _LINK_UP and state == _INIT:
        yield _fault(port, STUCK, f"{port.component.name} has a link that does not become active (state INIT).")
    elif state == _ACTIVE and port.netdev.get("operstate") == "down":
        interface = port.netdev["name"]
        yield _fault(port, NETDEV_DOWN, f"{port.component.name} is active, but its interface {interface} is down.")


def _fault(port: Port, code: str, message: str) -> Fault:
    states = {name: port.fields.get(name) for name in ("state", "phys_state", "rate", "link_layer")}
    states |= {"interface": port.netdev.get("name"), "operstate": port.netdev.get("operstate"), "pci": port.pci}
    shown = ", ".join(f"{name}: {value}" for name, value in states.items() if value)
    return Fault(SOURCE, code, port.component, truncate(message), None, evidence(shown), attributes_of(**states))


def _absent(name: str) -> Fault:
    component = Component(ComponentType.NIC, name=name)
    return Fault(SOURCE, ABSENT, component, f"{name} is absent.", None, f"stat of IB device '{name}' failed")


def _reading(port: Port) -> CounterSample:
    values: dict[str, int | str] = {"ib_link": int(state_number(port.fields.get("phys_state")) == _LINK_UP)}
    rate = gigabits(port.fields.get("rate"))
    if rate is not None:
        values["ib_rate"] = rate
    return CounterSample(SOURCE, port.component, values)


_CA = re.compile(r"^CA '([^']{1,64})'", re.MULTILINE)
_MODEL = re.compile(r"^\s{1,16}CA type: (\S{1,64})", re.MULTILINE)
_PORT = re.compile(r"^\s{1,16}Port (\d{1,3}):", re.MULTILINE)
_FIELD = re.compile(r"^\s{1,16}(State|Physical state|Rate|Link layer|SM lid): {0,4}(\S.{0,64})$", re.MULTILINE)
_STATUS = re.compile(r"^Infiniband device '([^']{1,64})' port (\d{1,3}) status:", re.MULTILINE)
_STATUS_FIELD = re.compile(r"^\s{1,16}(state|phys state|rate|link_layer|sm lid):[ \t]{0,16}(\S.{0,64})$", re.MULTILINE)
_PANIC = re.compile(r"^ibpanic: .{0,128}\bIB device '([^']{1,64})' failed", re.MULTILINE)


def _ports_of_ibstat(body: str) -> tuple[Port, ...]:
    found: list[Port] = []
    names = table("rdma")["ibstat"]
    for name, block in blocks(_CA, body):
        model = _MODEL.search(block)
        for number, fields in blocks(_PORT, block):
            port = Port(name[1], int(number[1]), model=model[1] if model else None)
            port.fields = {names[item]: _numbered(item, value.strip()) for item, value in _FIELD.findall(fields)}
            found.append(port)
    return tuple(found)


def _ports_of_ibstatus(body: str) -> tuple[Port, ...]:
    found: list[Port] = []
    for heading, block in blocks(_STATUS, body):
        port = Port(heading[1], int(heading[2]))
        port.fields = {name.replace(" ", "_"): value.strip() for name, value in _STATUS_FIELD.findall(block)}
        found.append(port)
    return tuple(found)


def _vanished(body: str) -> tuple[str, ...]:
    """Return the devices at which `ibstat` stopped, because they disappeared while it ran."""
    return tuple(_PANIC.findall(body))


def _numbered(name: str, value: str) -> str:
    kind = {"State": "states", "Physical state": "physical_states"}.get(name)
    return (state_text(kind, value) if kind else None) or value
