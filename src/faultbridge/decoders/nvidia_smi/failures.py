"""Reads the error messages that nvidia-smi prints, instead of its usual output or within it.

A lost GPU is `Unable to determine the device handle for GPU 0000:02:00.0: GPU is lost. ...` or `...: Unknown Error`,
with or without a space before the address, and with or without an index. The other messages are about the driver.
Source: nvidia-smi's man page (exit codes 6, 9, 14, 15, 255) and captures.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from faultbridge.decoders.common.fields import bounded, pci_of
from faultbridge.decoders.nvidia_smi.snapshot import index_of, stated_fault
from faultbridge.domain.faults import NODE_COMPONENT, Component, ComponentType, Fault, Snapshot
from faultbridge.errors import Rejected

_BDF = r"([0-9a-fA-F]{1,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-9a-fA-F])"
_HANDLE = re.compile(rf"Unable to determine the device handle for GPU ?(?:(\d{{1,3}}): ?)?{_BDF}: (.{{1,100}})")
_INFOROM = re.compile(rf"WARNING: infoROM is corrupted at gpu {_BDF}", re.IGNORECASE)
_DRIVER_ERRORS: tuple[tuple[str, str], ...] = (
    ("Failed to initialize NVML: Driver/library version mismatch", "smi.driver_mismatch"),
    ("Failed to initialize NVML: Unknown Error", "smi.nvml_unknown_error"),
    ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver", "smi.driver_not_loaded"),
    ("Failed to initialize NVML: Driver Not Loaded", "smi.driver_not_loaded"),
    ("No devices were found", "smi.no_devices"),
    ("No devices found", "smi.no_devices"),
)
_NO_PERMISSION = "Failed to initialize NVML: Insufficient Permissions"
# PCIe cards and single GPUs have no links, so this message is no fault. Drivers spell it differently.
_NO_ACTIVE_LINKS = tuple(
    f"NVML: Unable to retrieve {links} information as all links are {state}"
    for links in ("NVLink", "Nvlink")
    for state in ("inactive", "inActive")
)
_ANY = (
    "Unable to determine the device handle for GPU",
    "WARNING: infoROM is corrupted",
    *(message for message, _ in _DRIVER_ERRORS),
    _NO_PERMISSION,
    *_NO_ACTIVE_LINKS,
)


def has_failure(text: str) -> bool:
    """Return whether a text contains an error message of nvidia-smi."""
    return any(message in text for message in _ANY)


def failures(source: str, text: str) -> tuple[Snapshot, ...]:
    """Return the health snapshot of an nvidia-smi run that printed only error messages.

    The snapshot contains the faults that the messages report, and clears no other fault, because nvidia-smi checked
    nothing else. Raises `Rejected` if nvidia-smi had no permission and the messages report no fault.
    """
    found = find_failures(source, text)
    if not found and _NO_PERMISSION in text:
        raise Rejected(
            "insufficient_permissions", "nvidia-smi has insufficient permissions; run it with access to the driver"
        )
    covers: dict[str, tuple[Component, ...]] = {}
    for fault in found:
        covers[fault.code] = (*covers.get(fault.code, ()), fault.component)
    return (Snapshot(source, covers, found),)


def find_failures(source: str, text: str) -> tuple[Fault, ...]:
    """Return the faults that the error messages in a text report, without duplicates."""
    if not has_failure(text):  # one search of the whole text instead of one for each line
        return ()
    faults = (_fault(source, line.strip()) for line in text.split("\n") if has_failure(line))
    return tuple(bounded(_unique(fault for fault in faults if fault is not None)))


def _unique(faults: Iterable[Fault]) -> Iterator[Fault]:
    seen: set[tuple[str, Component]] = set()
    for fault in faults:
        if (fault.code, fault.component) not in seen:
            seen.add((fault.code, fault.component))
            yield fault


def _fault(source: str, line: str) -> Fault | None:
    handle = _HANDLE.search(line)
    if handle is not None:
        return stated_fault(
            source, "smi.gpu_lost", _gpu(handle[2], handle[1] or ""), line, {"error": handle[3].rstrip(".")}
        )
    corrupted = _INFOROM.search(line)
    if corrupted is not None:
        return stated_fault(source, "smi.inforom_corrupted", _gpu(corrupted[1]), line)
    code = next((code for message, code in _DRIVER_ERRORS if message in line), None)
    return stated_fault(source, code, NODE_COMPONENT, line) if code else None


def _gpu(address: str, index: str = "") -> Component:
    # nvidia-smi may print an impossible function number; the rest of the address is still used.
    bus, _, function = address.rpartition(".")
    return Component(ComponentType.GPU, pci=pci_of(f"{bus}.{function}") or pci_of(bus), index=index_of(index))
