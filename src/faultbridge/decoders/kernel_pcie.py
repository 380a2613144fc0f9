"""PCIe errors: `DRIVER BDF: [AER: ]PCIe Bus Error: severity=S, type=T, ...`, then lines that name the bits.

Wording differs by kernel: `Corrected` or `Correctable`, `Uncorrected (Fatal)` or `Uncorrectable (Fatal)`, `id=0010`
or the device. Corrected errors are what the link's retries are for: they are added up for each device of one input,
and only a flood counts. Source: drivers/pci/pcie/aer.c of Linux 4 to 6.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from faultbridge.decoders.kernel_prefix import USER, KernelMessage
from faultbridge.decoders.kernel_xid import device_fault
from faultbridge.domain.faults import Clear, Component, ComponentType, Fault, Severity, normalise_pci

CORRECTED, NONFATAL, FATAL = "host.pcie_corrected", "host.pcie_nonfatal", "host.pcie_fatal"
# As many corrected errors of one device in one input that they no longer are an accident.
FLOOD = 100
_DEVICE = r"([\w-]{1,32}) ([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]):"
_ERROR = re.compile(
    rf"{_DEVICE} (?:AER: )?PCIe Bus Error: severity=(Correct(?:ed|able)|Uncorrect(?:ed|able) \((Non-Fatal|Fatal)\))"
    r"(?:, type=([\w /]{1,40}))?"
)
_BIT = re.compile(rf"{_DEVICE} +\[ ?\d{{1,2}}\] ?(\w[\w -]{{1,40}}\w)")
_TYPES: Mapping[str, ComponentType] = {
    "nvidia": ComponentType.GPU,
    "mlx5_core": ComponentType.NIC,
    "mlx4_core": ComponentType.NIC,
    "efa": ComponentType.NIC,
    "ena": ComponentType.NIC,
    "nvme": ComponentType.DISK,
}


class PcieReader:
    """Reads the PCIe errors of one input."""

    def __init__(self, found: list[Fault | Clear]) -> None:
        """Collect into `found`, which other readers of the same input also fill."""
        self._found = found
        self._corrected: dict[str, int] = {}
        self._last: tuple[str, int] | None = None

    def read(self, message: KernelMessage) -> bool:
        """Take a message, and tell whether it is one of PCIe's."""
        found = _ERROR.match(message.text)
        if found is not None:
            self._error(message, found)
            return True
        found = _BIT.match(message.text)
        if found is None:
            return False
        self._bit(found[2], found[3])
        return True

    def _error(self, message: KernelMessage, found: re.Match[str]) -> None:
        driver, address, _, fatality, layer = found.groups()
        code = CORRECTED if fatality is None else FATAL if fatality == "Fatal" else NONFATAL
        place = self._corrected.get(address) if code == CORRECTED and message.facility != USER else None
        if place is not None:
            self._last = (address, place)
            self._found[place] = _more(self._found[place], message.count)
            return
        self._last = (address, len(self._found))
        if code == CORRECTED and message.facility != USER:
            self._corrected[address] = len(self._found)
        told = {"driver": driver} | ({"type": layer} if layer else {})
        component = Component(_TYPES.get(driver, ComponentType.NODE), pci=normalise_pci(address))
        self._found.append(_more(device_fault(message, code, component, message.text, told), 0))

    def _bit(self, address: str, name: str) -> None:
        """Add the name of a set bit to the error that it belongs to."""
        if self._last is None or self._last[0] != address:
            return
        fault = self._found[self._last[1]]
        names = fault.attributes.get("errors", "").split(", ") if "errors" in fault.attributes else []
        if name not in names:
            told = {**fault.attributes, "errors": ", ".join([*names, name])}
            self._found[self._last[1]] = replace(fault, attributes=told)


def _more(fault: Fault | Clear, count: int) -> Fault | Clear:
    if not isinstance(fault, Fault) or fault.code != CORRECTED:
        return fault
    total = fault.count + count
    flood = total >= FLOOD and fault.attributes.get("facility") != USER
    return replace(fault, count=total, severity=Severity.WARNING if flood else fault.severity)
