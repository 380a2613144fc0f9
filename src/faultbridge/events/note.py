"""What changed nothing but belongs on the record."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from faultbridge.events.base import Model, Sha256, Text
from faultbridge.events.envelope import Event, MetadataV1
from faultbridge.events.parts import Facts, Subject
from faultbridge.events.words import NoteKind


class NoteData(Model):
    """A note about a node or a cluster."""

    kind: NoteKind
    text: str = Field(description="One line for people.")
    about: Subject | None = Field(description="The fault that it is about, if it is about one.")
    facts: Facts
    operator: Text | None = Field(default=None, description="The caller's ARN where a person spoke or gave an order.")
    stage: Text | None = Field(
        default=None, description="Where it stands what one note begins and another ends: `begun`, `over`, `overdue`."
    )
    evidence: str | None = Field(default=None, description="The raw text behind it, at most 4 KB.")
    evidence_sha256: Sha256 | None = Field(default=None, description="SHA-256 of the evidence before any cut.")
    evidence_uri: Text | None = Field(default=None, description="Where the whole raw record is kept, if it is.")


class NodeNoteRecorded(Event):
    """Something is put on the record that changed no status: a late fault, a refusal, an order, a dry run's finding.

    `node` is null where it concerns the cluster.
    """

    event_type: ClassVar[str] = "Node Note Recorded"
    metadata: MetadataV1
    data: NoteData
