"""Events publish the enumerations of the domain in open form, and a reader accepts unknown values."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import TypeGuard

import pytest

from faultbridge.model import enums, fault_enums
from faultbridge.model.events import NodeStatusChange, read
from faultbridge.model.events.enums import Unknown
from faultbridge.model.events.json_schema import EVENT_MODELS, MODELS, open_schema
from faultbridge.model.events.registry import EVENT_NAMES, event_name, model_of
from faultbridge.model.fault_enums import Severity
from tests.events.samples import sample


def is_enumeration(one: object) -> TypeGuard[type[StrEnum]]:
    """Return whether a module's attribute is an enumeration that the module declares."""
    return isinstance(one, type) and issubclass(one, StrEnum) and one not in {StrEnum, enums.EntryType}


DEFINITIONS = {
    name: definition
    for event in EVENT_MODELS
    for name, definition in open_schema(event)["$defs"].items()
    if "x-unknown-as" in definition
}
SHARED = [one for module in (enums, fault_enums) for one in vars(module).values() if is_enumeration(one)]


def test_every_published_enumeration_says_how_to_treat_an_unknown_value() -> None:
    assert len(DEFINITIONS) == 28
    texts = {name: definition["description"] for name, definition in DEFINITIONS.items()}
    assert {name: text for name, text in texts.items() if "Treat an unknown value as" not in text} == {}


def test_events_publish_every_value_of_every_enumeration_that_the_domain_shares_with_them() -> None:
    published = {tuple(definition["anyOf"][0]["enum"]) for definition in DEFINITIONS.values()}
    assert {one.__name__ for one in SHARED if tuple(one) not in published} == set()


def test_no_enumeration_has_a_value_that_means_unknown() -> None:
    assert {one.__name__ for one in SHARED if Unknown.UNKNOWN.value in tuple(one)} == set()


def test_the_domain_refuses_a_value_that_it_does_not_know() -> None:
    with pytest.raises(ValueError, match="'unknown' is not a valid Severity"):
        Severity("unknown")


@pytest.mark.parametrize("value", [5, True, None, ["error"]])
def test_a_value_that_is_not_a_string_is_refused(value: object) -> None:
    detail = sample("node-fault-detected")
    detail["data"]["severity"] = value
    with pytest.raises(ValueError, match="is not a valid Severity"):
        read(detail)


def test_every_entry_type_has_a_model_and_every_model_an_entry_type() -> None:
    assert [model.event_type for model in MODELS] == [kind.value for kind in enums.EntryType]
    assert [model_of(kind.value) for kind in enums.EntryType] == list(MODELS)
    assert list(EVENT_NAMES) == [event_name(kind.value) for kind in enums.EntryType]


def test_an_unknown_value_does_not_break_a_reader() -> None:
    detail = sample("node-status-change")
    detail["data"]["to"] = "submerged"
    detail["metadata"]["severity"] = "apocalyptic"
    event = read(json.dumps(detail))
    assert isinstance(event, NodeStatusChange)
    assert event.data.to is Unknown.UNKNOWN
    assert event.metadata.severity is Unknown.UNKNOWN
    assert event.model_dump(mode="json")["data"]["to"] == "unknown"
