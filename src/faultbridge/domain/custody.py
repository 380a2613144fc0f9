"""Custody: which devices were seen in which instance of a node, by serial number or UUID."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from faultbridge.domain.faults import Component

MAX_SIGHTINGS = 8
"""Maximum devices that one entry records; the next health snapshot records the others."""

MAX_CUSTODY = 64
"""Maximum sightings that a node keeps, the newest; a forgotten device is recorded again."""


def device_id(serial: str | None, uuid: str | None) -> str | None:
    """Return the name under which the entries of a device are found: its serial number, or its UUID without one."""
    return serial or uuid


def take_custody(
    custody: tuple[str, ...], instance: int, devices: Iterable[Component]
) -> tuple[tuple[str, ...], tuple[Component, ...]]:
    """Return the sightings of a node with these devices, and the devices that are new in this instance.

    A device is new when this instance never reported its UUID, or its serial number without one, in this slot. A
    device that a report does not list keeps its sighting: a source may list only some of the devices.
    """
    current = [one for one in custody if one.startswith(f"{instance}|")]
    known = set(current)
    named = [device for device in devices if device.uuid or device.serial]
    new = tuple(islice((device for device in named if not _is_known(known, instance, device)), MAX_SIGHTINGS))
    return (*current, *(_sighting(instance, device) for device in new))[-MAX_CUSTODY:], new


def _is_known(known: set[str], instance: int, device: Component) -> bool:
    """Return whether a device was seen in its slot, or in any slot if the report names none."""
    sighting = _sighting(instance, device)
    return sighting in known or (device.pci is None and any(one.startswith(sighting) for one in known))


def _sighting(instance: int, device: Component) -> str:
    return f"{instance}|{device.uuid or device.serial}|{device.pci or ''}"
