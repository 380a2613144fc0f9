"""Devices in the table: where each device was seen, devices with faults, and serial numbers by UUID."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from faultbridge.model.cluster.config import shard_of
from faultbridge.model.entries import Draft, Entry
from faultbridge.model.enums import EntryType, NoteKind
from faultbridge.model.event_data import FaultData, NoteData, plain
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.writes import Key, Put
from faultbridge.model.times import to_text

LAST_SIGHTING = ":"
"""A sort key after every sighting of a device (they start with a time) and before its link."""

SEEN = "SEEN#"
"""The prefix of the sort key of a row that lists the devices of an entry, in the node's partition."""

FAULTY_SHARDS = 16


def device_id(serial: str | None, uuid: str | None) -> str | None:
    """Return the name by which entries of a device are indexed: serial number, else UUID, else None."""
    return serial or uuid


def sighting(device: str, position: str) -> Key:
    """Return the key of the row that records one sighting of a device in an instance.

    `position` is the sort key: time, stream and number of the entry that lists the device, and the device's UUID.
    """
    return Key(keys.device(device), position)


def faulty_partition(cluster: str, shard: int) -> str:
    """Return one of the 16 partitions that list a cluster's devices with faults; `shard` is 0 to 15."""
    return f"DEVICES#{cluster}#{shard}"


def faulty_device(cluster: str, device: str) -> Key:
    """Return the table key of the row of a device that had a fault in a cluster."""
    return Key(faulty_partition(cluster, shard_of(device, FAULTY_SHARDS)), device)


def component_of(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the component of a fault from the `data` of an entry; empty if the entry names none.

    The component is that of the fault that the entry reports, or else of the fault that caused the entry's case.
    """
    return data.get("component") or (data.get("cause") or {}).get("component") or {}


def is_of_device(data: Mapping[str, Any], device: str) -> bool:
    """Return whether an entry that the device index lists for a device is really about this device.

    `device` is a serial number or a UUID. The index lists an entry by serial number if it is known, and two GPUs can
    share a serial number. For a UUID, the result is therefore False if the entry names another UUID. An entry without a
    UUID counts as about the device.
    """
    component = component_of(data)
    uuid = component.get("uuid")
    return uuid is None or device in {uuid, component.get("serial")}


def device_rows(draft: Draft, entry: Entry, partition: str, now: datetime) -> Iterator[Put]:
    """Yield the writes of the rows about devices that a new timeline entry requires.

    The entry of a detected fault adds its device to the devices with a fault. A note that lists the devices of an
    instance adds a sighting of each device, and one row that lists them. Both kinds of entries also add a row from the
    UUID to the serial number of each device that has both. Other entries require no rows.
    """
    data = draft.data
    if draft.type is EntryType.FAULT_DETECTED and isinstance(data, FaultData):
        device = device_id(data.component.serial, data.component.uuid)
        if device:
            yield from _link(plain(data.component), now)
            yield Put(items.item(faulty_device(entry.stream.cluster, device), now, {"device": device}))
    if isinstance(data, NoteData) and data.kind is NoteKind.DEVICES:
        for seen in data.facts["devices"]:
            yield from _link(seen, now)
            yield _sighting(data.facts, seen, entry, partition, now)
        yield _seen(data.facts["devices"], entry, partition, now)


def _link(component: Mapping[str, Any], now: datetime) -> Iterator[Put]:
    uuid, serial = component.get("uuid"), component.get("serial")
    if uuid and serial:
        yield Put(items.item(keys.device_link(str(uuid)), now, {"serial": str(serial)}))


def linked_devices(components: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield UUID and serial number of each component that has both identifiers.

    For each of these pairs, the table has a row (the device link) from the UUID to the serial number.
    """
    yield from ((str(one["uuid"]), str(one["serial"])) for one in components if one.get("uuid") and one.get("serial"))


def sighting_keys(stream: str, seen: Mapping[str, Any]) -> Iterator[Key]:
    """Yield the key of the sighting row of each device that the row `seen` lists.

    A sighting row records that a device was seen in an instance. `seen` is a row that lists the devices of one entry.
    `stream` is the name of the stream of this entry.
    """
    position = (str(seen["recorded_at"]), int(seen["epoch"]), int(seen["sequence"]))
    yield from (_sighting_key(stream, position, one) for one in seen["devices"])


def _seen(devices: Iterable[Mapping[str, Any]], entry: Entry, partition: str, now: datetime) -> Put:
    """Return the write of the row that lists the devices of an entry.

    By this row, the sighting rows of these devices are found, even after the entry itself has expired.
    """
    key = keys.entry(partition, entry.epoch, entry.sequence)
    row = {
        "recorded_at": to_text(entry.recorded_at),
        "epoch": entry.epoch,
        "sequence": entry.sequence,
        "devices": [{"uuid": one.get("uuid"), "serial": one.get("serial")} for one in devices],
    }
    return Put(items.item(Key(partition, SEEN + key.sk), now, row))


def _sighting_key(stream: str, position: tuple[str, int, int], seen: Mapping[str, Any]) -> Key:
    recorded_at, epoch, sequence = position
    uuid, serial = seen.get("uuid"), seen.get("serial")
    return sighting(device_id(serial, uuid) or "", f"{recorded_at}#{stream}#{epoch:04d}#{sequence:012d}#{uuid or ''}")


def _sighting(facts: Mapping[str, Any], seen: Mapping[str, Any], entry: Entry, partition: str, now: datetime) -> Put:
    """Return the write of the row that records one sighting of a device.

    `facts` are the facts of the entry that lists the devices of an instance, and `seen` is one of these devices. The
    row is kept longer than the entry. The row therefore contains the instance id from `facts` and the PCI address
    from `seen`.
    """
    stream, key = entry.stream, keys.entry(partition, entry.epoch, entry.sequence)
    row = {
        "cluster": stream.cluster,
        "node": stream.node,
        "instance_id": facts.get("instance_id"),
        "pci": seen.get("pci"),
        "uuid": seen.get("uuid"),
        "seen_at": to_text(entry.recorded_at),
        "entry_pk": key.pk,
        "entry_sk": key.sk,
    }
    position = (to_text(entry.recorded_at), entry.epoch, entry.sequence)
    return Put(items.item(_sighting_key(stream.name, position, seen), now, row))
