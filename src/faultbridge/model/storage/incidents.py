"""Incidents in the table: their items, the rows of waiting cases, and how often faults started."""

from __future__ import annotations

from datetime import datetime, timedelta

from faultbridge.model.cluster.incidents import Incident
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.codec import dump
from faultbridge.model.storage.writes import Item, Key
from faultbridge.model.times import to_milliseconds

INCIDENT = "INCIDENT#"
INCIDENT_TTL = timedelta(days=90)
"""How long a closed incident can be listed. Its entries stay on the timeline."""


def incident_key(cluster: str, incident_id: str) -> Key:
    """Return the table key of a cluster incident."""
    return Key(keys.cluster_partition(cluster), f"{INCIDENT}{incident_id}")


def held_case(cluster: str, shard: int, case: str) -> Key:
    """Return the table key of the row of a case that waits for an incident."""
    return Key(keys.shard_partition(cluster, shard), f"HELD#{case}")


def onsets(cluster: str) -> Key:
    """Return the table key of a cluster's counts of fault starts, by fault family and failure domain."""
    return Key(keys.cluster_partition(cluster), "ONSETS")


def incident_item(incident: Incident, now: datetime) -> Item:
    """Return the table item of an incident. The item of a closed incident expires."""
    row = items.item(incident_key(incident.cluster, incident.id), now, {"incident": dump(incident)})
    if incident.closed_at is not None:
        row["expires_at"] = to_milliseconds(incident.closed_at + INCIDENT_TTL) // 1000
    return row


def read_incident(row: Item) -> Incident:
    """Return the incident that a table item stores."""
    return items.stored_value(Incident, row, "incident")
