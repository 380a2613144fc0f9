"""Converts the stored body and evidence of an entry to the `detail` of its event, and back.

It uses plain JSON without models, because the publish function calls it for every entry. The hash of an entry covers
its body. The body is the event without evidence. Removing the evidence from an event therefore gives the hashed text
again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TypeAlias

from faultbridge.model.canonical_json import canonical_json
from faultbridge.model.enums import ALL_DATA

MAX_BYTES = 60 * 1024
EVIDENCE = "/data/evidence"
# Fields that are emptied if the body itself is too large.
EXPENDABLE_FIELDS = ("attributes", "facts")


EventDocument: TypeAlias = Mapping[str, Mapping[str, object]]
"""The JSON object of an event, with its `metadata` and its `data`."""


def detail_of(body: str, evidence: str) -> str:
    """Return the detail of an event, at most 60 KB of UTF-8. `metadata.truncated` lists the cut parts.

    If the detail is too large, evidence is shortened first. If that is not enough, evidence is removed, and attributes
    and facts are emptied. If that is not enough either, the event becomes a stub.
    """
    if len(body.encode()) > MAX_BYTES:
        return _without_expendable_fields(body, evidence)
    if not evidence:
        return body
    detail = json.loads(body)
    complete = _with_evidence(detail, evidence)
    if len(complete.encode()) <= MAX_BYTES:
        return complete
    return _with_shortened_evidence(detail, evidence) or _without_expendable_fields(body, evidence)


def body_of(detail: str) -> str | None:
    """Return the exact body of an event, by removing the evidence from the event's detail.

    Returns None if more than the evidence was truncated, because the body can then not be restored.
    """
    event = json.loads(detail)
    truncated = event["metadata"].pop("truncated", [])
    if set(truncated) - {EVIDENCE}:
        return None
    event["data"].pop("evidence", None)
    return canonical_json(event)


def stub_of(body: str) -> str:
    """Return the stub of an event: its metadata with empty data."""
    detail = {"metadata": json.loads(body)["metadata"], "data": {}}
    return canonical_json(_with_truncated(detail, ALL_DATA))


def _with_evidence(detail: EventDocument, evidence: str) -> str:
    return canonical_json({**detail, "data": {**detail["data"], "evidence": evidence}})


def _with_shortened_evidence(detail: EventDocument, evidence: str) -> str | None:
    marked = _with_truncated(detail, EVIDENCE)
    room = MAX_BYTES - len(_with_evidence(marked, "").encode())
    if room < 0:
        return None
    return _with_evidence(marked, _shorten(evidence, room))


def _shorten(text: str, max_bytes: int) -> str:
    """Return the longest prefix of a text that takes at most `max_bytes` bytes inside a JSON string."""
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if len(canonical_json(text[:middle]).encode()) - 2 <= max_bytes:
            low = middle
        else:
            high = middle - 1
    return text[:low]


def _without_expendable_fields(body: str, evidence: str) -> str:
    detail = json.loads(body)
    fields = [name for name in EXPENDABLE_FIELDS if detail["data"].get(name)]
    emptied = {**detail, "data": detail["data"] | {name: {} for name in fields}}
    removed = [f"/data/{name}" for name in fields] + ([EVIDENCE] if evidence else [])
    reduced = canonical_json(_with_truncated(emptied, *removed)) if removed else body
    return reduced if len(reduced.encode()) <= MAX_BYTES else stub_of(body)


def _with_truncated(detail: EventDocument, *removed: str) -> EventDocument:
    return {**detail, "metadata": {**detail["metadata"], "truncated": list(removed)}}
