"""Finds the GPU that a free-text message names, by its PCI address or its UUID."""

from __future__ import annotations

import re

from faultbridge.domain.faults import Component, ComponentType, normalize_pci

_ADDRESS = re.compile(
    r"(?<![0-9a-zA-Z:.])(?:PCI:)?([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})(?:\.[0-7])?(?![0-9a-zA-Z:])"
)
_UUID = re.compile(r"\bGPU-[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4,12}){0,4}(?![\w-])")
_MAX_TEXT = 4096


def identifiers(component: Component) -> dict[str, str | None]:
    """Return the PCI address, UUID, index and name of a device as attributes of a fault.

    A clear ends a fault only if the components of the fault and the clear match. If the clears of a source do not
    identify the device, the component of the fault must not identify it either. The attributes then state which device
    has the fault.
    """
    index = None if component.index is None else str(component.index)
    return {"pci": component.pci, "uuid": component.uuid, "index": index, "device": component.name}


def gpu_named_in(text: str | None) -> Component:
    """Return the GPU that a message names, with its PCI address and UUID.

    If the message names no GPU or several GPUs, the result has no identifiers.
    """
    shown = (text or "")[:_MAX_TEXT]
    addresses = {normalize_pci(address) for address in _ADDRESS.findall(shown)}
    uuids = set(_UUID.findall(shown))
    if len(addresses) > 1 or len(uuids) > 1:
        return Component(ComponentType.GPU)
    return Component(ComponentType.GPU, pci=next(iter(addresses), None), uuid=next(iter(uuids), None))
