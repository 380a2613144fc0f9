"""What nvidia-smi prints instead of an answer, and on standard output like one: a sentence a line.

A lost GPU is `Unable to determine the device handle for GPU 0000:02:00.0: GPU is lost. ...` or `...: Unknown Error`,
with or without a space before the address, with or without an index. The other sentences are about the driver, not
about the hardware. Source: nvidia-smi's man page (exit codes 6, 9, 14, 15, 255) and captures.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from faultbridge.decoders.base import bounded, pci_of
from faultbridge.decoders.nvidia_smi_snapshot import index_of, stated
from faultbridge.domain.faults import NODE_COMPONENT, Component, ComponentType, Fault, Snapshot
from faultbridge.errors import Rejected

_BDF = r"([0-9a-fA-F]{1,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-9a-fA-F])"
_HANDLE = re.compile(rf"Unable to determine the device handle for GPU ?(?:(\d{{1,3}}): ?)?{_BDF}: (.{{1,100}})")
_INFOROM = re.compile(rf"WARNING: infoROM is corrupted at gpu {_BDF}", re.IGNORECASE)
_SENTENCES: tuple[tuple[str, str], ...] = (
    ("Failed to initialize NVML: Driver/library version mismatch", "smi.driver_mismatch"),
    ("Failed to initialize NVML: Unknown Error", "smi.nvml_unknown_error"),
    ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver", "smi.driver_not_loaded"),
    ("Failed to initialize NVML: Driver Not Loaded", "smi.driver_not_loaded"),
    ("No devices were found", "smi.no_devices"),
    ("No devices found", "smi.no_devices"),
)
_REFUSED = "Failed to initialize NVML: Insufficient Permissions"
# PCIe cards and single GPUs have no links that could be active.
_FINE = "NVML: Unable to retrieve NVLink information as all links are inactive"
_ANY = (
    "Unable to determine the device handle for GPU",
    "WARNING: infoROM is corrupted",
    *(sentence for sentence, _ in _SENTENCES),
    _REFUSED,
    _FINE,
)


def names_failure(text: str) -> bool:
    """Tell whether one of nvidia-smi's own sentences stands in a text."""
    return any(sentence in text for sentence in _ANY)


def failures(source: str, text: str) -> tuple[Snapshot, ...]:
    """Return what a run that gave no answer says, as a look that could read nothing else.

    A run that lacked permission looked at nothing, and is `Rejected` as such.
    """
    found = stated_failures(source, text)
    if not found and _REFUSED in text:
        raise Rejected("insufficient_permissions", "nvidia-smi was not allowed to look")
    covers: dict[str, tuple[Component, ...]] = {}
    for fault in found:
        covers[fault.code] = (*covers.get(fault.code, ()), fault.component)
    return (Snapshot(source, covers, found),)


def stated_failures(source: str, text: str) -> tuple[Fault, ...]:
    """Return the faults that a text states in nvidia-smi's sentences, each once."""
    faults = (_fault(source, line.strip()) for line in text.split("\n") if names_failure(line))
    return tuple(bounded(_once(fault for fault in faults if fault is not None)))


def _once(faults: Iterable[Fault]) -> Iterator[Fault]:
    seen: set[tuple[str, Component]] = set()
    for fault in faults:
        if (fault.code, fault.component) not in seen:
            seen.add((fault.code, fault.component))
            yield fault


def _fault(source: str, line: str) -> Fault | None:
    handle = _HANDLE.search(line)
    if handle is not None:
        return stated(source, "smi.gpu_lost", _gpu(handle[2], handle[1] or ""), line, {"error": handle[3].rstrip(".")})
    corrupted = _INFOROM.search(line)
    if corrupted is not None:
        return stated(source, "smi.inforom_corrupted", _gpu(corrupted[1]), line)
    code = next((code for sentence, code in _SENTENCES if sentence in line), None)
    return stated(source, code, NODE_COMPONENT, line) if code else None


def _gpu(address: str, index: str = "") -> Component:
    # A device number that no bus has is a misprint of the tool's own; what is left of the address is kept.
    bus, _, function = address.rpartition(".")
    return Component(ComponentType.GPU, pci=pci_of(f"{bus}.{function}") or pci_of(bus), index=index_of(index))
