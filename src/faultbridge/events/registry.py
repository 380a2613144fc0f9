"""Which module has the model of which event. Models are loaded when an event of their type is first read."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from faultbridge.events.envelope import WHOLE, Event

STUB = "event-stub"
HOMES: Mapping[str, str] = {
    "Node Fault Detected": "fault",
    "Node Fault Updated": "fault",
    "Node Fault Cleared": "fault",
    "Node Status Change": "node",
    "Cluster Status Change": "cluster",
    "Case Status Change": "case",
    "Node Replacement Step": "replacement",
    "Cluster Incident Change": "cluster",
    "Cluster Safety Change": "cluster",
    "Job Change": "job",
    "Node Note Recorded": "note",
}


def kebab(event_type: str) -> str:
    """Turn a detail-type into the name of its schema: `Node Fault Detected` is `node-fault-detected`."""
    return event_type.lower().replace(" ", "-")


NAMES: tuple[str, ...] = tuple(kebab(event_type) for event_type in HOMES)


def model_of(event_type: str) -> type[Event] | None:
    """Return the model of a detail-type, or None for one that this version does not know."""
    home = HOMES.get(event_type)
    if home is None:
        return None
    module = import_module(f"faultbridge.events.{home}")
    model: type[Event] = getattr(module, event_type.replace(" ", ""))
    return model


def schema_name(metadata: Mapping[str, object]) -> str | None:
    """Return which schema an event's metadata calls for, or None for a type that this version does not know."""
    cut = metadata.get("truncated")
    if isinstance(cut, list) and WHOLE in cut:
        return STUB
    name = kebab(str(metadata.get("event_type")))
    return name if name in NAMES else None
