"""Every model at once, by the name of its schema: for what writes and checks schemas, not for readers."""

from __future__ import annotations

from collections.abc import Mapping

from faultbridge.events.case import CaseStatusChange
from faultbridge.events.cluster import ClusterIncidentChange, ClusterSafetyChange, ClusterStatusChange
from faultbridge.events.envelope import Event, EventStub
from faultbridge.events.fault import NodeFaultCleared, NodeFaultDetected, NodeFaultUpdated
from faultbridge.events.job import JobChange
from faultbridge.events.node import NodeStatusChange
from faultbridge.events.note import NodeNoteRecorded
from faultbridge.events.registry import STUB, kebab
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
BY_NAME: Mapping[str, type[Event]] = {kebab(model.event_type): model for model in MODELS} | {STUB: EventStub}
