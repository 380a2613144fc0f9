"""Findings of gray failures in the table, and the counter totals of the last comparison."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import lru_cache

from msgspec import field

from faultbridge.model.findings import Baseline, Finding
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.codec import dump
from faultbridge.model.storage.writes import Absent, AnyOf, Below, Item, Key, Put
from faultbridge.model.stored import Stored
from faultbridge.model.times import from_text, to_milliseconds, to_text

FINDING, BASELINES = "FINDING#", "PEERS#"
PARTS = 96
"""Number of items for a cluster's baselines. 16 items would reach the limit of 400 KB at 12,500 nodes."""

FINDING_TTL = timedelta(days=365)
"""How long an ended finding counts for the precision of its detector. Its entries stay on the timeline."""


class Baselines(Stored, frozen=True):
    """The part of a cluster's counter baselines that one table item stores, by node and detector.

    A baseline is the last counter total with which the next total is compared.
    """

    at: datetime
    nodes: Mapping[str, Mapping[str, Baseline]] = field(default_factory=dict)


def finding_key(cluster: str, finding: str) -> Key:
    """Return the table key of a finding, a sign of a gray failure."""
    return Key(keys.cluster_partition(cluster), f"{FINDING}{finding}")


@lru_cache(maxsize=16 * PARTS)
def baselines_key(cluster: str, part: int) -> Key:
    """Return the key of one of the `PARTS` items with a cluster's counter baselines. `part` starts at 0."""
    return Key(keys.cluster_partition(cluster), f"{BASELINES}{part:02d}")


def finding_item(finding: Finding, now: datetime) -> Item:
    """Return the table item of a finding. The item of an ended finding expires."""
    row = items.item(finding_key(finding.cluster, finding.id), now, {"finding": dump(finding)})
    if finding.ended_at is not None:
        row["expires_at"] = to_milliseconds(finding.ended_at + FINDING_TTL) // 1000
    return row


def read_finding(row: Item) -> Finding:
    """Return the finding that a table item stores."""
    return items.stored_value(Finding, row, "finding")


def baselines_put(cluster: str, part: int, baselines: Baselines, now: datetime) -> Put:
    """Return the write of one item of baselines; it fails if the stored item has the same or a later `at`."""
    at = to_text(baselines.at)
    row = items.item(baselines_key(cluster, part), now, {"at": at, "baselines": dump(baselines)})
    return Put(row, when=AnyOf((Absent(), Below("at", at))))


def compared_at(row: Item) -> datetime:
    """Return the time at which the counter baselines in a table item were compared."""
    return from_text(str(row["at"]))


def read_baselines(row: Item) -> Baselines:
    """Return the counter baselines that a table item stores."""
    return items.stored_value(Baselines, row, "baselines")
