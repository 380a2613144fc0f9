"""The contract with customers: every event as a typed model, and how to read one. Needs pydantic and nothing else.

    from faultbridge.events import CaseStatusChange, read_envelope

Names are loaded when they are first asked for, so that a producer that only needs the wire pays for no models.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from faultbridge.events.case import CaseStatusChange
    from faultbridge.events.cluster import ClusterIncidentChange, ClusterSafetyChange, ClusterStatusChange
    from faultbridge.events.envelope import Event, EventStub, Metadata, UntypedEvent
    from faultbridge.events.fault import NodeFaultCleared, NodeFaultDetected, NodeFaultUpdated
    from faultbridge.events.job import JobChange
    from faultbridge.events.node import NodeStatusChange
    from faultbridge.events.note import NodeNoteRecorded
    from faultbridge.events.reading import read, read_envelope
    from faultbridge.events.replacement import NodeReplacementStep

__all__ = [
    "CaseStatusChange",
    "ClusterIncidentChange",
    "ClusterSafetyChange",
    "ClusterStatusChange",
    "Event",
    "EventStub",
    "JobChange",
    "Metadata",
    "NodeFaultCleared",
    "NodeFaultDetected",
    "NodeFaultUpdated",
    "NodeNoteRecorded",
    "NodeReplacementStep",
    "NodeStatusChange",
    "UntypedEvent",
    "read",
    "read_envelope",
]

_HOMES = {
    "case": ("CaseStatusChange",),
    "cluster": ("ClusterIncidentChange", "ClusterSafetyChange", "ClusterStatusChange"),
    "envelope": ("Event", "EventStub", "Metadata", "UntypedEvent"),
    "fault": ("NodeFaultCleared", "NodeFaultDetected", "NodeFaultUpdated"),
    "job": ("JobChange",),
    "node": ("NodeStatusChange",),
    "note": ("NodeNoteRecorded",),
    "reading": ("read", "read_envelope"),
    "replacement": ("NodeReplacementStep",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
