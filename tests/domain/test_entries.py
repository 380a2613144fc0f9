"""Entries: their position in the stream, their ids and the hash chain."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultbridge.model.canonical_json import canonical_json
from faultbridge.model.cases import case_id
from faultbridge.model.entries import MAX_REASON, Draft, Entry, Stream, chain, device_of, limited, seal
from faultbridge.model.enums import Actor, EntryType, NoteKind
from faultbridge.model.event_data import NoteData
from faultbridge.model.fault_enums import Severity
from faultbridge.model.nodes import Head
from faultbridge.model.recorded import read_data
from faultbridge.model.values import replace
from tests.builders import NOON, STACK_ID, after

STREAM = Stream(STACK_ID, "faultbridge", "train-a", "ip-10-0-0-7")


def draft(text: str = "something", evidence: str = "") -> Draft:
    return Draft(
        EntryType.NOTE, NOON, NoteData(kind=NoteKind.OPERATOR, text=text, about=None, facts={}), evidence=evidence
    )


def sealed(*drafts: Draft) -> tuple[tuple[Entry, ...], Head]:
    return seal(STREAM, Head(), drafts, actor=Actor.CLI, severity=Severity.ERROR, recorded_at=after(seconds=1))


def test_sequences_have_no_gap() -> None:
    entries, head = sealed(draft("one"), draft("two"))
    assert [entry.sequence for entry in entries] == [1, 2]
    assert json.loads(entries[1].body)["metadata"]["previous_event_id"] == entries[0].event_id
    assert (head.sequence, head.hash, head.event_id) == (2, entries[1].hash, entries[1].event_id)


def test_the_hash_chain_can_be_computed_from_the_stored_bodies_alone() -> None:
    entries, _ = sealed(draft("one"), draft("two"))
    first = chain(STREAM.genesis(1), entries[0].body)
    assert (entries[0].hash, entries[1].hash) == (first, chain(first, entries[1].body))


def test_evidence_is_hashed_and_not_part_of_the_body() -> None:
    (entry,), _ = sealed(draft(evidence="NVRM: Xid (PCI:0000:c1:00): 79"))
    assert "NVRM" not in entry.body
    assert len(json.loads(entry.body)["data"]["evidence_sha256"]) == 64


def test_an_entry_of_a_stream_always_has_the_same_id() -> None:
    assert STREAM.event_id(1, 7) == STREAM.event_id(1, 7)
    others = [replace(STREAM, stack_id="other"), replace(STREAM, node="other"), replace(STREAM, node=None)]
    ids = {STREAM.event_id(1, 7), STREAM.event_id(2, 7), STREAM.event_id(1, 8)} | {one.event_id(1, 7) for one in others}
    assert len(ids) == 6


def test_a_case_id_fits_an_execution_name_with_its_attempt() -> None:
    name = f"{case_id(STACK_ID, 'train-a', 'n', 1, 1)}-9999"
    assert len(name) <= 80
    assert name.startswith("c-")


def test_a_value_that_json_cannot_store_exactly_is_refused() -> None:
    with pytest.raises(TypeError):
        canonical_json({"at": NOON})
    with pytest.raises(TypeError):
        canonical_json({"share": 0.5})


@pytest.mark.parametrize("value", [0.5, {"a", "b"}, b"raw", NOON, after(seconds=1) - NOON])
def test_a_fact_that_json_cannot_store_exactly_is_refused(value: object) -> None:
    data = NoteData(kind=NoteKind.OPERATOR, text="", about=None, facts={"list": [value]})
    with pytest.raises(TypeError):
        sealed(Draft(EntryType.NOTE, NOON, data))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_canonical_json_has_exactly_one_text_for_each_value(value) -> None:
    text = canonical_json(value)
    assert canonical_json(json.loads(text)) == text


DEVICE = {"component": {"type": "gpu", "serial": "1650", "uuid": "GPU-1"}}


@pytest.mark.parametrize(
    ("kind", "data", "device"),
    [
        (EntryType.FAULT_DETECTED, DEVICE, "1650"),
        (EntryType.FAULT_CLEARED, {"component": {"type": "gpu", "serial": None, "uuid": "GPU-1"}}, "GPU-1"),
        (EntryType.FAULT_DETECTED, {"component": {"type": "node"}}, None),
        (EntryType.CASE_STATUS, {"cause": DEVICE}, "1650"),
        (EntryType.CASE_STATUS, {"cause": None}, None),
        (EntryType.NOTE, DEVICE, None),
    ],
)
def test_faults_and_cases_are_found_by_the_serial_number_of_their_device_else_by_its_uuid(
    kind: EntryType, data: dict, device: str | None
) -> None:
    assert device_of(read_data({"metadata": {"event_type": kind.value}, "data": data})) == device


def test_a_short_reason_is_unchanged_and_a_long_one_is_cut() -> None:
    longest = "x" * MAX_REASON
    assert (limited("drained"), limited(longest)) == ("drained", longest)
    assert limited(longest + "y") == "x" * (MAX_REASON - 3) + "..."
