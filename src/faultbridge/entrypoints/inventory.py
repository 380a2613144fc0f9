"""The schedule of the inventory: one look at every group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from faultbridge.adapters.telemetry import emit

if TYPE_CHECKING:
    from faultbridge.bootstrap import Application


def inventory(_event: Mapping[str, Any], application: Application) -> dict[str, Any]:
    """Look once, and say what was added, what is gone and what was refused."""
    synced = application.inventory()
    counts = {
        "SeatsAdded": sum(len(one.added) for one in synced),
        "SeatsReplacedByOthers": sum(len(one.reseated) for one in synced),
        "SeatsGone": sum(len(one.gone) for one in synced),
        "SeatsRefused": sum(len(one.refused) for one in synced),
        "SourcesUnread": sum(len(one.unread) for one in synced),
    }
    document = {"clusters": [asdict(one) for one in synced if not one.quiet]}
    emit(counts, **document)
    return document
