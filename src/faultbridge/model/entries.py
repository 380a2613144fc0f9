"""Entries: immutable lines of a node's or cluster's timeline, each also an outbox row and an event.

A decision produces a `Draft`. The function `seal` makes the draft an `Entry` of a stream: it adds the sequence number,
the event id, the exact JSON text of the body, and a hash over that text and the hash of the previous entry.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import cache
from typing import Annotated, Any

from msgspec import Struct, field

from faultbridge.model.canonical_json import canonical_json, event_json
from faultbridge.model.enums import MAX_JOBS_OF_NODE, SCHEMA_VERSION, Actor, EntryType
from faultbridge.model.event_data import (
    CaseId,
    CaseStatusData,
    Component,
    EventData,
    EventId,
    FaultData,
    NoteData,
    Positive,
    ReplacementStepData,
    Text,
    Version,
    doc,
    plain,
)
from faultbridge.model.fault_enums import Severity
from faultbridge.model.nodes import Head, NodeState
from faultbridge.model.records import Outcome
from faultbridge.model.values import replace

MAX_REASON = 2000
"""Maximum characters of a reason. A page contains it up to eight times, and SNS accepts 256 KB."""

FAULT_TYPES = frozenset({EntryType.FAULT_DETECTED, EntryType.FAULT_UPDATED, EntryType.FAULT_CLEARED})


class Draft(Struct, frozen=True):
    """A timeline entry that is not committed yet: it has no sequence number and no hash.

    - `data` is the data of its event, without evidence. `evidence` is raw text of at most 4 KB.
    - `causation_id` is the id of the raw record or event that caused the entry. If it is None, `domain.causation`
      selects the cause.
    - `subject` is what the entry is about: the condition key, or the name of the breaker, budget, pause or hold.
    - `job_ids` are the jobs that the entry concerns.
    """

    type: EntryType
    occurred_at: datetime
    data: EventData
    case_id: str | None = None
    causation_id: str | None = None
    evidence: str = ""
    subject: str | None = None
    job_ids: tuple[str, ...] = ()


@cache
def _namespace(stack_id: str) -> uuid.UUID:
    return uuid.uuid5(uuid.NAMESPACE_URL, stack_id)


class Stream(Struct, frozen=True):
    """The entry stream of a node, or of the cluster itself when `node` is None."""

    stack_id: str
    stack: str
    cluster: str
    node: str | None = None

    @property
    def name(self) -> str:
        """Return the stream name: `cluster/node`, or `cluster` for the cluster's own stream."""
        return self.cluster if self.node is None else f"{self.cluster}/{self.node}"

    def genesis(self, epoch: int) -> str:
        """Return the hash that the first entry of an epoch uses in place of the previous entry's hash."""
        parts = (self.stack_id, str(epoch), self.cluster, self.node or "")
        return hashlib.sha256("/".join(parts).encode()).hexdigest()

    def event_id(self, epoch: int, sequence: int) -> str:
        """Return the id of the entry at this epoch and sequence number of the stream, as a UUIDv5."""
        return str(uuid.uuid5(_namespace(self.stack_id), f"{self.name}/{epoch}/{sequence}"))


class EntryMetadata(EventData, frozen=True, kw_only=True):
    """The metadata of an entry: its identity, its position in a stream, and its times."""

    event_id: Annotated[EventId, doc("Equal in every delivery of this event. Use it to recognize duplicates.")]
    event_type: Annotated[Text, doc("Equal to the detail-type of the EventBridge event.")]
    schema_version: Annotated[Version, doc("Major and minor version of the schema. Match the prefix `1.` in rules.")]
    stack: Annotated[Text, doc("Name of the Faultbridge installation that recorded the event.")]
    stream: Annotated[Text, doc("The event's stream: `cluster/node`, or `cluster` for events of the cluster itself.")]
    epoch: Annotated[
        Positive, doc("Increases when a stream starts again after a restore; sequence numbers then restart at 1.")
    ]
    sequence: Annotated[
        Positive, doc("Position in the stream and epoch, from 1 without gaps. The bus may deliver in any order.")
    ]
    previous_event_id: Annotated[EventId | None, doc("The event before this one in the stream.")]
    occurred_at: Annotated[datetime, doc("When it happened, to the best of our knowledge.")]
    recorded_at: Annotated[datetime, doc("When it was stored.")]
    cluster: Text
    node: Annotated[Text | None, doc("Node name; null for events of the cluster itself.")]
    severity: Annotated[Severity | None, doc("Highest severity active on the node or cluster after the event.")]
    case_id: Annotated[CaseId | None, doc("The case of the event. Use it to correlate events.")]
    job_ids: Annotated[
        tuple[Text, ...],
        doc("The jobs that run on the node, or the job that the event is about.", MAX_JOBS_OF_NODE),
    ] = ()
    causation_id: Annotated[
        str | None,
        doc(
            "Id of the event that caused this one; for a fault, of the raw record that reported it. "
            "Null for an event that starts a chain, such as an order of an operator."
        ),
    ]
    recorded_by: Actor


