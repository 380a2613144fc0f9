"""How many GPUs a look at a node saw, beside how many its instance type has."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from faultbridge.data import gpus_by_instance_type
from faultbridge.domain.faults import NODE_COMPONENT, ComponentType, Fault, Observation, Snapshot

CODE = "host.gpu_count_mismatch"


def counted(observations: Iterable[Observation], instance_type: str) -> tuple[Observation, ...]:
    """Add to each health snapshot that saw all of a node's GPUs whether as many are there as the instance type has.

    A GPU that is listed and lost is there. An instance type that has no GPUs in the table says nothing, and more GPUs
    than the table has are no fault.
    """
    expected = gpus_by_instance_type().get(instance_type.removeprefix("ml."))
    if expected is None:
        return tuple(observations)
    return tuple(_counted(one, expected, instance_type) if isinstance(one, Snapshot) else one for one in observations)


def missing(seen: int | None, instance_type: str | None) -> str | None:
    """Say that fewer GPUs were seen than the instance type has; None where that is not so or nobody can tell."""
    expected = gpus_by_instance_type().get((instance_type or "").removeprefix("ml."))
    if not seen or expected is None or seen >= expected:
        return None
    return f"{seen} of {expected} GPUs are there"


def with_as_many(instance_types: Iterable[str], instance_type: str | None) -> tuple[str, ...]:
    """Return those that have as many GPUs as a type; of one that nobody knows, any has."""
    gpus = gpus_by_instance_type()
    if instance_type is None or instance_type not in gpus:
        return tuple(instance_types)
    return tuple(one for one in instance_types if one == instance_type or gpus.get(one) == gpus[instance_type])


def _counted(snapshot: Snapshot, expected: int, instance_type: str) -> Snapshot:
    seen = sum(device.type is ComponentType.GPU for device in snapshot.devices)
    if seen == 0:
        return snapshot
    covers = {**snapshot.covers, CODE: (NODE_COMPONENT,)}
    if seen >= expected:
        return replace(snapshot, covers=covers)
    told = {"gpus": str(seen), "expected": str(expected), "instance_type": instance_type[:64]}
    message = f"{seen} of {expected} GPUs are there."
    fault = Fault(
        snapshot.source, CODE, NODE_COMPONENT, message, snapshot.observed_at, message, told, node=snapshot.node
    )
    return replace(snapshot, covers=covers, present=(*snapshot.present, fault))
