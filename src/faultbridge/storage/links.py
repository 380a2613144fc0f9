"""Links: rows by which an entry is found under a name that its own keys do not hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from faultbridge.domain.entries import Draft, Entry, EntryType
from faultbridge.domain.times import to_text
from faultbridge.storage import items, job_keys, keys
from faultbridge.storage.writes import Put


def links(drafts: tuple[Draft, ...], entries: tuple[Entry, ...], partition: str, now: datetime) -> tuple[Put, ...]:
    """List the rows that lead to new entries: from the job that each names, and from a UUID to its serial number."""
    made: dict[tuple[str, str], Put] = {}
    for draft, entry in zip(drafts, entries, strict=True):
        for put in (*_job(draft.data, entry, partition, now), *_device(draft, now)):
            made[put.key] = put
    return tuple(made.values())


def is_of_device(data: Mapping[str, Any], device: str) -> bool:
    """Tell whether an entry found under a device's names is of it: boards of several GPUs share a serial number."""
    component = data.get("component") or {}
    uuid = component.get("uuid")
    return uuid is None or device in {uuid, component.get("serial")}


def _job(data: Mapping[str, Any], entry: Entry, partition: str, now: datetime) -> Iterator[Put]:
    job = data.get("job_id")
    if not job:
        return
    place = f"{to_text(entry.recorded_at)}#{entry.stream.node or ''}#{entry.epoch:04d}#{entry.sequence:012d}"
    entry_key = keys.entry(partition, entry.epoch, entry.sequence)
    row = {"entry_pk": entry_key.pk, "entry_sk": entry_key.sk}
    yield Put(items.item(job_keys.job_link(entry.stream.cluster, str(job), place), now, row))


def _device(draft: Draft, now: datetime) -> Iterator[Put]:
    component = draft.data.get("component") or {}
    uuid, serial = component.get("uuid"), component.get("serial")
    if draft.type is EntryType.FAULT_DETECTED and draft.device and uuid and serial:
        yield Put(items.item(keys.device_link(str(uuid)), now, {"serial": str(serial)}))
