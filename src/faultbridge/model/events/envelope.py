"""The models of event metadata, of stubs and untyped events, and the base model of every event.

A stub replaces an event that is too large for the bus, and has no data. An untyped event is one whose data the reader
cannot interpret.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Self

from pydantic import Field, JsonValue, model_validator

from faultbridge.model.enums import ALL_DATA, SCHEMA_VERSION
from faultbridge.model.events.enums import CaseId, Model, Text
from faultbridge.model.events.parts import EntryMetadata


class Metadata(EntryMetadata):
    """The metadata of an event of any version: its identity, its position in a stream, and its times."""

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
