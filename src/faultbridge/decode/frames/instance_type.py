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
from faultbridge.model.faults import NODE_COMPONENT, Component, Fault, Observation, Snapshot, normalize_pci
from faultbridge.model.values import replace

BELOW, CODE = "net.rate_below_expected", "host.gpu_count_mismatch"
FIXED_RATE = 100


def add_instance_type_checks(observations: Iterable[Observation], instance_type: str) -> tuple[Observation, ...]:
    """Add to health snapshots the checks that need the instance type: the number of GPUs, and rates of EFA devices."""
    return tuple(
        _with_checks(item, instance_type[:64]) if isinstance(item, Snapshot) else item for item in observations
    )


def _with_checks(snapshot: Snapshot, instance_type: str) -> Snapshot:
    name = instance_type.removeprefix("ml.")
    covers, present = dict(snapshot.covers), list(snapshot.present)

    def add(code: str, component: Component, text: str, **details: str) -> None:
        at, node = snapshot.observed_at, snapshot.node
        present.append(Fault(snapshot.source, code, component, text, at, text, details, node=node))

    gpus, seen = gpus_by_instance_type().get(name), sum(one.type is ComponentType.GPU for one in snapshot.devices)
    if gpus is not None and seen:
        covers[CODE] = (NODE_COMPONENT,)
        if seen < gpus:
            stated = {"gpus": str(seen), "expected": str(gpus), "instance_type": instance_type}
            add(CODE, NODE_COMPONENT, f"{seen} of {gpus} GPUs are present.", **stated)
    rate = snapshot.efa_rates.expected.get(name) if snapshot.efa_rates else None
    if snapshot.efa_rates and rate is not None:
        rates = snapshot.efa_rates.reported.items()
        judged = {device: found for device, found in rates if found != FIXED_RATE or rate <= FIXED_RATE}
        covers |= {BELOW: tuple(judged)} if judged else {}
        for device, found in judged.items():
            if found < rate:
                text = f"{device.name} has a rate of {found} Gb/s; each EFA device of {name} has {rate} Gb/s."
                add(BELOW, device, text, rate=str(found), expected=str(rate), instance_type=name)
    return replace(snapshot, covers=covers, present=tuple(present))


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
