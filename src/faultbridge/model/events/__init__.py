"""Events: the typed models of all events that Faultbridge publishes.

A program that reads events with this package needs no other dependency than pydantic.

    from faultbridge.model.events import CaseStatusChange, read_envelope

A module of this package is imported when one of its names is first used. Read the modules in this order:

- `enums`: the base model, the scalar types of fields, and how events read the enumerations of `faultbridge.model`
- `envelope`: the metadata of every event, stubs and events of unknown types
- `parts`, `node`, `case`, `cluster`, `job`: generated from `faultbridge.model.event_data` by `make schemas`
- `registry`: event types, schema names, and the module of each model
- `reading`: reads events of any version
- `wire`: converts an entry to the `detail` of its event, of at most 60 KB, and back; uses no models
- `hyperpod`: copies of events in the format of SageMaker HyperPod
- `json_schema`: builds JSON Schemas of the events, and validates events (`infra/schemas.py` checks their changes)

Tests: tests/events.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from faultbridge.model.events.case import CaseStatusChange, NodeReplacementStep
    from faultbridge.model.events.cluster import ClusterIncidentChange, ClusterSafetyChange, ClusterStatusChange
    from faultbridge.model.events.envelope import Event, EventStub, Metadata, UntypedEvent
    from faultbridge.model.events.job import JobChange, JobCheckpointRequested, JobExplained
    from faultbridge.model.events.node import (
        NodeFaultCleared,
        NodeFaultDetected,
        NodeFaultUpdated,
        NodeNoteRecorded,
        NodeStatusChange,
    )
    from faultbridge.model.events.reading import read, read_envelope

__all__ = [
    "CaseStatusChange",
    "ClusterIncidentChange",
    "ClusterSafetyChange",
    "ClusterStatusChange",
    "Event",
    "EventStub",
    "JobChange",
    "JobCheckpointRequested",
    "JobExplained",
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

_NAMES_BY_MODULE = {
    "case": ("CaseStatusChange", "NodeReplacementStep"),
    "cluster": ("ClusterIncidentChange", "ClusterSafetyChange", "ClusterStatusChange"),
    "envelope": ("Event", "EventStub", "Metadata", "UntypedEvent"),
    "job": ("JobChange", "JobCheckpointRequested", "JobExplained"),
    "node": ("NodeFaultCleared", "NodeFaultDetected", "NodeFaultUpdated", "NodeNoteRecorded", "NodeStatusChange"),
    "reading": ("read", "read_envelope"),
}
_MODULE_OF = {name: module for module, names in _NAMES_BY_MODULE.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
