"""Entries: immutable lines of a stream, audit record, outbox row and event in one.

A `Draft` is what the pure stages want on the record. Sealing gives it its place in the stream: sequence, event id,
the exact JSON text of its body and a hash over the text and the entry before it.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from faultbridge.domain.edges import Actor
from faultbridge.domain.faults import Severity
from faultbridge.domain.nodes import Head
from faultbridge.domain.times import to_text

SCHEMA_VERSION = "1.0"


class EntryType(StrEnum):
    """What an entry says; also the detail-type of its event."""

    FAULT_DETECTED = "Node Fault Detected"
    FAULT_UPDATED = "Node Fault Updated"
    FAULT_CLEARED = "Node Fault Cleared"
    NODE_STATUS = "Node Status Change"
    CLUSTER_STATUS = "Cluster Status Change"
    CASE_STATUS = "Case Status Change"
    REPLACEMENT_STEP = "Node Replacement Step"
    CLUSTER_INCIDENT = "Cluster Incident Change"
    CLUSTER_SAFETY = "Cluster Safety Change"
    JOB = "Job Change"
    NOTE = "Node Note Recorded"


@dataclass(frozen=True, slots=True)
class Draft:
    """An entry without its place. `data` is JSON without floats; `evidence` is raw text of at most 4 KB.

    `device` is the serial number or UUID under which a hardware fault can be found again on another node.
    """

    type: EntryType
    occurred_at: datetime
    data: Mapping[str, Any]
    case_id: str | None = None
    causation_id: str | None = None
    device: str | None = None
    evidence: str = ""


@dataclass(frozen=True, slots=True)
class Stream:
    """Whose entries they are: `node` is None for those of the cluster itself."""

    stack_id: str
    stack: str
    cluster: str
    node: str | None = None

    @property
    def name(self) -> str:
        """Return `cluster/node`, or `cluster` for the cluster's own."""
        return self.cluster if self.node is None else f"{self.cluster}/{self.node}"

    def genesis(self, epoch: int) -> str:
        """Return what the first entry of an epoch hashes in place of a predecessor."""
        parts = (self.stack_id, str(epoch), self.cluster, self.node or "")
        return hashlib.sha256("/".join(parts).encode()).hexdigest()

    def event_id(self, epoch: int, sequence: int) -> str:
        """Return the id of one entry: the same whenever and by whomever it is computed."""
        namespace = uuid.uuid5(uuid.NAMESPACE_URL, self.stack_id)
        return str(uuid.uuid5(namespace, f"{self.name}/{epoch}/{sequence}"))


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a stream. `body` is the exact JSON text of the event without its evidence; `hash` covers it."""

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


def canonical_json(value: object) -> str:
    """Render JSON in the one form that is hashed: sorted keys, no blanks, UTF-8 as it is.

    Raises TypeError on anything that is not JSON, and on floats: those do not come back from a table as they went in.
    """
    _refuse_floats(value)
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=_refuse)


def _refuse_floats(value: object) -> None:
    if isinstance(value, float):
        _refuse(value)
    elif isinstance(value, Mapping):
        for one in value.values():
            _refuse_floats(one)
    elif isinstance(value, list | tuple):
        for one in value:
            _refuse_floats(one)


def _refuse(value: object) -> str:
    message = f"{type(value).__name__} has no place in an entry"
    raise TypeError(message)


def chain(previous: str, body: str) -> str:
    """Hash a body together with the hash of the entry before it."""
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
    """Give drafts their places after the head of their stream; returns the entries and the new head."""
    entries: list[Entry] = []
    for draft in drafts:
        entry = _place(stream, head, draft, actor, severity, recorded_at)
        entries.append(entry)
        head = replace(head, sequence=entry.sequence, hash=entry.hash, event_id=entry.event_id)
    return tuple(entries), head


def _place(
    stream: Stream, head: Head, draft: Draft, actor: Actor, severity: Severity | None, recorded_at: datetime
) -> Entry:
    sequence = head.sequence + 1
    event_id = stream.event_id(head.epoch, sequence)
    metadata = {
        "event_id": event_id,
        "event_type": draft.type.value,
        "schema_version": SCHEMA_VERSION,
        "stack": stream.stack,
        "stream": stream.name,
        "epoch": head.epoch,
        "sequence": sequence,
        "previous_event_id": head.event_id,
        "occurred_at": to_text(draft.occurred_at),
        "recorded_at": to_text(recorded_at),
        "cluster": stream.cluster,
        "node": stream.node,
        "severity": severity.value if severity else None,
        "case_id": draft.case_id,
        "causation_id": draft.causation_id,
        "recorded_by": actor.value,
    }
    body = canonical_json({"metadata": metadata, "data": _data(draft)})
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
        device=draft.device,
    )


def _data(draft: Draft) -> Mapping[str, Any]:
    if not draft.evidence:
        return draft.data
    return {**draft.data, "evidence_sha256": hashlib.sha256(draft.evidence.encode()).hexdigest()}
