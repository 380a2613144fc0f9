"""Event types, their schema names, and the module of each model. Models are loaded at first use."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from faultbridge.model.enums import ALL_DATA, EntryType

if TYPE_CHECKING:
    from faultbridge.model.events.envelope import Event

STUB = "event-stub"
MODULE_OF_EVENT: Mapping[str, str] = {
    EntryType.FAULT_DETECTED.value: "node",
    EntryType.FAULT_UPDATED.value: "node",
    EntryType.FAULT_CLEARED.value: "node",
    EntryType.NODE_STATUS.value: "node",
    EntryType.CLUSTER_STATUS.value: "cluster",
    EntryType.CASE_STATUS.value: "case",
    EntryType.REPLACEMENT_STEP.value: "case",
    EntryType.CLUSTER_INCIDENT.value: "cluster",
    EntryType.CLUSTER_SAFETY.value: "cluster",
    EntryType.JOB.value: "job",
    EntryType.JOB_CHECKPOINT.value: "job",
    EntryType.JOB_EXPLAINED.value: "job",
    EntryType.NOTE.value: "node",
}


def event_name(event_type: str) -> str:
    """Return the schema name of a detail-type, such as `node-fault-detected` for `Node Fault Detected`."""
    return event_type.lower().replace(" ", "-")


EVENT_NAMES: tuple[str, ...] = tuple(event_name(event_type) for event_type in MODULE_OF_EVENT)


def model_of(event_type: str) -> type[Event] | None:
    """Return the model of a detail-type; None if the type is unknown."""
    module_name = MODULE_OF_EVENT.get(event_type)
    if module_name is None:
        return None
    module = import_module(f"faultbridge.model.events.{module_name}")
    model: type[Event] = getattr(module, event_type.replace(" ", ""))
    return model


def schema_name(metadata: Mapping[str, object]) -> str | None:
    """Return the schema name for the metadata of an event; None if the event type is unknown.

    A stub of any event type has the schema name `event-stub`.
    """
    truncated = metadata.get("truncated")
    if isinstance(truncated, list) and ALL_DATA in truncated:
        return STUB
    name = event_name(str(metadata.get("event_type")))
    return name if name in EVENT_NAMES else None
