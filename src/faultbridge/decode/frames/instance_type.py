"""Checks that need the instance type of the node, and the GPU that a message names.

The checks are the number of GPUs in a health snapshot, and the rates of EFA devices. Before 2024-10, the EFA driver of
Linux (`efa_verbs.c`) reported 100 Gb/s for every device. Later versions report the highest rate that the device states,
or 100 Gb/s if the device states none. A report of 100 Gb/s therefore proves nothing about a faster device, and is not
checked. Units: Gb/s.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from faultbridge.decode.data import gpus_by_instance_type
from faultbridge.model.fault_enums import ComponentType
from faultbridge.model.faults import NODE_COMPONENT, Component, EfaRates, Fault, Observation, Snapshot, normalize_pci
from faultbridge.model.values import replace

BELOW = "net.rate_below_expected"
FIXED_RATE = 100


def add_instance_type_checks(observations: Iterable[Observation], instance_type: str) -> tuple[Observation, ...]:
    """Add the checks that need the instance type to health snapshots that contain GPUs or EFA rates."""
    name = instance_type.removeprefix("ml.")
    return tuple(
        _with_check(item, item.efa_rates, name) if isinstance(item, Snapshot) and item.efa_rates else item
        for item in add_gpu_count_check(observations, instance_type)
    )


def _with_check(snapshot: Snapshot, rates: EfaRates, instance_type: str) -> Snapshot:
    expected = rates.expected.get(instance_type)
    if expected is None:
        return snapshot
    judged = {device: rate for device, rate in rates.reported.items() if rate != FIXED_RATE or expected <= FIXED_RATE}
    if not judged:
        return snapshot
    slow = (
        _slow(snapshot, device, rate, expected, instance_type) for device, rate in judged.items() if rate < expected
    )
    covers = {**snapshot.covers, BELOW: tuple(judged)}
    return replace(snapshot, covers=covers, present=(*snapshot.present, *slow))


def _slow(snapshot: Snapshot, device: Component, rate: int, expected: int, instance_type: str) -> Fault:
    text = f"{device.name} has a rate of {rate} Gb/s; each EFA device of {instance_type[:64]} has {expected} Gb/s."
    attributes = {"rate": str(rate), "expected": str(expected), "instance_type": instance_type[:64]}
    return Fault(snapshot.source, BELOW, device, text, snapshot.observed_at, text, attributes, node=snapshot.node)


CODE = "host.gpu_count_mismatch"


def add_gpu_count_check(observations: Iterable[Observation], instance_type: str) -> tuple[Observation, ...]:
    """Add the GPU count check to each health snapshot that lists the GPUs of a node."""
    expected = gpus_by_instance_type().get(instance_type.removeprefix("ml."))
    if expected is None:
        return tuple(observations)
    return tuple(
        _with_gpu_count(item, expected, instance_type) if isinstance(item, Snapshot) else item for item in observations
    )


def missing_gpus(seen: int | None, instance_type: str | None) -> str | None:
    """Return a message such as `7 of 8 GPUs are present`, or None if no GPU is missing."""
    expected = gpus_by_instance_type().get((instance_type or "").removeprefix("ml."))
    if not seen or expected is None or seen >= expected:
        return None
    return f"{seen} of {expected} GPUs are present"


def with_same_gpu_count(instance_types: Iterable[str], instance_type: str | None) -> tuple[str, ...]:
    """Return the types in `instance_types` that have as many GPUs as `instance_type`."""
    gpus = gpus_by_instance_type()
    if instance_type is None or instance_type not in gpus:
        return tuple(instance_types)
    return tuple(item for item in instance_types if item == instance_type or gpus.get(item) == gpus[instance_type])


def _with_gpu_count(snapshot: Snapshot, expected: int, instance_type: str) -> Snapshot:
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
    """Return the GPU that a message names, with its PCI address and UUID."""
    shown = (text or "")[:_MAX_TEXT]
    addresses = {normalize_pci(address) for address in _ADDRESS.findall(shown)}
    uuids = set(_UUID.findall(shown))
    if len(addresses) > 1 or len(uuids) > 1:
        return Component(ComponentType.GPU)
    return Component(ComponentType.GPU, pci=next(iter(addresses), None), uuid=next(iter(uuids), None))
