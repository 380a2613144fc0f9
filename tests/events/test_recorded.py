"""Recorded events are read as structures, also if a later release wrote them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from faultbridge.model.canonical_json import event_json
from faultbridge.model.enums import EntryType
from faultbridge.model.event_data import EVENTS, CaseStatusData, NoteData, plain
from faultbridge.model.events.json_schema import EVENT_MODELS
from faultbridge.model.fault_enums import Severity
from faultbridge.model.recorded import read_data, read_event
from faultbridge.model.times import to_text
from tests.builders import NOON
from tests.events.samples import sample


def contains(found: Any, expected: Any) -> bool:
    """Return whether a document has every value of another one; a later version has more fields."""
    if isinstance(expected, dict):
        return all(name in found and contains(found[name], one) for name, one in expected.items())
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(contains, found, expected))
    return bool(found == expected)


@pytest.mark.parametrize("name", [name for name in EVENT_MODELS if sample(name).get("data")])
def test_a_published_event_is_read_without_loss(name: str) -> None:
    detail = sample(name)
    found = read_event(detail)
    assert isinstance(found.data, EVENTS[EntryType(detail["metadata"]["event_type"])][0])
    again = json.loads(event_json({"metadata": plain(found.metadata), "data": plain(found.data)}))
    assert contains(again, detail)


METADATA = {"event_type": EntryType.CASE_STATUS.value, "occurred_at": to_text(NOON), "cluster": "train-a", "epoch": 1}


def case(**data: Any) -> CaseStatusData:
    found = read_data({"metadata": METADATA, "data": data})
    assert isinstance(found, CaseStatusData)
    return found


def test_a_value_that_a_later_release_added_to_a_vocabulary_is_kept_as_it_is() -> None:
    found = case(to="parked", severity="fatal", cause={"code": "xid.79", "component": {"type": "dpu", "pci": "?"}})
    assert (found.to, found.severity, found.cause.component.type) == ("parked", Severity.FATAL, "dpu")
    assert found.cause.component.pci == "?"


def test_a_field_that_a_later_release_added_is_ignored() -> None:
    assert case(to="queued", placed_by="a later release").to == "queued"


def test_a_missing_value_is_null_where_a_field_permits_it_and_empty_in_others() -> None:
    found = case(to="queued", reason=None)
    assert (found.waiting_for, found.reason, found.attempt, found.phases, found.cause.code) == (None, "", 0, {}, "")
    assert not found.failure


def test_the_metadata_has_its_times_and_what_it_lacks_is_empty() -> None:
    found = read_event({"metadata": METADATA, "data": None})
    assert (found.metadata.occurred_at, found.metadata.stream, found.data) == (NOON, "", None)


def test_an_event_of_a_type_that_a_later_release_added_has_no_data() -> None:
    assert read_event({"metadata": METADATA | {"event_type": "Node Dreamed"}, "data": {"a": 1}}).data is None


def test_a_text_that_is_no_unicode_does_not_hide_the_event() -> None:
    found = read_data({"metadata": METADATA | {"event_type": "Node Note Recorded"}, "data": {"text": "\ud800"}})
    assert isinstance(found, NoteData)
    assert found.text == "\ud800"
