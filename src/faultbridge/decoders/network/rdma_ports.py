"""Reads the ports of InfiniBand, RoCE and EFA devices from sysfs and from node_exporter metrics.

A counter whose value is not a number, such as `N/A (no PMA)`, is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import field

from faultbridge.dataclass import dataclass
from faultbridge.decoders.common.documents import objects
from faultbridge.decoders.common.fields import pci_of
from faultbridge.decoders.common.prometheus import samples
from faultbridge.domain.faults import Component, ComponentType

METRICS = ("node_infiniband_",)
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


@dataclass(slots=True)
class Port:
    """One RDMA port, and the PCI address, vendor and model of its device.

    `fields` has the states and the rate by name, as text, and faults that mlxlink reports. `counters` has the counters
    by name. `netdev` has the name and states of the network interface of the device.
    """

    device: str
    number: int
    fields: dict[str, str] = field(default_factory=dict)
    counters: dict[str, int] = field(default_factory=dict)
    netdev: dict[str, str] = field(default_factory=dict)
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
    """Yield the (path, value) pairs of each sample of a sysfs tree.

    A path that occurs a second time starts the next sample.
    """
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
    """Return the ports of all scrapes in a text of metrics.

    A metric series of a port that occurs a second time starts the next scrape.
    """
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
            port.counters[_SYSFS_NAMES.get(name[:-6], name[:-6])] = int(sample.value)
        elif name in {"state_id", "physical_state_id"}:
            port.fields[{"state_id": "state"}.get(name, "phys_state")] = f"{int(sample.value)}:"
        elif name == "rate_bytes_per_second":
            port.fields["rate"] = f"{int(sample.value) * 8 // 10**9} Gb/sec"
    found = (*earlier, *ports.values())
    for port in found:
        port.model = models.get(port.device)
    return found


# Counters that node_exporter renames.
_SYSFS_NAMES: Mapping[str, str] = {
    "port_errors_received": "port_rcv_errors",
    "port_discards_transmitted": "port_xmit_discards",
    "port_constraint_errors_received": "port_rcv_constraint_errors",
    "port_constraint_errors_transmitted": "port_xmit_constraint_errors",
}


def state_number(text: str | None) -> int | None:
    """Return the number before the colon in a state such as `4: ACTIVE`, or None if there is none."""
    head = (text or "").partition(":")[0].strip()
    return int(head) if head.isascii() and head.isdigit() and len(head) <= 2 else None  # noqa: PLR2004 - at most two digits


def gigabits(text: str | None) -> int | None:
    """Return the rate in Gb/s of a text such as `200 Gb/sec (4X HDR)` or `200`, or None for other text."""
    found = re.match(r"(\d{1,5})(?:\.\d{1,3})?(?: Gb/sec|$)", (text or "").strip())
    return int(found[1]) if found else None
