"""Events about one node: its faults, its status changes, and notes."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from faultbridge.model.enums import EntryType, Isolation, NodeStatus, NoteKind
from faultbridge.model.events.enums import Instant, Model, Open, Text
from faultbridge.model.events.envelope import Event, MetadataV1, NodeMetadata
from faultbridge.model.events.parts import (
    Component,
    Detail,
    Evidence,
    EvidenceHash,
    EvidenceUri,
    Facts,
    Failure,
    FaultReference,
    Incarnation,
    Placement,
)
from faultbridge.model.fault_enums import Action, Severity


class FaultData(Model):
    """The state of a condition after a change, and the observation that caused the change, if any."""

    code: Text = Field(description="Canonical fault code, such as `xid.79`.")
    component: Component
    severity: Open[Severity] = Field(description="Severity for the node, after policy.")
    action: Open[Action] = Field(description="Recommended action, after policy.")
    message: str = Field(description="One line of text for readers.")
    since: Instant = Field(description="When the condition started.")
    observed_at: Instant = Field(description="When the observation behind this event was made.")
    count: Annotated[int, Field(ge=1)] = Field(description="Lower bound of the number of observations.")
    reporters: tuple[Text, ...] = Field(description="Sources that report it now; empty after it is cleared.")
    source: Text | None = Field(description="Source of the observation; null if time or policy ended the condition.")
    reported_code: Text | None = Field(
        default=None, description="The source's own code, if several of them map to the canonical code."
    )
    attributes: dict[str, str] = Field(description="Details, with the source's field names in lower case.")
    changed: tuple[Text, ...] = Field(
        description="What an update changed: `count` (each power of ten), `severity`, `reporters`, `component`."
    )
    reason: str | None = Field(description="Why it changed or ended, if known.")
    incarnation: Incarnation | None = Field(description="Instance and boot with the fault; null if unknown.")
    placement: Placement | None = Field(default=None, description="Place of the node in its cluster.")
    rule: Text = Field(description="Policy rule that set severity and action.")
    policy: Text = Field(description="Policy version.")
    catalog: Text = Field(description="Fault catalog version.")
    evidence: Evidence = None
    evidence_sha256: EvidenceHash = None
    evidence_uri: EvidenceUri = None


class NodeFaultDetected(Event):
    """Published when a condition starts on a node."""

    event_type: ClassVar[str] = EntryType.FAULT_DETECTED.value
    metadata: NodeMetadata
    data: FaultData


class NodeFaultUpdated(Event):
    """Published when an active condition changes its severity, action, reporters, component or count.

    A growing count is published only at each power of ten.
    """

    event_type: ClassVar[str] = EntryType.FAULT_UPDATED.value
    metadata: NodeMetadata
    data: FaultData


class NodeFaultCleared(Event):
    """Published when a condition ends.

    The catalog lists for each fault code what ends a condition, such as a report of its end, a period without reports,
    a reboot of the node, or a verified repair.
    """

    event_type: ClassVar[str] = EntryType.FAULT_CLEARED.value
    metadata: NodeMetadata
    data: FaultData


class NodeStatusData(Model):
    """The status of a node before and after a change, and the instance that backs the node."""

    from_: Open[NodeStatus] | None = Field(alias="from", description="Null for a newly registered node.")
    to: Open[NodeStatus]
    reason: str = Field(description="One line of text for readers: a fault code, a step or an order.")
    failure: Failure = None
    detail: Detail = None
    incarnation: Incarnation | None = Field(description="Instance and boot of the node; null without an instance.")
    isolation: Open[Isolation]
    unverified: bool = Field(description="True for an imported node that was put in service without verification.")
    placement: Placement | None = Field(default=None, description="Place of the node in its cluster.")


class NodeStatusChange(Event):
    """Published when a node changes its status. Only `healthy` and `degraded` nodes are in service."""

    event_type: ClassVar[str] = EntryType.NODE_STATUS.value
    metadata: NodeMetadata
    data: NodeStatusData


class NoteData(Model):
    """A note about a node or a cluster."""

    kind: Open[NoteKind]
    text: str = Field(description="One line of text for readers.")
    about: FaultReference | None = Field(description="The fault that the note concerns, if any.")
    facts: Facts
    operator: Text | None = Field(default=None, description="ARN of the operator who gave an order or a comment.")
    stage: Text | None = Field(
        default=None, description="For notes that start or end something: `begun`, `overdue` or `over`."
    )
    evidence: Evidence = None
    evidence_sha256: EvidenceHash = None
    evidence_uri: EvidenceUri = None


class NodeNoteRecorded(Event):
    """Published for information that changes no status.

    Examples are a late fault, a refused admission, an order of an operator, and the result of a dry run. `node` is null
    for a note about a cluster.
    """

    event_type: ClassVar[str] = EntryType.NOTE.value
    metadata: MetadataV1
    data: NoteData
