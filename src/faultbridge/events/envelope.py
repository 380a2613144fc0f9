"""The envelope that all events share: where an entry stands, when it was, whom it concerns."""

from __future__ import annotations

from typing import Annotated, ClassVar, Self

from pydantic import Field, JsonValue, model_validator

from faultbridge.events.base import CaseId, EventId, Instant, Model, Text
from faultbridge.events.words import Actor, Severity

WHOLE = "*"


class Metadata(Model):
    """Metadata of an event of any version."""

    event_id: EventId = Field(description="The same for every delivery of this event: keep it to recognize repeats.")
    event_type: Text = Field(description="The same as the detail-type of the EventBridge event.")
    schema_version: Annotated[str, Field(pattern=r"^[1-9][0-9]*\.[0-9]+$")] = Field(
        description="Major and minor version of the shape. Match the prefix `1.` in rules."
    )
    stack: Text = Field(description="The name of the installation that recorded it.")
    stream: Text = Field(description="Whose record this is a line of: `cluster/node`, or `cluster` for its own.")
    epoch: Annotated[int, Field(ge=1)] = Field(description="Raised when a stream begins anew; sequences restart.")
    sequence: Annotated[int, Field(ge=1)] = Field(
        description="The line's number in stream and epoch, from 1 without a gap. The bus may deliver in any order."
    )
    previous_event_id: EventId | None = Field(description="The event before this one in the stream.")
    occurred_at: Instant = Field(description="When it happened, as well as that is known.")
    recorded_at: Instant = Field(description="When it was committed to the record.")
    cluster: Text
    node: Text | None = Field(description="The node's name; null for what concerns the cluster.")
    severity: Severity | None = Field(description="The worst severity active on the node or in the cluster by then.")
    case_id: CaseId | None = Field(description="The case this belongs to: correlate by it.")
    causation_id: str | None = Field(description="The event, or for the first of a chain the raw record, behind it.")
    recorded_by: Actor
    truncated: tuple[Text, ...] = Field(
        default=(),
        description="JSON pointers of what was cut to keep the event within 60 KB; `*` when all of `data` was.",
    )


class MetadataV1(Metadata):
    """Metadata of an event about a cluster or about one of its nodes."""

    schema_version: Annotated[str, Field(pattern=r"^1\.[0-9]+$")] = Field(
        description="Major and minor version of the shape. Match the prefix `1.` in rules."
    )


class NodeMetadata(MetadataV1):
    """Metadata of an event about one node."""

    node: Text = Field(description="The node's name; it outlives the instances that sit in it.")


class ClusterMetadata(MetadataV1):
    """Metadata of an event about a cluster as a whole."""

    node: None = Field(description="Always null, never absent, so that rules can tell it from a node's.")


class Event(Model):
    """What every event is: metadata to route and order by, and data of its type."""

    event_type: ClassVar[str] = ""
    version: ClassVar[str] = "1.0"

    metadata: Metadata

    @model_validator(mode="after")
    def _is_of_its_type(self) -> Self:
        if self.event_type and self.metadata.event_type != self.event_type:
            raise ValueError(f"event_type is {self.metadata.event_type!r}, not {self.event_type!r}")
        return self


class UntypedEvent(Event):
    """An event whose data this reader does not know: a later type, a later major version, or a stub.

    Its metadata is all there: it can be counted, ordered and passed on.
    """

    data: dict[str, JsonValue]


class StubData(Model):
    """Nothing: the data stays on the record, where the timeline shows it."""


class EventStub(Event):
    """Stands for an event whose content the bus would not take: same id, same place in the stream, no data."""

    metadata: MetadataV1
    data: StubData


def is_stub(metadata: Metadata) -> bool:
    """Tell whether all of the data was cut."""
    return WHOLE in metadata.truncated
