"""Compares the number of GPUs in a health snapshot with the number that the instance type has."""

from __future__ import annotations

import re
from collections.abc import Iterable

from faultbridge.decode.data import gpus_by_instance_type
from faultbridge.model.fault_enums import ComponentType
from faultbridge.model.faults import NODE_COMPONENT, Component, Fault, Observation, Snapshot, normalize_pci
from faultbridge.model.values import replace

CODE = "host.gpu_count_mismatch"


def add_gpu_count_check(observations: Iterable[Observation], instance_type: str) -> tuple[Observation, ...]:
    """Add the GPU count check to each health snapshot that lists the GPUs of a node.

    The check finds a fault if fewer GPUs are listed than the instance type has. A failed GPU that the snapshot still
    lists counts as present. The check finds no fault for additional GPUs. No check is added for an unknown instance
    type.
    """
    expected = gpus_by_instance_type().get(instance_type.removeprefix("ml."))
    if expected is None:
        return tuple(observations)
    return tuple(
        _with_check(item, expected, instance_type) if isinstance(item, Snapshot) else item for item in observations
    )


def missing_gpus(seen: int | None, instance_type: str | None) -> str | None:
    """Return a message such as `7 of 8 GPUs are present`, or None if no GPU is missing.

    `seen` is the number of GPUs that were found. The result is also None if this number is 0 or None, or if the number
    of GPUs of the instance type is unknown.
    """
    expected = gpus_by_instance_type().get((instance_type or "").removeprefix("ml."))
    if not seen or expected is None or seen >= expected:
        return None
    return f"{seen} of {expected} GPUs are present"


def with_same_gpu_count(instance_types: Iterable[str], instance_type: str | None) -> tuple[str, ...]:
    """Return the types in `instance_types` that have as many GPUs as `instance_type`.

    Returns all of them if the number of GPUs of `instance_type` is unknown.
    """
    gpus = gpus_by_instance_type()
    if instance_type is None or instance_type not in gpus:
        return tuple(instance_types)
    return tuple(item for item in instance_types if item == instance_type or gpus.get(item) == gpus[instance_type])


def _with_check(snapshot: Snapshot, expected: int, instance_type: str) -> Snapshot:
    seen = sum(device.type is ComponentType.GPU for device in snapshot.devices)
    if seen == 0:
        return snapshot
    covers = {**snapshot.covers, CODE: (NODE_COMPONENT,)}
    if seen >= expected:
        return replace(snapshot, covers=covers)
    attributes = {"gpus": str(seen), "expected": str(expected), "instance_type": instance_type[:64]}
    message = f"{seen} of {expected} GPUs are present."
    fault = Fault(
        snapshot.source, CODE, NODE_COMPONENT, message, snapshot.observed_at, message, attributes, node=snapshot.node
    )
    return replace(snapshot, covers=covers, present=(*snapshot.present, fault))


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
