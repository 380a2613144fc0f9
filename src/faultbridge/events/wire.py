"""The wire: from the stored body and evidence of an entry to the `detail` of its event, and back.

Plain JSON, no models: publish does this for every entry. The hash of an entry covers its body, and the body is the
event without evidence, so whoever takes the evidence out of an event holds the text that was hashed.
"""

from __future__ import annotations

import json
from typing import Any

from faultbridge.domain.entries import canonical_json

MAX_BYTES = 60 * 1024
EVIDENCE = "/data/evidence"
# What may be emptied when the body itself is too large, and with what.
SPARE = ("attributes", "facts")
WHOLE = "*"


def detail_of(body: str, evidence: str) -> str:
    """Return the detail of an event, at most 60 KB of UTF-8; `metadata.truncated` names what was cut, if anything.

    Evidence is cut first, then the attributes or facts go, and what is still too large becomes a stub.
    """
    if len(body.encode()) > MAX_BYTES:
        return _without_spares(body, evidence)
    if not evidence:
        return body
    detail = json.loads(body)
    whole = _with_evidence(detail, evidence)
    if len(whole.encode()) <= MAX_BYTES:
        return whole
    return _with_cut_evidence(detail, evidence) or _without_spares(body, evidence)


def body_of(detail: str) -> str | None:
    """Return the exact body that an event was made from, or None where more than evidence was cut."""
    found = json.loads(detail)
    cut = found["metadata"].pop("truncated", [])
    if set(cut) - {EVIDENCE}:
        return None
    found["data"].pop("evidence", None)
    return canonical_json(found)


def stub_of(body: str) -> str:
    """Return an event's place in its stream without its data."""
    detail = {"metadata": json.loads(body)["metadata"], "data": {}}
    return canonical_json(_marked(detail, WHOLE))


def _with_evidence(detail: dict[str, Any], evidence: str) -> str:
    return canonical_json({**detail, "data": {**detail["data"], "evidence": evidence}})


def _with_cut_evidence(detail: dict[str, Any], evidence: str) -> str | None:
    marked = _marked(detail, EVIDENCE)
    room = MAX_BYTES - len(_with_evidence(marked, "").encode())
    if room < 0:
        return None
    return _with_evidence(marked, _fitting(evidence, room))


def _fitting(text: str, room: int) -> str:
    """Return the longest beginning of a text that takes at most `room` bytes inside a JSON string."""
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if len(canonical_json(text[:middle]).encode()) - 2 <= room:
            low = middle
        else:
            high = middle - 1
    return text[:low]


def _without_spares(body: str, evidence: str) -> str:
    detail = json.loads(body)
    spare = [name for name in SPARE if detail["data"].get(name)]
    emptied = {**detail, "data": detail["data"] | {name: {} for name in spare}}
    cut = [f"/data/{name}" for name in spare] + ([EVIDENCE] if evidence else [])
    slim = canonical_json(_marked(emptied, *cut)) if cut else body
    return slim if len(slim.encode()) <= MAX_BYTES else stub_of(body)


def _marked(detail: dict[str, Any], *cut: str) -> dict[str, Any]:
    return {**detail, "metadata": {**detail["metadata"], "truncated": list(cut)}}
