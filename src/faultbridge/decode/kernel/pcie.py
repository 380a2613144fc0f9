"""Reads PCIe errors in the kernel log, and adds up the corrected errors.

Grammar: `DRIVER BDF: [AER: ]PCIe Bus Error: severity=S, type=T, ...`, then lines with the error bits. Kernel versions
differ: they write `Corrected` or `Correctable`, `Uncorrected (Fatal)` or `Uncorrectable (Fatal)`, and `id=0010` or a
device.

Corrected errors are normal. They are added up for each device of one input, and 100 or more of them are a warning.
Source: drivers/pci/pcie/aer.c of Linux 4 to 6.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from faultbridge.decode.frames.decoder import lazy_pattern
from faultbridge.decode.frames.prefix import USER, KernelMessage
from faultbridge.decode.kernel.xid import device_fault
from faultbridge.model.fault_enums import ComponentType, Severity
from faultbridge.model.faults import Clear, Component, Fault, normalize_pci
from faultbridge.model.values import replace

CORRECTED, NONFATAL, FATAL = "host.pcie_corrected", "host.pcie_nonfatal", "host.pcie_fatal"
# From this number of corrected errors of one device in one input, the link is considered faulty.
FLOOD = 100
_DEVICE = r"([\w-]{1,32}) ([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]):"
_ERROR = lazy_pattern(
    rf"{_DEVICE} (?:AER: )?PCIe Bus Error: severity=(Correct(?:ed|able)|Uncorrect(?:ed|able) \((Non-Fatal|Fatal)\))"
    r"(?:, type=([\w /]{1,40}))?"
)
_BIT = lazy_pattern(rf"{_DEVICE} +\[ ?\d{{1,2}}\] ?(\w[\w -]{{1,40}}\w)")
_TYPES: Mapping[str, ComponentType] = {
    "nvidia": ComponentType.GPU,
    "mlx5_core": ComponentType.NIC,
    "mlx4_core": ComponentType.NIC,
    "efa": ComponentType.NIC,
    "ena": ComponentType.NIC,
    "nvme": ComponentType.DISK,
}


@dataclass(slots=True)
class PcieReader:
    """Reads PCIe errors, and appends their faults to `found`, the list of observations of the input."""

    found: list[Fault | Clear]
    _corrected: dict[str, int] = field(default_factory=dict)
    _last: tuple[str, int] | None = None

    def read(self, message: KernelMessage) -> bool:
        """Append the PCIe error that a message reports, or add an error bit to the last error.

        A further corrected error of the same device is not appended, but increases the count of the fault. Returns
        False for any other message.
        """
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
        driver, address, _, fatality, error_type = found.groups()
        code = CORRECTED if fatality is None else FATAL if fatality == "Fatal" else NONFATAL
        position = self._corrected.get(address) if code == CORRECTED and message.facility != USER else None
        if position is not None:
            self._last = (address, position)
            self.found[position] = _with_count(self.found[position], message.count)
            return
        self._last = (address, len(self.found))
        if code == CORRECTED and message.facility != USER:
            self._corrected[address] = len(self.found)
        details = {"driver": driver} | ({"type": error_type} if error_type else {})
        component = Component(_TYPES.get(driver, ComponentType.NODE), pci=normalize_pci(address))
        self.found.append(_with_count(device_fault(message, code, component, message.text, details), 0))

    def _bit(self, address: str, name: str) -> None:
        if self._last is None or self._last[0] != address:
            return
        fault = self.found[self._last[1]]
        names = fault.attributes.get("errors", "").split(", ") if "errors" in fault.attributes else []
        if name not in names:
            details = {**fault.attributes, "errors": ", ".join([*names, name])}
            self.found[self._last[1]] = replace(fault, attributes=details)


def _with_count(fault: Fault | Clear, count: int) -> Fault | Clear:
    if not isinstance(fault, Fault) or fault.code != CORRECTED:
        return fault
    total = fault.count + count
    flood = total >= FLOOD and fault.attributes.get("facility") != USER
    return replace(fault, count=total, severity=Severity.WARNING if flood else fault.severity)
