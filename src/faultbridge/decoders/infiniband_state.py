"""`infiniband-state`: the states of InfiniBand and RoCE ports, from ibstat, ibstatus, sysfs or node_exporter.

A port without a partner may be one that nobody uses, so being down is no fault at the first look: losing the link is,
and so is a link that stands and does not become active. An Elastic Fabric Adapter says it is active whatever happens:
nothing is concluded from its states.

Grammar: ibstat's blocks, ibstatus's, `path: value` of sysfs or the same as JSON, or metrics (`ib_tools`, `port_tree`).
Times: none is carried. Units: Gb/s. Errors: `Rejected(no_framing)` where no port is there; ibstat that died half-way
is read up to there. Source: rdma-core's tools, Linux's sysfs, node_exporter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from faultbridge.decoders.base import Decoder, Hints, cut, evidence
from faultbridge.decoders.documents import text_of
from faultbridge.decoders.fields import told
from faultbridge.decoders.ib_tools import ports_of_ibstat, ports_of_ibstatus, vanished
from faultbridge.decoders.port_tree import Port, gigabits, ports_of, state_number
from faultbridge.domain.faults import Component, ComponentType, CounterSample, Fault, Observation, Snapshot
from faultbridge.errors import Rejected

SOURCE = "infiniband-state"
STUCK, NETDEV_DOWN, ABSENT = "net.ib_port_stuck", "net.ib_netdev_down", "net.link_absent"
_INIT, _ACTIVE, _LINK_UP = 2, 4, 5


def decode(body: bytes, _hints: Hints) -> tuple[Observation, ...]:
    """Health snapshot the ports that could be read, and give each one's link as a reading."""
    written = text_of(body)
    tree = ports_of(written)
    ports = tree if tree is not None else (*ports_of_ibstat(written), *ports_of_ibstatus(written))
    gone = vanished(written)
    if not ports and not gone:
        raise Rejected("no_framing", "no port of an InfiniBand device in it")
    readable = [port for port in ports if not port.is_efa and state_number(port.fields.get("state")) is not None]
    present = [fault for port in readable for fault in _faults(port)] + [_absent(name) for name in gone]
    return (Snapshot(SOURCE, _covers(readable, gone), tuple(present)), *(_reading(port) for port in readable))


def recognize(body: bytes) -> bool:
    """Tell whether ibstat, ibstatus or a tree of port states without counters is there."""
    if b"CA '" in body or b"Infiniband device '" in body:
        return True
    tree = b"/infiniband/" in body and b"/state" in body and b"counters/" not in body
    return tree or (b"node_infiniband_state_id" in body and b"node_infiniband_link_downed" not in body)


def _covers(readable: Iterable[Port], gone: Iterable[str]) -> dict[str, tuple[Component, ...]]:
    ports = tuple(readable)
    there = tuple(port.component for port in ports)
    with_netdev = tuple(port.component for port in ports if port.netdev.get("operstate"))
    absent = tuple(Component(ComponentType.NIC, name=name) for name in gone)
    up = tuple(port.component for port in ports if state_number(port.fields.get("phys_state")) == _LINK_UP)
    # A link that is back ends what its loss began; one that is down proves nothing.
    covers = {STUCK: there, NETDEV_DOWN: with_netdev, ABSENT: (*there, *absent), "net.ib_port_down": up}
    return {code: components for code, components in covers.items() if components}


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
    return Fault(SOURCE, code, port.component, cut(message), None, evidence(shown), told(**states))


def _absent(name: str) -> Fault:
    component = Component(ComponentType.NIC, name=name)
    return Fault(SOURCE, ABSENT, component, f"{name} is gone.", None, f"stat of IB device '{name}' failed")


def _reading(port: Port) -> CounterSample:
    values: dict[str, int | str] = {"ib_link": int(state_number(port.fields.get("phys_state")) == _LINK_UP)}
    rate = gigabits(port.fields.get("rate"))
    if rate is not None:
        values["ib_rate"] = rate
    return CounterSample(SOURCE, port.component, values)


DECODER = Decoder(
    name=SOURCE,
    summary="ibstat, ibstatus, /sys/class/infiniband as path: value or JSON, node_infiniband_* metrics: port states",
    example="CA 'mlx5_0'\n\tPort 1:\n\t\tState: Initializing\n\t\tPhysical state: LinkUp\n\t\tRate: 400\n"
    "\t\tLink layer: InfiniBand\n",
    recognize=recognize,
    decode=decode,
)
