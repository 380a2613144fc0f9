"""Checks that need the instance type of the node: its number of GPUs, and the rates of EFA devices.

Before 2024-10, the EFA driver of Linux (`efa_verbs.c`) reported 100 Gb/s for every device. Later versions report the
highest rate that the device states, or 100 Gb/s if the device states none. A report of 100 Gb/s therefore proves
nothing about a faster device, and is not checked. Units: Gb/s.
"""

from __future__ import annotations

from collections.abc import Iterable

from faultbridge.decode.frames.gpus import add_gpu_count_check
from faultbridge.model.faults import Component, EfaRates, Fault, Observation, Snapshot
from faultbridge.model.values import replace

BELOW = "net.rate_below_expected"
FIXED_RATE = 100


def add_instance_type_checks(observations: Iterable[Observation], instance_type: str) -> tuple[Observation, ...]:
    """Add the checks that need the instance type to health snapshots that contain GPUs or EFA rates.

    For an unknown instance type, no check is added.
    """
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
