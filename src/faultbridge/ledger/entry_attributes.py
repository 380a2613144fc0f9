"""Entry attributes: recomputes a stored entry's attributes from its hashed body and compares them.

The body does not determine `instance_id` and `expires_at`, which are not compared.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from faultbridge.dataclass import dataclass
from faultbridge.domain.entries import Entry, EntryType, Stream, device_of, evidence_digest
from faultbridge.domain.faults import Severity
from faultbridge.domain.times import from_text
from faultbridge.errors import Misconfigured
from faultbridge.ledger.streams import partition
from faultbridge.storage import items
from faultbridge.storage.wire.archive_lines import line_of

StoredForm = Callable[[Entry, Mapping[str, Any]], Mapping[str, Any]]
"""Computes the attributes that a stored entry must have, from the entry and its stored attributes."""

_UNDETERMINED = frozenset({"instance_id", "expires_at"})
"""Attributes of an entry that its body does not determine."""


def table_form(shard: int) -> StoredForm:
    """Return a function that computes an entry's attributes in the table from its body.

    `shard` is the part of the cluster's index that contains the entry's node, or 0 for an entry of a cluster.
    """

    def build(entry: Entry, stored: Mapping[str, Any]) -> Mapping[str, Any]:
        return items.entry_item(entry, partition(entry.stream), shard, stored.get("instance_id"))

    return build


def archive_form(entry: Entry, _stored: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the attributes that an entry has in the S3 archive."""
    return asdict(line_of(items.entry_item(entry, partition(entry.stream), 0)))


@dataclass(frozen=True, slots=True)
class ParsedEntry:
    """A timeline entry that was recomputed from its stored body, with the metadata and data of the body."""

    entry: Entry
    metadata: Mapping[str, Any]
    data: Mapping[str, Any]


def parse_entry(stream: Stream, position: tuple[int, int], stored: Mapping[str, Any]) -> ParsedEntry:
    """Return the entry that a stored item contains; a body that is not an event raises ValueError."""
    try:
        body = json.loads(stored["body"])
        metadata, data = dict(body["metadata"]), dict(body["data"])
        dict(data.get("component") or {})
        kind, severity = EntryType(metadata["event_type"]), metadata["severity"]
        entry = Entry(
            stream=stream,
            epoch=position[0],
            sequence=position[1],
            event_id=stream.event_id(*position),
            type=kind,
            severity=Severity(severity) if severity else None,
            recorded_at=from_text(metadata["recorded_at"]),
            body=stored["body"],
            hash=str(stored.get("hash")),
            evidence=str(stored.get("evidence") or ""),
            case_id=metadata["case_id"],
            device=device_of(kind, data),
            causation_id=metadata.get("causation_id"),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(str(error)) from None
    return ParsedEntry(entry, metadata, data)


def misplaced(parsed: ParsedEntry) -> list[str]:
    """Return the names of the metadata fields in the body that contradict the entry's stream or position."""
    entry, stream = parsed.entry, parsed.entry.stream
    expected = {
        "epoch": entry.epoch,
        "sequence": entry.sequence,
        "stream": stream.name,
        "event_id": entry.event_id,
        "cluster": stream.cluster,
        "node": stream.node,
    }
    return [name for name, value in expected.items() if parsed.metadata.get(name) != value]


def altered_attributes(parsed: ParsedEntry, stored: Mapping[str, Any], form: StoredForm) -> list[str]:
    """Return the names of the attributes whose stored values contradict the entry's body.

    If this release cannot read the schema version of the entry, the result is only `schema`.
    """
    try:
        current = items.upcast(stored)
    except (KeyError, TypeError, ValueError, Misconfigured):
        return ["schema"]
    expected, evidence = form(parsed.entry, current), parsed.entry.evidence
    altered = {name for name in _different(current, expected) if not _unproven(name, current)}
    if parsed.data.get("evidence_sha256") != (evidence_digest(evidence) if evidence else None):
        altered.add("evidence")
    return sorted(altered)


def _different(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    return [name for name in one.keys() | other.keys() if one.get(name, _MISSING) != other.get(name, _MISSING)]


_MISSING = object()


def _unproven(name: str, stored: Mapping[str, Any]) -> bool:
    """Return whether a difference in a stored attribute is ignored, because it does not prove an alteration.

    The result is True for each attribute that the entry's body does not determine. It is also True for the index keys
    `gsi4pk` and `gsi4sk` if they are missing, because publishing an entry removes them.
    """
    if name in {"gsi4pk", "gsi4sk"}:
        return name not in stored
    return name in _UNDETERMINED
