"""Decodes `pci-devices`: lspci, with or without details, as a health snapshot of GPUs and adapters.

lspci prints `(rev ff)` for a device that does not respond: the device is lost, or asleep without power. A link that is
slower than its device supports is normal while the device is idle. A link with fewer lanes is a fault.

Grammar: `[DOMAIN:]BUS:DEVICE.FUNCTION CLASS: NAME (rev NN)`, then indented details with `LnkSta: Speed S, Width xN`.
Times: none. Units: none. Errors: `Rejected(no_framing)` without a device. Source: pciutils 3.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from faultbridge.decode.frames.decoder import Hints, bounded, evidence, truncate
from faultbridge.decode.frames.documents import blocks, text_of
from faultbridge.model.errors import Rejected
from faultbridge.model.fault_enums import ComponentType
from faultbridge.model.faults import Component, Fault, Observation, Snapshot, normalize_pci

SOURCE = "pci-devices"
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


def decode(body: bytes, _hints: Hints) -> tuple[Observation, ...]:
    """Return one health snapshot of the GPUs and network adapters of the node."""
    devices = list(blocks(_DEVICE, text_of(body)))
    if not devices:
        raise Rejected("no_framing", "no device of lspci")
    judged = bounded(_judged(devices), _MAX_JUDGED)
    covers = {UNREADABLE: tuple(component for component, *_ in judged)}
    covers[FEWER_LANES] = tuple(component for component, _, details in judged if "LnkSta:" in details)
    present = tuple(fault for component, line, details in judged for fault in _faults(component, line, details))
    return (Snapshot(SOURCE, {code: found for code, found in covers.items() if found}, present),)


def recognize(body: bytes) -> bool:
    """Return whether one of the first 50 lines is a device that lspci lists."""
    return _DEVICE.search("\n".join(text_of(body[:16384]).split("\n", 50)[:50])) is not None


def _judged(devices: list[tuple[re.Match[str], str]]) -> Iterator[tuple[Component, str, str]]:
    for found, details in devices:
        is_gpu = found[2] in _GPU_CLASSES and _GPU_VENDOR in found[3]
        if is_gpu or found[2] in _NIC_CLASSES:
            kind = ComponentType.GPU if is_gpu else ComponentType.NIC
            yield Component(kind, pci=normalize_pci(found[1])), found[0], details


def _faults(component: Component, line: str, details: str) -> Iterator[Fault]:
    if "(rev ff)" in line:
        text = f"{component.pci} does not respond to reads of its configuration."
        yield Fault(SOURCE, UNREADABLE, component, text, None, evidence(line))
    elif (link := _LINK.search(details)) is not None:
        text = f"{component.pci} uses fewer PCIe lanes than it has: {link[1]}"
        yield Fault(SOURCE, FEWER_LANES, component, truncate(text), None, evidence(f"{line}\n{link[0].strip()}"))
