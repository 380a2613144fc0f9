"""Models and schemas accept and refuse the same events."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from faultbridge.model.events.json_schema import EVENT_MODELS, validator
from tests.events.mutants import mutations
from tests.events.samples import FILES, label, name_of, sample
from tests.events.validate import compiled
from tests.loops import for_each

pytestmark = pytest.mark.slow

MAX_MUTANTS = 300


def model_accepts(name: str, detail: dict[str, Any]) -> bool:
    """Return whether the model reads an event."""
    try:
        EVENT_MODELS[name].model_validate_json(json.dumps(detail))
    except ValueError:
        return False
    return True


def some_mutants(path: Path) -> list[tuple[str, dict[str, Any]]]:
    """Return at most 300 mutants of a sample, always the same ones. Long texts and maps are shortened first."""
    event = json.loads(path.read_text(encoding="utf-8"))
    data = event["data"]
    for key in ("attributes", "facts"):
        if key in data:
            data[key] = dict(list(data[key].items())[:2])
    data |= {"evidence": data["evidence"][:80]} if data.get("evidence") else {}
    found = list(mutations(event))
    picked = Random(label(path)).sample(found, MAX_MUTANTS) if len(found) > MAX_MUTANTS else found
    return [(str(mutation), mutation.of(event)) for mutation in picked]


@for_each("path", FILES, ids=label)
def test_models_and_schemas_agree_on_hundreds_of_mutants(path: Path) -> None:
    name = name_of(path)
    schema = compiled(name, closed=False)
    differing = [
        f"{what}: model {model}, schema {not model}"
        for what, detail in some_mutants(path)
        if (model := model_accepts(name, detail)) is not schema.is_valid(detail)
    ]
    assert differing == []


@for_each("path", FILES, ids=label)
def test_the_closed_form_accepts_nothing_that_the_open_form_refuses(path: Path) -> None:
    name = name_of(path)
    closed, opened = compiled(name, closed=True), compiled(name, closed=False)
    taken = [(what, detail) for what, detail in some_mutants(path)[:100] if closed.is_valid(detail)]
    assert [what for what, detail in taken if not opened.is_valid(detail)] == []


@for_each("path", FILES, ids=label)
def test_the_compiled_validator_of_the_tests_accepts_what_the_validator_of_the_product_accepts(path: Path) -> None:
    name = name_of(path)
    for closed in (True, False):
        ours, tests = validator(name, closed=closed), compiled(name, closed=closed)
        taken = some_mutants(path)[:10]
        assert [what for what, detail in taken if ours.is_valid(detail) is not tests.is_valid(detail)] == []


def test_there_are_many_valid_and_many_invalid_mutants() -> None:
    path = next(one for one in FILES if label(one) == "case-status-change-ordinary")
    verdicts = [model_accepts("case-status-change", detail) for _, detail in some_mutants(path)]
    assert len(verdicts) >= 300
    assert verdicts.count(False) >= 100
    assert verdicts.count(True) >= 50


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("metadata", "occurred_at"), "2026-02-30T04:05:06.000Z"),
        (("metadata", "occurred_at"), "2026-02-03T04:05:06Z"),
        (("metadata", "event_id"), "5F1D7C1E-90A2-4D3B-8C64-2AB7E1905D33"),
        (("metadata", "schema_version"), "2.0"),
        (("metadata", "node"), None),
        (("metadata", "event_type"), "Node Fault Cleared"),
        (("data", "count"), "1"),
        (("data", "count"), True),
    ],
)
def test_models_and_schemas_check_formats_and_types(place: tuple[str, str], value: object) -> None:
    detail = sample("node-fault-detected")
    detail[place[0]][place[1]] = value
    assert not model_accepts("node-fault-detected", detail)
    assert not validator("node-fault-detected", closed=False).is_valid(detail)


@pytest.mark.parametrize("closed", [True, False], ids=["closed", "open"])
def test_unknown_values_and_fields_pass_in_the_open_form_only(closed: bool) -> None:
    word, field = sample("node-fault-detected"), sample("node-fault-detected")
    word["data"]["action"] = "submerge_node"
    field["data"]["component"]["slot"] = 3
    schema = validator("node-fault-detected", closed=closed)
    assert [schema.is_valid(detail) for detail in (word, field)] == [not closed, not closed]
    assert model_accepts("node-fault-detected", word)
    assert model_accepts("node-fault-detected", field)