class Entry(Struct, frozen=True):
    """One line of an entry stream.

    `body` is the event's exact JSON text without evidence. `hash` covers `body` and the hash of the previous entry.
    """

    stream: Stream
    epoch: int
    sequence: int
    event_id: str
    type: EntryType
    severity: Severity | None
    recorded_at: datetime
    body: str
    hash: str
    evidence: str = ""
    case_id: str | None = None
    device: str | None = None
    causation_id: str | None = None


def chain(previous: str, body: str) -> str:
    """Return the hash of an entry: it covers the entry's body and the hash of the previous entry."""
    return hashlib.sha256((previous + body).encode()).hexdigest()


def seal(
    stream: Stream,
    head: Head,
    drafts: Iterable[Draft],
    *,
    actor: Actor,
    severity: Severity | None,
    recorded_at: datetime,
) -> tuple[tuple[Entry, ...], Head]:
    """Return the finished entries of these drafts, in order, and the end of their stream after them.

    `head` is the current end of the stream. Each entry gets the next sequence number, and a hash that covers the entry
    and the hash of the entry before it. `severity` is the severity of all these entries, or None.
    """
    entries: list[Entry] = []
    for draft in drafts:
        entry = _seal_one(stream, head, draft, actor, severity, recorded_at)
        entries.append(entry)
        head = replace(head, sequence=entry.sequence, hash=entry.hash, event_id=entry.event_id)
    return tuple(entries), head


def _seal_one(
    stream: Stream, head: Head, draft: Draft, actor: Actor, severity: Severity | None, recorded_at: datetime
) -> Entry:
    sequence = head.sequence + 1
    event_id = stream.event_id(head.epoch, sequence)
    metadata = EntryMetadata(
        event_id=event_id,
        event_type=draft.type.value,
        schema_version=SCHEMA_VERSION,
        stack=stream.stack,
        stream=stream.name,
        epoch=head.epoch,
        sequence=sequence,
        previous_event_id=head.event_id,
        occurred_at=draft.occurred_at,
        recorded_at=recorded_at,
        cluster=stream.cluster,
        node=stream.node,
        severity=severity,
        case_id=draft.case_id,
        job_ids=draft.job_ids,
        causation_id=draft.causation_id,
        recorded_by=actor,
    )
    if isinstance(draft.data, NoteData | ReplacementStepData):
        canonical_json(draft.data.facts)  # raises TypeError for what `plain` would convert, such as a set
    data = plain(draft.data)
    if draft.evidence:
        data["evidence_sha256"] = evidence_digest(draft.evidence)
    body = event_json({"metadata": plain(metadata), "data": data})
    return Entry(
        stream=stream,
        epoch=head.epoch,
        sequence=sequence,
        event_id=event_id,
        type=draft.type,
        severity=severity,
        recorded_at=recorded_at,
        body=body,
        hash=chain(head.hash or stream.genesis(head.epoch), body),
        evidence=draft.evidence,
        case_id=draft.case_id,
        device=device_of(draft.data),
        causation_id=draft.causation_id,
    )


def limited(reason: str) -> str:
    """Return a reason for an entry, cut to `MAX_REASON` characters if it is longer."""
    return reason if len(reason) <= MAX_REASON else reason[: MAX_REASON - 3] + "..."


def evidence_digest(evidence: str) -> str:
    """Return the SHA-256 of an entry's evidence. The body contains it instead of the evidence."""
    return hashlib.sha256(evidence.encode()).hexdigest()


def component_of(data: EventData | None) -> Component | None:
    """Return the component of a fault, or of the fault that caused a case; None for other data."""
    if isinstance(data, CaseStatusData):
        return data.cause.component
    return data.component if isinstance(data, FaultData) else None


def device_of(data: EventData | None) -> str | None:
    """Return the serial number, else the UUID, of the device that a fault or case entry is about, or None.

    Entries are indexed by this value. The result is None for other entries and for a device with neither.
    """
    component = component_of(data)
    return (component.serial or component.uuid) if component else None


class Transition(Struct, frozen=True):
    """A node's next state, and the draft timeline entries of the change in their order.

    - `writes` are further DynamoDB writes (`storage.writes.Write`) that commit in the same transaction.
    - `outcomes` maps the id of each raw record to its outcome. It is empty if no raw record caused the change.
    - `remaining` holds the observations (`pipeline.fold.changes.Arrival`) that did not fit into this commit.
    """

    state: NodeState
    drafts: tuple[Draft, ...] = ()
    writes: tuple[Any, ...] = ()
    outcomes: Mapping[str, Outcome] = field(default_factory=dict)
    remaining: tuple[Any, ...] = ()
