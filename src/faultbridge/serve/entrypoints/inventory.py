"""The inventory function: synchronizes registered nodes with the providers of their clusters.

The function runs on a schedule, and after events of the providers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from faultbridge.adapters.aws.telemetry import emit

if TYPE_CHECKING:
    from faultbridge.serve.wiring.installation import Installation


def inventory(event: Mapping[str, Any], installation: Installation) -> dict[str, Any]:
    """Synchronize the registered nodes with the providers of their clusters.

    Returns the changes and errors of each cluster that has any. `event` is a schedule event, or a batch of provider
    events from SQS.
    """
    records = event.get("Records")
    synced = (
        installation.registry.inventory_events.sync_named_groups(map(_provider_event, records))
        if records
        else installation.registry.inventory.sync_all()
    )
    counts = {
        "NodesAdded": sum(len(one.added) for one in synced),
        "NodesReplacedExternally": sum(len(one.replaced_externally) for one in synced),
        "NodesGone": sum(len(one.gone) for one in synced),
        "NodesRefused": sum(len(one.refused) for one in synced),
        "SourcesUnread": sum(len(one.source_errors) for one in synced),
    }
    document = {"clusters": [asdict(one) for one in synced if not one.unchanged]}
    emit(counts, **document)
    return document


def _provider_event(record: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        event = json.loads(record["body"])
    except ValueError:
        return {}
    return event if isinstance(event, dict) else {}
