"""Reads and writes policy files. `InvalidPolicy.problems` lists all invalid fields of a file."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import yaml
from msgspec import Struct, convert, field
from pydantic import ValidationError

from faultbridge.decide.policyfile.schema import (
    DURATION,
    BreakerPart,
    PolicyPart,
    RulePart,
    format_duration,
    write_durations,
)
from faultbridge.model.cluster.config import CapacitySource
from faultbridge.model.errors import Rejected
from faultbridge.model.names import did_you_mean
from faultbridge.model.policy import PolicyDocument
from faultbridge.model.values import replace

SCHEMA_ID = "urn:faultbridge:input:policy:1"
FIELDS = "fields.yaml"


@cache
def field_guide() -> Mapping[str, Mapping[str, str]]:
    """Return the `meaning` and an `example` of each field, by a key such as `limits.concurrent`."""
    text = files(__package__).joinpath(FIELDS).read_text(encoding="utf-8")
    guide: dict[str, dict[str, str]] = yaml.safe_load(text)
    return guide


def part_title(name: str) -> str:
    """Return a part's title from its class name: `LimitsPart` becomes `limits`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name.removesuffix("Part")).lower()


@cache
def policy_schema() -> Mapping[str, Any]:
    """Return the JSON Schema of policy files, with the meaning and an example of each field."""
    schema = PolicyPart.model_json_schema()
    for name, part in [(PolicyPart.__name__, schema), *schema["$defs"].items()]:
        for key, described in part.get("properties", {}).items():
            guide = field_guide()[f"{part_title(name)}.{key}"]
            described |= {"description": guide["meaning"], "examples": [yaml.safe_load(guide["example"])]}
            described.pop("title", None)
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": SCHEMA_ID, "title": "Faultbridge policy"}
    return {**head, **{name: value for name, value in schema.items() if name != "title"}}


class FieldSchema(Struct, frozen=True):
    """What the JSON Schema says about one field: the parts of which an error text consists."""

    reference: str = field(name="$ref", default="")
    comment: str = field(name="$comment", default="")
    choices: tuple[FieldSchema, ...] = field(name="anyOf", default=())
    type: str = ""
    enum: tuple[str, ...] = ()
    items: FieldSchema | None = None
    max_items: int | None = field(name="maxItems", default=None)
    properties: Mapping[str, FieldSchema] = field(default_factory=dict)
    minimum: int | None = None
    maximum: int | None = None
    pattern: str = ""
    examples: tuple[object, ...] = ()
    nullable: bool = False
    parts: Mapping[str, FieldSchema] = field(name="$defs", default_factory=dict)


@cache
def _schema() -> FieldSchema:
    return convert(policy_schema(), FieldSchema)


def _field_at(location: Iterable[int | str]) -> FieldSchema:
    """Return the schema of the field at a location in a policy file; an empty one for an unknown field."""
    found = _schema()
    for part in location:
        inner = found.items if isinstance(part, int) else found.properties.get(part)
        found = _resolved(inner or FieldSchema())
    return found


def _resolved(field: FieldSchema) -> FieldSchema:
    """Return the schema of a field without its own `$ref`, or that of its only choice other than null (`nullable`)."""
    if field.reference:
        return replace(_schema().parts[field.reference.rpartition("/")[2]], examples=field.examples)
    choices = [one for one in field.choices if one.type != "null"]
    if len(choices) == 1:
        return replace(_resolved(choices[0]), examples=field.examples, nullable=True)
    return field


def expectation(error: Mapping[str, Any]) -> str:
    """Return a text that states what the field of a pydantic error must contain, with the allowed values."""
    location: Sequence[int | str] = error["loc"]
    field = _field_at(location)
    if error["type"] == "extra_forbidden":
        allowed = list(_field_at(location[:-1]).properties)
        return f"unknown field; allowed: {', '.join(allowed)}{did_you_mean(str(location[-1]), allowed, 1)}"
    if error["type"] == "missing":
        return f"a value is required: {_kind(field)}{_example(field)}"
    if error["type"] == "value_error" and field.comment != DURATION:
        return str(error["ctx"]["error"])
    null = " or null" if field.nullable else ""
    return f"{_kind(field)}{null} is expected{_example(field)}"


def _kind(field: FieldSchema) -> str:
    if field.comment == DURATION:
        seconds = field.choices[0]
        return f"a duration from {format_duration(seconds.minimum or 0)} to {format_duration(seconds.maximum or 0)}"
    if field.enum:
        return f"one of {', '.join(field.enum)}"
    if field.pattern:
        return f"text that matches {field.pattern}"
    most = f" of at most {field.max_items} items" if field.max_items is not None else ""
    items = _kind(_resolved(field.items)) if field.items else ""
    names = ", ".join(field.properties)
    kind = _KINDS.get(field.type, "text")
    return kind.format(most=most, items=items, names=names, low=field.minimum, high=field.maximum)


_KINDS = {
    "array": "a list{most}, each item {items}",
    "object": "a mapping with the fields {names}",
    "integer": "a whole number from {low} to {high}",
    "boolean": "true or false",
}


def _example(field: FieldSchema) -> str:
    """Return an example such as `, such as 1h30m`, or "" if the field has none or lists its values."""
    if field.enum or field.type in {"integer", "boolean"} or not field.examples:
        return ""
    example = field.examples[0]
    return f", such as {example if isinstance(example, str) else json.dumps(example)}"


