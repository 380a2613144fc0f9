"""Conditions that begin, change and end."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from faultbridge.events.base import Instant, Model, Sha256, Text
from faultbridge.events.envelope import Event, NodeMetadata
from faultbridge.events.parts import Component, Incarnation, Placement
from faultbridge.events.words import Action, Severity


class FaultData(Model):
    """A condition as it is after the change, and the observation that made the difference."""

    code: Text = Field(description="The canonical fault code, such as `xid.79`.")
    component: Component
    severity: Severity = Field(description="What it does to the node, after policy.")
    action: Action = Field(description="What helps, after policy.")
    message: str = Field(description="One line for people.")
    since: Instant = Field(description="When the condition began.")
    observed_at: Instant = Field(description="When the observation behind this event was made.")
    count: Annotated[int, Field(ge=1)] = Field(description="At least how often it was observed.")
    reporters: tuple[Text, ...] = Field(description="Sources that assert it now; empty once it is cleared.")
    source: Text | None = Field(description="Where the observation came from; null when time or policy ended it.")
    reported_code: Text | None = Field(
        default=None, description="The source's own code where the canonical one stands for several."
    )
    attributes: dict[str, str] = Field(description="Details under the source's own field names, lower case.")
    changed: tuple[Text, ...] = Field(
        description="What an update changed: `count` (each power of ten), `severity`, `reporters`, `component`."
    )
    reason: str | None = Field(description="Why it changed or ended, where that is known.")
    incarnation: Incarnation | None = Field(description="Null where nobody can tell which incarnation it was.")
    placement: Placement | None = Field(default=None, description="The place that the node fills.")
    jobs: tuple[Text, ...] = Field(default=(), description="Jobs that ran on the node, where they are registered.")
    rule: Text = Field(description="The policy rule that judged it.")
    policy: Text = Field(description="The version of the policy.")
    catalog: Text = Field(description="The version of the fault catalog.")
    evidence: str | None = Field(
        default=None,
        description="The raw text behind it, at most 4 KB. Not part of the hashed body: its hash stands for it.",
    )
    evidence_sha256: Sha256 | None = Field(default=None, description="SHA-256 of the evidence before any cut.")
    evidence_uri: Text | None = Field(default=None, description="Where the whole raw record is kept, if it is.")


class NodeFaultDetected(Event):
    """A condition begins on a node."""

    event_type: ClassVar[str] = "Node Fault Detected"
    metadata: NodeMetadata
    data: FaultData


class NodeFaultUpdated(Event):
    """A condition that is already known changes its count by a power of ten, its severity, reporters or component."""

    event_type: ClassVar[str] = "Node Fault Updated"
    metadata: NodeMetadata
    data: FaultData


class NodeFaultCleared(Event):
    """A condition ends: no source asserts it any more, or time, a reboot or a verified repair ended it."""

    event_type: ClassVar[str] = "Node Fault Cleared"
    metadata: NodeMetadata
    data: FaultData
