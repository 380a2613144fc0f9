"""Every event type, by detail-type and by the name of its schema."""

from __future__ import annotations

from collections.abc import Mapping

from faultbridge.events.case import CaseStatusChange
from faultbridge.events.cluster import ClusterIncidentChange, ClusterSafetyChange, ClusterStatusChange
from faultbridge.events.envelope import Event, EventStub
from faultbridge.events.fault import NodeFaultCleared, NodeFaultDetected, NodeFaultUpdated
from faultbridge.events.job import JobChange
from faultbridge.events.node import NodeStatusChange
from faultbridge.events.note import NodeNoteRecorded
from faultbridge.events.replacement import NodeReplacementStep

MODELS: tuple[type[Event], ...] = (
    NodeFaultDetected,
    NodeFaultUpdated,
    NodeFaultCleared,
    NodeStatusChange,
    ClusterStatusChange,
    CaseStatusChange,
    NodeReplacementStep,
    ClusterIncidentChange,
    ClusterSafetyChange,
    JobChange,
    NodeNoteRecorded,
)
STUB = "event-stub"


def kebab(event_type: str) -> str:
    """Turn a detail-type into the name of its schema: `Node Fault Detected` is `node-fault-detected`."""
    return event_type.lower().replace(" ", "-")


BY_TYPE: Mapping[str, type[Event]] = {model.event_type: model for model in MODELS}
BY_NAME: Mapping[str, type[Event]] = {kebab(model.event_type): model for model in MODELS} | {STUB: EventStub}


def schema_name(metadata: Mapping[str, object]) -> str | None:
    """Return which schema an event's metadata calls for, or None for a type that this version does not know."""
    cut = metadata.get("truncated")
    if isinstance(cut, list) and "*" in cut:
        return STUB
    name = kebab(str(metadata.get("event_type")))
    return name if name in BY_NAME else None