MAX_CHARACTERS = 200_000
_MAX_VALUE_TEXT = 60


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem of a policy file: its rule, if any, and field, what is expected and what was found."""

    rule: str | None
    field: str
    expected: str
    found: str = ""

    def __str__(self) -> str:
        """Return the problem as one line of text for an error message."""
        where = f"rule {self.rule}, " if self.rule else ""
        found = f" (found {self.found})" if self.found else ""
        return f"{where}{self.field}: {self.expected}{found}"


class InvalidPolicy(Rejected):
    """Raised for an invalid policy file; `problems` lists its invalid fields or its contradictions."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        """Store all problems; the error text has the first problem and the number of further problems."""
        more = f" and {len(problems) - 1} more" if len(problems) > 1 else ""
        super().__init__("invalid_policy", f"{problems[0]}{more}")
        self.problems = tuple(problems)


def read_policy(text: str) -> PolicyDocument:
    """Convert a policy file in YAML or JSON to the document that the table stores, without its version.

    Invalid fields raise `InvalidPolicy`, which lists all of them. If all fields are valid, but contradict each other,
    `InvalidPolicy` lists all contradictions. Text that is not YAML raises `Rejected` (`malformed_yaml`). A text of more
    than 200,000 characters raises `Rejected` (`too_large`).
    """
    parsed = _parse(text)
    try:
        policy = PolicyPart.model_validate(parsed)
    except ValidationError as error:
        raise InvalidPolicy([_problem(one, parsed) for one in error.errors(include_url=False)]) from None
    problems = [*_contradictions(policy.rules, policy.breakers), *_repeated_sources(policy.capacity)]
    if problems:
        raise InvalidPolicy(problems)
    document: PolicyDocument = policy.model_dump(mode="json", exclude_unset=True)
    return document


def write_policy(document: PolicyDocument) -> str:
    """Convert a stored policy document to YAML without its version; `read_policy` converts the YAML back."""
    written = write_durations(dict(document))
    parts = {name: written[name] for name in PolicyPart.model_fields if name in written}
    return yaml.safe_dump(parts, sort_keys=False, default_flow_style=False, allow_unicode=True)


def _parse(text: str) -> Mapping[str, object]:
    if len(text) > MAX_CHARACTERS:
        raise Rejected("too_large", f"the policy has {len(text)} characters; at most {MAX_CHARACTERS} are allowed")
    try:
        parsed = yaml.load(text, Loader=_LoaderWithoutAliases)  # noqa: S506 - a SafeLoader
    except (yaml.YAMLError, RecursionError) as error:
        raise Rejected("malformed_yaml", _text_of(error)) from None
    if parsed is None:
        raise InvalidPolicy([Problem(None, "the file", "rules or limits are expected", "nothing")])
    if not isinstance(parsed, dict):
        expected = "a mapping with rules and limits is expected"
        raise InvalidPolicy([Problem(None, "the file", expected, _value_text(parsed))])
    return parsed


def _text_of(error: Exception) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f"line {error.problem_mark.line + 1}, column {error.problem_mark.column + 1}: {error.problem}"
    return " ".join(str(error).split())


class _LoaderWithoutAliases(yaml.SafeLoader):
    """Loads YAML and refuses aliases: a short file with aliases can expand to more than fits into memory."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("YAML aliases (*name) are not supported; write the value again")
        return super().compose_node(parent, index)


def _problem(error: Mapping[str, Any], parsed: Mapping[str, object]) -> Problem:
    location = list(error["loc"])
    rule = None
    if location[:1] == ["rules"] and len(location) > 1 and isinstance(location[1], int):
        rule = _rule_name(parsed, location[1])
        location = location[2:] or ["the rule"]
    return Problem(rule, _field_path(location), expectation(error), _value_text(error.get("input")))


def _rule_name(parsed: Mapping[str, object], index: int) -> str:
    rules = parsed.get("rules")
    rule = rules[index] if isinstance(rules, list) else None
    name = rule.get("name") if isinstance(rule, dict) else None
    return f"{name} (number {index + 1})" if isinstance(name, str) else f"number {index + 1}"


def _field_path(location: Sequence[int | str]) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return text.removeprefix(".") or "the file"


def _value_text(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _MAX_VALUE_TEXT else text[:_MAX_VALUE_TEXT] + "..."


def _repeated_sources(sources: Sequence[CapacitySource]) -> Iterator[Problem]:
    repeated = [source.value for source, times in Counter(sources).items() if times > 1]
    if repeated:
        yield Problem(None, "capacity", "each source at most once is expected", ", ".join(repeated))


def _contradictions(rules: Sequence[RulePart], breakers: Sequence[BreakerPart]) -> Iterator[Problem]:
    """Yield the contradictions between valid fields: repetitions, unreachable rules, wrong orders."""
    if len({breaker.scope for breaker in breakers}) < len(breakers):
        yield Problem(None, "breakers", "at most one breaker of each scope, cluster and domain, is expected")
    names: set[str] = set()
    catch_all: str | None = None
    for rule in rules:
        if rule.name in names:
            yield Problem(rule.name, "name", "a name that no other rule has is expected")
        if catch_all is not None:
            yield Problem(rule.name, "match", f"unreachable: the earlier rule {catch_all} matches every condition")
        names.add(rule.name)
        catch_all = catch_all or (rule.name if rule.match.matches_all else None)
        ordered = (
            sorted(dict.fromkeys(rule.repair_actions), key=list(type(rule.repair_actions[0])).index)
            if rule.repair_actions
            else []
        )
        if list(rule.repair_actions) != ordered:
            expected = ", ".join(action.value for action in ordered)
            yield Problem(
                rule.name, "repair_actions", f"each repair action once, mildest first, is expected: {expected}"
            )
        extra = [action.value for action in rule.approval if action not in rule.repair_actions]
        if extra:
            yield Problem(
                rule.name, "approval", "repair actions from the rule's `repair_actions` are expected", ", ".join(extra)
            )
