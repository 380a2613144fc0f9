"""The models of event metadata, of stubs and untyped events, and the base model of every event.

A stub replaces an event that is too large for the bus, and has no data. An untyped event is one whose data the reader
cannot interpret.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Self

from pydantic import Field, JsonValue, model_validator

from faultbridge.model.enums import ALL_DATA, MAX_JOBS_OF_NODE, SCHEMA_VERSION, Actor
from faultbridge.model.events.enums import CaseId, EventId, Instant, Model, Open, Text
from faultbridge.model.fault_enums import Severity


class Metadata(Model):
    """The metadata of an event of any version: its identity, its position in a stream, and its times."""

    event_id: EventId = Field(description="Equal in every delivery of this event. Use it to recognize duplicates.")
    event_type: Text = Field(description="Equal to the detail-type of the EventBridge event.")
    schema_version: Annotated[str, Field(pattern=r"^[1-9][0-9]*\.[0-9]+$")] = Field(
        description="Major and minor version of the schema. Match the prefix `1.` in rules."
    )
    stack: Text = Field(description="Name of the Faultbridge installation that recorded the event.")
    stream: Text = Field(
        description="The event's stream: `cluster/node`, or `cluster` for events of the cluster itself."
    )
    epoch: Annotated[int, Field(ge=1)] = Field(
        description="Increases when a stream starts again after a restore; sequence numbers then restart at 1."
    )
    sequence: Annotated[int, Field(ge=1)] = Field(
        description="Position in the stream and epoch, from 1 without gaps. The bus may deliver in any order."
    )
    previous_event_id: EventId | None = Field(description="The event before this one in the stream.")
    occurred_at: Instant = Field(description="When it happened, to the best of our knowledge.")
    recorded_at: Instant = Field(description="When it was stored.")
    cluster: Text
    node: Text | None = Field(description="Node name; null for events of the cluster itself.")
    severity: Open[Severity] | None = Field(
        description="Highest severity active on the node or cluster after the event."
    )
    case_id: CaseId | None = Field(description="The case of the event. Use it to correlate events.")
    job_ids: Annotated[tuple[Text, ...], Field(max_length=MAX_JOBS_OF_NODE)] = Field(
        default=(), description="The jobs that run on the node, or the job that the event is about."
    )
    causation_id: str | None = Field(
        description="Id of the event that caused this one; for a fault, of the raw record that reported it. "
        "Null for an event that starts a chain, such as an order of an operator."
    )
    recorded_by: Open[Actor]
    truncated: tuple[Text, ...] = Field(
        default=(),
        description="JSON pointers of removed parts, to keep the event within 60 KB; `*` means all of `data`.",
    )


class MetadataV1(Metadata):
    """Metadata of an event of version 1, about a cluster or one of its nodes."""

    schema_version: Annotated[str, Field(pattern=r"^1\.[0-9]+$")] = Field(
        description="Major and minor version of the schema. Match the prefix `1.` in rules."
    )


class NodeMetadata(MetadataV1):
    """Metadata of an event about one node."""

    node: Text = Field(description="Node name. It stays the same when the instance is replaced.")


class CaseMetadata(NodeMetadata):
    """Metadata of an event about a case."""

    case_id: CaseId = Field(description="The case.")


class ClusterMetadata(MetadataV1):
    """Metadata of an event about a cluster."""

    node: None = Field(description="Always null, never absent. Match `[null]` in rules for events of the cluster.")


class Event(Model):
    """The base of every event: metadata for routing and ordering, and the data of its type."""

    event_type: ClassVar[str] = ""
    version: ClassVar[str] = SCHEMA_VERSION

    metadata: Metadata

    @model_validator(mode="after")
    def _has_its_event_type(self) -> Self:
        if self.event_type and self.metadata.event_type != self.event_type:
            raise ValueError(f"wrong event_type: {self.metadata.event_type!r}; allowed: {self.event_type!r}")
        return self


class UntypedEvent(Event):
    """An event whose data this reader cannot interpret.

    The event has an unknown type or a major version that the reader does not support yet, or it is a stub. Its metadata
    is complete, so it can be counted, ordered and forwarded.
    """

    data: dict[str, JsonValue]


class StubData(Model):
    """The data of a stub, which is empty. The complete data is in the timeline."""


class EventStub(Event):
    """Replaces an event that is too large for the bus. A stub has the event's metadata, but no data."""

    metadata: MetadataV1
    data: StubData


def is_stub(metadata: Metadata) -> bool:
    """Return whether an event is a stub: all its data was removed."""
    return ALL_DATA in metadata.truncated
