"""Compares the number of GPUs in a health snapshot with the number that the instance type has."""

from __future__ import annotations

from collections.abc import Iterable

from faultbridge.data import gpus_by_instance_type
from faultbridge.domain.copies import replace
from faultbridge.domain.faults import NODE_COMPONENT, ComponentType, Fault, Observation, Snapshot

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
