"""Index rows: lead from a job or a device to the entries about it.

They are written in the transaction of the entries that they are derived from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from faultbridge.domain.entries import Draft, Entry
from faultbridge.domain.times import to_text
from faultbridge.storage import devices, items, jobs, keys
from faultbridge.storage.writes import Put


def index_rows(drafts: tuple[Draft, ...], entries: tuple[Entry, ...], partition: str, now: datetime) -> tuple[Put, ...]:
    """Return the index rows of new entries: from a job to its entries, and the rows of devices."""
    rows: dict[tuple[str, str], Put] = {}
    for draft, entry in zip(drafts, entries, strict=True):
        for row in (*_job_rows(draft.data, entry, partition, now), *devices.device_rows(draft, entry, partition, now)):
            rows[row.key] = row
    return tuple(rows.values())


def _job_rows(data: Mapping[str, Any], entry: Entry, partition: str, now: datetime) -> Iterator[Put]:
    job = data.get("job_id")
    if not job:
        return
    position = f"{to_text(entry.recorded_at)}#{entry.stream.node or ''}#{entry.epoch:04d}#{entry.sequence:012d}"
    entry_key = keys.entry(partition, entry.epoch, entry.sequence)
    row = {"entry_pk": entry_key.pk, "entry_sk": entry_key.sk}
    yield Put(items.item(jobs.job_link(entry.stream.cluster, str(job), position), now, row))
