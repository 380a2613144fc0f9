"""Decodes `pci-devices` and `neuron-monitor`: GPUs and adapters in lspci, and AWS Neuron devices, as health snapshots.

lspci prints `(rev ff)` for a device that does not respond: the device is lost, or asleep without power. A link that is
slower than its device supports is normal while the device is idle. A link with fewer lanes is a fault.

Grammar of lspci: `[DOMAIN:]BUS:DEVICE.FUNCTION CLASS: NAME (rev NN)`, perhaps with indented details with `LnkSta: Speed
S, Width xN`. Grammar of neuron-monitor: one JSON report per line; `system_data.neuron_hw_counters.neuron_devices` lists
`mem_ecc_uncorrected` and `sram_ecc_uncorrected` of each device. Times: none. Units: events since the driver was loaded.
Errors: `Rejected` without a device, or without these counters. Source: pciutils 3, AWS Neuron's documentation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from faultbridge.decode.frames.decoder import Hints, Judged, fault_of, snapshot_of
from faultbridge.decode.frames.documents import blocks, objects, text_of
from faultbridge.decode.frames.values import bounded, members, number, objects_in
from faultbridge.model.errors import Rejected
from faultbridge.model.fault_enums import ComponentType
from faultbridge.model.faults import NODE_COMPONENT, Component, Observation, normalize_pci

PCI, NEURON = "pci-devices", "neuron-monitor"
UNREADABLE, FEWER_LANES = "host.pci_device_unreadable", "host.pcie_width_reduced"
_DEVICE = re.compile(
    r"^((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) ([A-Z3][\w /-]{2,60}?)(?: \[[0-9a-f]{4}\])?: "
    r"([^\n]{0,256})$",
    re.MULTILINE,
)
_LINK = re.compile(
    r"^\s{1,16}LnkSta:\s{0,8}(Speed [^\n,]{1,40}, Width x\d{1,2} \(downgraded\)[^\n]{0,40})", re.MULTILINE
)
_GPU_CLASSES = ("3D controller", "VGA compatible controller", "Display controller")
_NIC_CLASSES = ("Infiniband controller", "Ethernet controller", "Network controller")
_GPU_VENDOR = "NVIDIA"
# A node has many devices; only those that are judged are limited.
_MAX_JUDGED = 512


def decode(source: str, body: bytes, _hints: Hints) -> tuple[Observation, ...]:
    """Return one health snapshot of the GPUs and network adapters of the node, or of its Neuron devices."""
    return _of_neuron(body) if source == NEURON else _of_lspci(body)


def _of_lspci(body: bytes) -> tuple[Observation, ...]:
    devices = list(blocks(_DEVICE, text_of(body)))
    if not devices:
        raise Rejected("no_framing", "no device of lspci")
    judged = bounded(_judged(devices), _MAX_JUDGED)
    return (snapshot_of(PCI, (one for device in judged for one in _checks(*device))),)


def recognize(_source: str, body: bytes) -> bool:
    """Return whether one of the first 50 lines is a device that lspci lists."""
    return _DEVICE.search("\n".join(text_of(body[:16384]).split("\n", 50)[:50])) is not None


def _judged(devices: list[tuple[re.Match[str], str]]) -> Iterator[tuple[Component, str, str]]:
    for found, details in devices:
        is_gpu = found[2] in _GPU_CLASSES and _GPU_VENDOR in found[3]
        if is_gpu or found[2] in _NIC_CLASSES:
            kind = ComponentType.GPU if is_gpu else ComponentType.NIC
            yield Component(kind, pci=normalize_pci(found[1])), found[0], details


def _checks(component: Component, line: str, details: str) -> Iterator[Judged]:
    is_unreadable, link = "(rev ff)" in line, _LINK.search(details)
    text = f"{component.pci} does not respond to reads of its configuration."
    yield UNREADABLE, component, fault_of(PCI, UNREADABLE, component, text, line) if is_unreadable else None
    if "LnkSta:" in details:
        text = f"{component.pci} uses fewer PCIe lanes than it has: {link[1] if link else ''}"
        raw = f"{line}\n{link[0].strip() if link else ''}"
        is_narrow = link is not None and not is_unreadable
        yield FEWER_LANES, component, fault_of(PCI, FEWER_LANES, component, text, raw) if is_narrow else None


MEMORY = "agent.neuron_memory_error"
_UNCORRECTED = ("mem_ecc_uncorrected", "sram_ecc_uncorrected")
_MAX_REPORTS = 100_000


def _of_neuron(body: bytes) -> tuple[Observation, ...]:
    """Return a health snapshot of the Neuron devices in the last report that lists hardware counters.

    A snapshot without errors ends an earlier fault only if the report has both counters of every device.
    """
    devices = None
    for _, report in bounded(objects(text_of(body)), _MAX_REPORTS):
        counters = members(members(report.get("system_data")).get("neuron_hw_counters"))
        devices = objects_in(counters.get("neuron_devices")) or devices
    counts = [
        (f"device {number(device.get('neuron_device_index'))}: {name}", number(device.get(name)))
        for device in bounded(devices or ())
        for name in _UNCORRECTED
    ]
    if all(count is None for _, count in counts):
        raise Rejected("wrong_shape", "no error counter of a device in `neuron_hw_counters`")
    errors = ", ".join(f"{name} {count}" for name, count in counts if count)
    fault = fault_of(NEURON, MEMORY, NODE_COMPONENT, f"Neuron {errors}", errors)
    # A device without a counter may have errors, so the report does not end an earlier fault.
    is_known = errors or all(count is not None for _, count in counts)
    judged = [(MEMORY, NODE_COMPONENT, fault if errors else None)] if is_known else []
    return (snapshot_of(NEURON, judged),)
