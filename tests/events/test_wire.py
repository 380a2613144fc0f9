"""A stored entry becomes the detail of an event, and the detail becomes the hashed text again."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultbridge.model.canonical_json import canonical_json
from faultbridge.model.events.wire import MAX_BYTES, body_of, detail_of, stub_of

TEXTS = st.text(st.characters(codec="utf-8"), max_size=300)
METADATA = {"event_id": "e", "event_type": "Node Fault Detected", "sequence": 7}


def body(**data: Any) -> str:
    """Return a stored body."""
    return canonical_json({"metadata": METADATA, "data": data})


def truncated(detail: str) -> list[str]:
    """Return the removed parts that an event lists."""
    cut = json.loads(detail)["metadata"].get("truncated", [])
    assert isinstance(cut, list)
    return cut


def size(text: str) -> int:
    """Return the size of a text in bytes."""
    return len(text.encode())


def test_without_evidence_the_event_is_the_body_byte_for_byte() -> None:
    assert detail_of(body(code="xid.79"), "") == body(code="xid.79")


def test_evidence_is_in_the_data_of_the_event() -> None:
    detail = detail_of(body(code="xid.79"), "NVRM: Xid 79")
    assert json.loads(detail)["data"] == {"code": "xid.79", "evidence": "NVRM: Xid 79"}
    assert truncated(detail) == []


@given(data=st.dictionaries(st.sampled_from(["a", "b", "attributes", "é"]), TEXTS | st.integers()), evidence=TEXTS)
def test_removing_the_evidence_gives_the_hashed_text(data: dict[str, Any], evidence: str) -> None:
    assert body_of(detail_of(body(**data), evidence)) == body(**data)


@given(filling=st.integers(MAX_BYTES - 600, MAX_BYTES - 200), evidence=TEXTS.map(lambda text: text * 4))
def test_no_event_is_larger_than_60_kb_and_shortened_evidence_keeps_the_body(filling: int, evidence: str) -> None:
    original = body(text="x" * filling)
    detail = detail_of(original, evidence)
    assert size(detail) <= MAX_BYTES
    kept = json.loads(detail)["data"].get("evidence", "")
    assert evidence.startswith(kept)
    assert (kept == evidence) is (truncated(detail) == [])
    assert body_of(detail) == original


@pytest.mark.parametrize(
    "evidence", ["\x00" * 4096, '"' * 4096, "ü" * 2048, "€" * 1365], ids=lambda text: ascii(text[0])
)
def test_shortened_evidence_uses_the_available_space(evidence: str) -> None:
    detail = detail_of(body(text="x" * (MAX_BYTES - 1000)), evidence)
    assert truncated(detail) == ["/data/evidence"]
    assert MAX_BYTES - 6 <= size(detail) <= MAX_BYTES


@pytest.mark.parametrize("field", ["attributes", "facts"])
def test_a_body_that_is_too_large_loses_expendable_fields(field: str) -> None:
    detail = detail_of(body(code="xid.79", **{field: {"k": "x" * MAX_BYTES}}), "evidence")
    assert json.loads(detail)["data"] == {"code": "xid.79", field: {}}
    assert truncated(detail) == [f"/data/{field}", "/data/evidence"]
    assert body_of(detail) is None


def test_a_body_without_expendable_fields_becomes_a_stub() -> None:
    detail = detail_of(body(text="x" * MAX_BYTES), "evidence")
    assert json.loads(detail) == {"metadata": METADATA | {"truncated": ["*"]}, "data": {}}
    assert detail == stub_of(body(text="x" * MAX_BYTES))
    assert body_of(detail) is None


def test_key_order_and_whitespace_of_the_bus_do_not_matter() -> None:
    detail = json.loads(detail_of(body(b=1, a="ü"), "raw"))
    shuffled = {key: dict(reversed(part.items())) for key, part in reversed(detail.items())}
    assert body_of(json.dumps(shuffled, indent=4)) == body(b=1, a="ü")
