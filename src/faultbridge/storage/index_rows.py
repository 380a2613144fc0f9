"""Index rows: lead from a job to the entries about it, and from a device's UUID to its serial number.

They are written in the transaction of the entries that they are derived from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from faultbridge.domain.entries import Draft, Entry, EntryType
from faultbridge.domain.times import to_text
from faultbridge.storage import items, jobs, keys
from faultbridge.storage.writes import Put


def index_rows(drafts: tuple[Draft, ...], entries: tuple[Entry, ...], partition: str, now: datetime) -> tuple[Put, ...]:
    """Return the index rows of new entries: from a job to its entries, from a UUID to its serial number."""
    rows: dict[tuple[str, str], Put] = {}
    for draft, entry in zip(drafts, entries, strict=True):
        for row in (*_job_rows(draft.data, entry, partition, now), *_device_rows(draft, now)):
            rows[row.key] = row
    return tuple(rows.values())


def is_of_device(data: Mapping[str, Any], device: str) -> bool:
    """Return whether an entry is about this device, and not about another GPU with the same serial number."""
    component = data.get("component") or {}
    uuid = component.get("uuid")
    return uuid is None or device in {uuid, component.get("serial")}


def _job_rows(data: Mapping[str, Any], entry: Entry, partition: str, now: datetime) -> Iterator[Put]:
    job = data.get("job_id")
    if not job:
        return
    position = f"{to_text(entry.recorded_at)}#{entry.stream.node or ''}#{entry.epoch:04d}#{entry.sequence:012d}"
    entry_key = keys.entry(partition, entry.epoch, entry.sequence)
    row = {"entry_pk": entry_key.pk, "entry_sk": entry_key.sk}
    yield Put(items.item(jobs.job_link(entry.stream.cluster, str(job), position), now, row))


def _device_rows(draft: Draft, now: datetime) -> Iterator[Put]:
    component = draft.data.get("component") or {}
    uuid, serial = component.get("uuid"), component.get("serial")
    if draft.type is EntryType.FAULT_DETECTED and uuid and serial:
        yield Put(items.item(keys.device_link(str(uuid)), now, {"serial": str(serial)}))
