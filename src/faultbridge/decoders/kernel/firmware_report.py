"""Determines the fault of a hardware error report of the firmware (CPER, which the kernel prints).

A report states how severe its event is. Its first section states what failed: a processor, memory or a PCIe device.
Source: Linux 4 to 6, drivers/firmware/efi/cper.c; UEFI 2.10, appendix N.
"""

from __future__ import annotations

from collections.abc import Mapping

from faultbridge.decoders.common.fields import truncate
from faultbridge.domain.copies import replace
from faultbridge.domain.faults import Clear, Component, ComponentType, Fault, normalize_pci

# For each section, the fault of a corrected, a recoverable and a fatal event.
_CODES: Mapping[str, tuple[str, str, str]] = {
    "PCIe error": ("host.pcie_corrected", "host.pcie_nonfatal", "host.pcie_fatal"),
    "memory error": ("host.memory_corrected", "host.memory_uncorrected", "host.memory_uncorrected"),
}
_RANKS: Mapping[str, int] = {"info": 0, "corrected": 0, "recoverable": 1, "fatal": 2}
# The class of a PCI device: base class and subclass, without the programming interface.
_TYPES: Mapping[str, ComponentType] = {
    "0300": ComponentType.GPU,
    "0302": ComponentType.GPU,
    "0200": ComponentType.NIC,
    "0207": ComponentType.NIC,
    "0280": ComponentType.NIC,
    "0108": ComponentType.DISK,
}
_CLASS_DIGITS = 4


def with_report_field(observation: Fault | Clear, field: Mapping[str, str]) -> Fault | Clear:
    """Return the fault of a firmware report with one more field of the report added.

    A field that the fault already has is not replaced. All fields that were added so far determine the fault code and
    the component. A clear is returned unchanged.
    """
    if not isinstance(observation, Fault):
        return observation
    fields = {**field, **observation.attributes}
    section = fields.get("section", "")
    codes = _CODES.get(section)
    code = codes[_RANKS.get(fields.get("severity", ""), 1)] if codes else observation.code
    message = observation.message if section in observation.message else f"{observation.message} ({section})"
    component = _component(fields) or observation.component
    return replace(observation, code=code, component=component, message=truncate(message), attributes=fields)


def _component(fields: Mapping[str, str]) -> Component | None:
    section = fields.get("section")
    if section == "memory error":
        return Component(ComponentType.MEMORY, name=fields.get("dimm"))
    if section != "PCIe error" or "pci" not in fields:
        return None
    kind = _TYPES.get(fields.get("class_code", "")[:_CLASS_DIGITS], ComponentType.NODE)
    return Component(kind, pci=normalize_pci(fields["pci"]))
