"""The table of allowed schema changes: breaking changes are found, safe changes are allowed."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from faultbridge.model.events.json_schema import EVENT_MODELS, open_schema
from infra.schemas import ALLOWED, ChangeKind, breaking_changes, changes

NAME = "case-status-change"
Schema = dict[str, Any]
Edit = Callable[[Schema], None]


def data(schema: Schema) -> Schema:
    """Return the definition of the data of a case event."""
    found: Schema = schema["$defs"]["CaseStatusData"]
    return found


def remove_field(schema: Schema) -> None:
    del data(schema)["properties"]["reason"]
    data(schema)["required"].remove("reason")


def remove_optional_field(schema: Schema) -> None:
    del data(schema)["properties"]["gpus"]


def narrow_enum(schema: Schema) -> None:
    schema["$defs"]["CaseStatus"]["anyOf"][0]["enum"].remove("absorbed")


def close_enum(schema: Schema) -> None:
    schema["$defs"]["CaseStatus"]["anyOf"].pop()


def tighten_pattern(schema: Schema) -> None:
    schema["$defs"]["CaseMetadata"]["properties"]["case_id"]["pattern"] = "^c-[a-z]{26}$"


def loosen_pattern(schema: Schema) -> None:
    del schema["$defs"]["CaseMetadata"]["properties"]["case_id"]["pattern"]


def require_new_field(schema: Schema) -> None:
    data(schema)["properties"]["future_field"] = {"type": "string"}
    data(schema)["required"].append("future_field")


def require_optional_field(schema: Schema) -> None:
    data(schema)["required"].append("gpus")


def no_longer_require(schema: Schema) -> None:
    data(schema)["required"].remove("reason")


def change_format(schema: Schema) -> None:
    data(schema)["properties"]["opened_at"]["format"] = "date"


def change_unit(schema: Schema) -> None:
    data(schema)["properties"]["phases"]["additionalProperties"]["x-unit"] = "s"


def drop_unit(schema: Schema) -> None:
    del data(schema)["properties"]["phases"]["additionalProperties"]["x-unit"]


def change_type(schema: Schema) -> None:
    data(schema)["properties"]["attempt"]["type"] = "string"


def allow_null(schema: Schema) -> None:
    data(schema)["properties"]["repair_action"] = {"anyOf": [{"$ref": "#/$defs/RepairAction"}, {"type": "null"}]}


def forbid_null(schema: Schema) -> None:
    data(schema)["properties"]["resolution"] = {"$ref": "#/$defs/Resolution"}


def raise_minimum(schema: Schema) -> None:
    data(schema)["properties"]["attempt"]["minimum"] = 1


def close_object(schema: Schema) -> None:
    data(schema)["additionalProperties"] = False


def change_reader_default(schema: Schema) -> None:
    schema["$defs"]["CaseStatus"]["x-unknown-as"] = "open"


def change_event_type(schema: Schema) -> None:
    schema["$defs"]["CaseMetadata"]["properties"]["event_type"]["const"] = "Case Moved"


def change_id(schema: Schema) -> None:
    schema["$id"] += ":other"


def lower_version(schema: Schema) -> None:
    schema["x-schema-version"] = "0.9"


def change_nested_type(schema: Schema) -> None:
    schema["$defs"]["Component"]["properties"]["index"]["anyOf"][0]["type"] = "string"


def limit_length(schema: Schema) -> None:
    data(schema)["properties"]["reason"]["maxLength"] = 80


def limit_values(schema: Schema) -> None:
    data(schema)["properties"]["reason"]["enum"] = ["wait over"]


def use_another_keyword(schema: Schema) -> None:
    data(schema)["dependentRequired"] = {"gpus": ["gpu_time_lost"]}


FORBIDDEN: list[tuple[Edit, ChangeKind]] = [
    (remove_field, ChangeKind.FIELD_REMOVED),
    (remove_optional_field, ChangeKind.FIELD_REMOVED),
    (narrow_enum, ChangeKind.VALUE_REMOVED),
    (close_enum, ChangeKind.TYPE_CHANGED),
    (tighten_pattern, ChangeKind.PATTERN_CHANGED),
    (loosen_pattern, ChangeKind.PATTERN_CHANGED),
    (require_new_field, ChangeKind.REQUIRED_FIELD_ADDED),
    (require_optional_field, ChangeKind.FIELD_NOW_REQUIRED),
    (no_longer_require, ChangeKind.FIELD_NOW_OPTIONAL),
    (change_format, ChangeKind.FORMAT_CHANGED),
    (change_unit, ChangeKind.UNIT_CHANGED),
    (drop_unit, ChangeKind.UNIT_CHANGED),
    (change_type, ChangeKind.TYPE_CHANGED),
    (allow_null, ChangeKind.TYPE_CHANGED),
    (forbid_null, ChangeKind.TYPE_CHANGED),
    (raise_minimum, ChangeKind.RULE_CHANGED),
    (close_object, ChangeKind.TYPE_CHANGED),
    (change_reader_default, ChangeKind.RULE_CHANGED),
    (change_event_type, ChangeKind.RULE_CHANGED),
    (change_id, ChangeKind.RULE_CHANGED),
    (lower_version, ChangeKind.RULE_CHANGED),
    (change_nested_type, ChangeKind.TYPE_CHANGED),
    (limit_length, ChangeKind.RULE_CHANGED),
    (limit_values, ChangeKind.TYPE_CHANGED),
    (use_another_keyword, ChangeKind.RULE_CHANGED),
]


def add_optional_field(schema: Schema) -> None:
    data(schema)["properties"]["future_field"] = {"type": "string"}


def add_value(schema: Schema) -> None:
    schema["$defs"]["CaseStatus"]["anyOf"][0]["enum"].append("adjourned")


def improve_description(schema: Schema) -> None:
    data(schema)["properties"]["reason"]["description"] = "Why, in one line."


def add_unit(schema: Schema) -> None:
    data(schema)["properties"]["attempt"]["x-unit"] = "attempts"


def raise_minor_version(schema: Schema) -> None:
    schema["x-schema-version"] = "1.1"


def move_definition(schema: Schema) -> None:
    schema["$defs"]["Reason"] = data(schema)["properties"]["reason"]
    data(schema)["properties"]["reason"] = {"$ref": "#/$defs/Reason"}


PERMITTED: list[tuple[Edit, ChangeKind | None]] = [
    (add_optional_field, ChangeKind.OPTIONAL_FIELD_ADDED),
    (add_value, ChangeKind.VALUE_ADDED),
    (improve_description, ChangeKind.TEXT_CHANGED),
    (add_unit, ChangeKind.UNIT_ADDED),
    (raise_minor_version, ChangeKind.VERSION_RAISED),
    (move_definition, None),
]


def edited(edit: Edit) -> tuple[Schema, Schema]:
    """Return a schema before and after an edit."""
    old = open_schema(NAME)
    new = copy.deepcopy(old)
    edit(new)
    assert new != old
    return old, new


@pytest.mark.parametrize(("edit", "kind"), FORBIDDEN, ids=lambda one: getattr(one, "__name__", None))
def test_a_breaking_change_is_found_with_its_kind(edit: Edit, kind: ChangeKind) -> None:
    found = breaking_changes(*edited(edit))
    assert kind in {change.kind for change in found}
    assert all(str(change).startswith("/") for change in found)


@pytest.mark.parametrize(("edit", "kind"), PERMITTED, ids=lambda one: getattr(one, "__name__", None))
def test_a_safe_change_is_allowed(edit: Edit, kind: ChangeKind | None) -> None:
    old, new = edited(edit)
    assert breaking_changes(old, new) == []
    assert {change.kind for change in changes(old, new)} == ({kind} if kind else set())


def test_every_kind_of_change_has_an_example() -> None:
    tried = {kind for _, kind in (*FORBIDDEN, *PERMITTED) if kind}
    assert tried == set(ChangeKind)
    assert {kind for _, kind in PERMITTED if kind} == ALLOWED


@pytest.mark.parametrize("name", EVENT_MODELS)
def test_a_schema_is_compatible_with_itself(name: str) -> None:
    assert changes(open_schema(name), open_schema(name)) == []
