"""The inventory function: synchronizes registered nodes with the providers of their clusters.

The function runs on a schedule, and after events of the providers.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from msgspec import to_builtins

from faultbridge.adapters.aws.telemetry import emit
from faultbridge.decode.hyperpod import launch_failure
from faultbridge.repair.registry.inventory_sync import InventoryEventHandler, SyncInventory
from faultbridge.repair.registry.provider_check import ProviderCheck
from faultbridge.repair.registry.replacement_detection import ReplacementDetection
from faultbridge.serve.entrypoints.lambda_events import BusEvent, QueuedMessage, read
from faultbridge.serve.wiring.installation import once
from faultbridge.serve.wiring.services import wire_cluster_status, wire_registration, wire_retirement

if TYPE_CHECKING:
    from collections.abc import Mapping

    from faultbridge.repair.registry.groups import SyncResult
    from faultbridge.serve.wiring.installation import Installation


def inventory(event: object, installation: Installation) -> tuple[SyncResult, ...]:
    """Synchronize the registered nodes with the providers of their clusters.

    Returns the changes and errors of each cluster that has any. `event` is a schedule event, or a batch of provider
    events from SQS. A stale schedule event is skipped.
    """
    call = read(event, BusEvent)
    if call.is_stale(installation.ports.clock.now()):
        return ()
    synced = (
        wire_inventory_events(installation).sync_named_groups(map(_provider_event, call.records))
        if call.records
        else wire_inventory(installation).sync_all()
    )
    counts = {
        "NodesAdded": sum(len(one.added) for one in synced),
        "NodesReplacedExternally": sum(len(one.replaced_externally) for one in synced),
        "NodesGone": sum(len(one.gone) for one in synced),
        "NodesRefused": sum(len(one.refused) for one in synced),
        "SourcesUnread": sum(len(one.source_errors) for one in synced),
    }
    changed = tuple(one for one in synced if not one.unchanged)
    emit(counts, clusters=to_builtins(changed))
    return changed


@once
def wire_inventory(app: Installation) -> SyncInventory:
    """Return the inventory sync, which compares providers' instances with the registered nodes."""
    ports, registration = app.ports, wire_registration(app)
    return SyncInventory(
        ports.table,
        registration,
        ReplacementDetection(ports.table, app.append, app.rulebook),
        ports.inventories,
        ProviderCheck(ports.inventories, wire_cluster_status(app), ports.clock, registration),
        wire_retirement(app),
        ports.node_listing,
    )


@once
def wire_inventory_events(app: Installation) -> InventoryEventHandler:
    """Return the service that starts an inventory sync after provider events."""
    return InventoryEventHandler(app.ports.table, wire_inventory(app), launch_failure)


def _provider_event(message: QueuedMessage) -> Mapping[str, object]:
    try:
        event = json.loads(message.body)
    except ValueError:
        return {}
    return event if isinstance(event, dict) else {}
