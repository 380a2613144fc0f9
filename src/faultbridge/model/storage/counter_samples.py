"""Counter samples in the table: the last counters of each component of a node, compressed.

The counters of all ports of a node have the same long names. Compression reduces an item to about a sixth of its size,
and DynamoDB charges for reads and writes by size.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from faultbridge.model.faults import Component
from faultbridge.model.storage import items
from faultbridge.model.storage.codec import pack, unpack
from faultbridge.model.storage.writes import Absent, AnyOf, Below, Item, Key, Put
from faultbridge.model.stored import Stored
from faultbridge.model.times import to_text

STORED_AGAIN_AFTER = timedelta(hours=2)
"""Samples with a digest are stored again after this time at the latest, while the agent reports equal ones."""


class LastSample(Stored, frozen=True):
    """The last counter sample of one component, such as a port."""

    at: datetime
    component: Component
    values: Mapping[str, int | str]


class SampleSet(Stored, frozen=True):
    """The last samples of one source on one node, by component.

    `instance` and `boot` are the numbers of the node's instance and boot that the samples belong to. If all samples
    come from one record, `digest` is the digest of its values, which the node agent sends with the record; else it is
    None. A later record with an equal digest need not be stored until the stored samples are two hours old
    (`STORED_AGAIN_AFTER`).
    """

    at: datetime
    instance: int
    boot: int
    ports: Mapping[str, LastSample]
    digest: str | None = None


def samples_put(key: Key, samples: SampleSet, now: datetime) -> Put:
    """Return the table write of samples; it fails if samples of the same or a later time are stored."""
    at = to_text(samples.at)
    row = items.item(key, now, {"at": at, "samples": pack(samples)})
    return Put(row, when=AnyOf((Absent(), Below("at", at))))


def read_samples(row: Item) -> SampleSet:
    """Return the samples that a table item stores."""
    return unpack(SampleSet, row["samples"])
