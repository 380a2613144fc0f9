"""Devices in the table: where each device was seen, devices with faults, and serial numbers by UUID."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from msgspec import Struct

from faultbridge.model.cluster.config import shard_of
from faultbridge.model.entries import Draft, Entry
from faultbridge.model.enums import EntryType, NoteKind
from faultbridge.model.event_data import Component, EventData, FaultData, NoteData
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.writes import Item, Key, Put
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


class SeenDevice(Struct, frozen=True):
    """A device as a note or a row lists it; a note names its instance and PCI address too."""

    uuid: str | None = None
    serial: str | None = None
    pci: str | None = None
    instance_id: str | None = None


class SeenDevices(Struct, frozen=True):
    """A row that lists the devices of one entry. It leads to the sighting rows after the entry has expired."""

    recorded_at: str
    epoch: int
    sequence: int
    devices: tuple[SeenDevice, ...]

    def sightings(self, stream: str) -> Iterator[Key]:
        """Yield the key of the sighting row of each device; `stream` is the name of the stream of the entry."""
        position = (self.recorded_at, self.epoch, self.sequence)
        yield from (_sighting_key(stream, position, one) for one in self.devices)


def listed_devices(data: EventData | None) -> tuple[SeenDevice, ...]:
    """Return the devices of an instance that a note lists; empty for other data."""
    if not isinstance(data, NoteData) or data.kind != NoteKind.DEVICES:
        return ()
    instance_id, listed = data.facts["instance_id"], data.facts["devices"]
    return tuple(SeenDevice(one["uuid"], one["serial"], one["pci"], instance_id) for one in listed)


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
            yield from _link(data.component, now)
            yield Put(items.item(faulty_device(entry.stream.cluster, device), now, {"device": device}))
    if listed := listed_devices(data):
        for seen in listed:
            yield from _link(seen, now)
            yield _sighting(seen, entry, partition, now)
        yield _seen(listed, entry, partition, now)


def _link(component: Component | SeenDevice, now: datetime) -> Iterator[Put]:
    if component.uuid and component.serial:
        yield Put(items.item(keys.device_link(component.uuid), now, {"serial": component.serial}))


def _seen(devices: Iterable[SeenDevice], entry: Entry, partition: str, now: datetime) -> Put:
    """Return the write of the row that lists the devices of an entry (`SeenDevices`)."""
    key = keys.entry(partition, entry.epoch, entry.sequence)
    row: Item = {
        "recorded_at": to_text(entry.recorded_at),
        "epoch": entry.epoch,
        "sequence": entry.sequence,
        "devices": [{"uuid": one.uuid, "serial": one.serial} for one in devices],
    }
    return Put(items.item(Key(partition, SEEN + key.sk), now, row))


def _sighting_key(stream: str, position: tuple[str, int, int], seen: SeenDevice) -> Key:
    recorded_at, epoch, sequence = position
    device = device_id(seen.serial, seen.uuid) or ""
    return sighting(device, f"{recorded_at}#{stream}#{epoch:04d}#{sequence:012d}#{seen.uuid or ''}")


def _sighting(seen: SeenDevice, entry: Entry, partition: str, now: datetime) -> Put:
    """Return the write of the row that records one sighting of a device.

    The row is kept longer than the entry that lists the devices. It therefore contains the id of their instance and the
    PCI address of the device.
    """
    stream, key = entry.stream, keys.entry(partition, entry.epoch, entry.sequence)
    row = {
        "cluster": stream.cluster,
        "node": stream.node,
        "instance_id": seen.instance_id,
        "pci": seen.pci,
        "uuid": seen.uuid,
        "seen_at": to_text(entry.recorded_at),
        "entry_pk": key.pk,
        "entry_sk": key.sk,
    }
    position = (to_text(entry.recorded_at), entry.epoch, entry.sequence)
    return Put(items.item(_sighting_key(stream.name, position, seen), now, row))
