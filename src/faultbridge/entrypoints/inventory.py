"""The inventory: on schedule a look at every group, on events one at the groups that they are about."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from faultbridge.adapters.telemetry import emit

if TYPE_CHECKING:
    from faultbridge.bootstrap import Application


def inventory(event: Mapping[str, Any], application: Application) -> dict[str, Any]:
    """Look once, and say what was added, what is gone and what was refused."""
    records = event.get("Records")
    synced = application.inventory_events(map(_told, records)) if records else application.inventory()
    counts = {
        "NodesAdded": sum(len(one.added) for one in synced),
        "NodesReplacedExternally": sum(len(one.reseated) for one in synced),
        "NodesGone": sum(len(one.gone) for one in synced),
        "NodesRefused": sum(len(one.refused) for one in synced),
        "SourcesUnread": sum(len(one.unread) for one in synced),
    }
    document = {"clusters": [asdict(one) for one in synced if not one.quiet]}
    emit(counts, **document)
    return document


def _told(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """Read an event off the queue; one that is none says nothing."""
    try:
        event = json.loads(record["body"])
    except ValueError:
        return {}
    return event if isinstance(event, dict) else {}
