"""The published JSON Schema accepts what the parser accepts, and documents each field with a valid example."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from faultbridge.decide.policyfile.parser import InvalidPolicy, field_guide, part_title, policy_schema, read_policy
from faultbridge.decode.data import FOLDER
from tests.loops import for_each
from tests.policyfile.builders import GOOD, NESTED

SAMPLES = sorted((Path(__file__).resolve().parents[2] / "schemas/policy/samples/1.0").glob("*.json"))
VALIDATOR = Draft202012Validator(policy_schema())
PLACES = {
    "policy": "{{{field}}}",
    "limits": "limits: {{{field}}}",
    "incidents": "incidents: {{{field}}}",
    "breaker": "breakers: [{{{field}}}]",
    "rule": "rules: [{{name: a, {field}}}]",
    "match": "rules: [{{name: a, match: {{{field}}}}}]",
    "window": "rules: [{{name: a, windows: [{{{field}}}]}}]",
}
"""A file with one field of each part."""


def file_with(field: str, example: str) -> str:
    part, _, name = field.partition(".")
    entry = f"{name}: {example}"
    if part == "window":
        others = {"cron": '"0 22 * * *"', "duration": "1h"}
        entry = ", ".join([entry, *(f"{key}: {value}" for key, value in others.items() if key != name)])
    if field == "rule.name":
        return f"rules: [{{{entry}}}]"
    return PLACES[part].format(field=entry)


@for_each("field", field_guide())
def test_the_example_of_each_field_is_valid_for_parser_and_schema(field: str) -> None:
    text = file_with(field, field_guide()[field]["example"])
    read_policy(text)
    assert list(VALIDATOR.iter_errors(yaml.safe_load(text))) == []


def test_the_guide_has_each_field_and_no_other() -> None:
    parts = {"PolicyPart": policy_schema(), **policy_schema()["$defs"]}
    fields = {f"{part_title(name)}.{field}" for name, part in parts.items() for field in part.get("properties", {})}
    assert fields == set(field_guide())


def test_a_meaning_is_one_sentence_or_two() -> None:
    assert [name for name, one in field_guide().items() if one["meaning"][-1] != "." or len(one["meaning"]) > 160] == []


@pytest.mark.parametrize("text", [GOOD, NESTED, (FOLDER / "policy" / "default.json").read_text(encoding="utf-8")])
def test_a_valid_policy_is_valid_for_parser_and_schema(text: str) -> None:
    read_policy(text)
    assert list(VALIDATOR.iter_errors(yaml.safe_load(text))) == []


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_a_sample_is_valid_for_parser_and_schema(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    read_policy(text)
    assert list(VALIDATOR.iter_errors(json.loads(text))) == []


@pytest.mark.parametrize(
    "document",
    [
        {"budget": 3},
        {"limits": {"concurrent": 501}},
        {"limits": {"act_within": "soon"}},
        {"limits": {"act_within": 0}},
        {"limits": {"act_within": ""}},
        {"rules": [{"severity": "fatal"}]},
        {"rules": [{"name": "a", "approval": "required"}]},
        {"rules": [{"name": "a", "approval": ["teleport"]}]},
        {"breakers": [{}, {}, {}]},
    ],
    ids=str,
)
def test_a_mistake_is_a_mistake_for_parser_and_schema(document: Any) -> None:
    assert not VALIDATOR.is_valid(document)
    with pytest.raises(InvalidPolicy):
        read_policy(json.dumps(document))
