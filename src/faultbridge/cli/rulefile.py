"""Rule files: an EventBridge pattern with its purpose and its golden cases, read and tried out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from faultbridge.errors import Misconfigured, Rejected
from faultbridge.events.registry import HOMES, kebab
from faultbridge.events.schemas import open_schema

# AWS's quota for a pattern, unless raised: https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-quota.html
MOST_CHARACTERS = 2048
ENVELOPE = {"version": "0", "id": "golden", "account": "111122223333", "region": "us-east-1", "resources": []}
TIME = "2026-02-03T04:05:06Z"

Event = dict[str, Any]
Matcher = Callable[[Event], bool]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class GoldenCase(_Part):
    """An event, or the part of one that matters, and what it stands for."""

    says: str = Field(min_length=1)
    event: Event

    def whole(self) -> Event:
        """Return the event in the envelope that EventBridge puts around it."""
        return {**ENVELOPE, "time": TIME, "source": "faultbridge", "detail-type": "", "detail": {}, **self.event}


class Cases(_Part):
    """Events that the rule must match, and events that it must not."""

    must: list[GoldenCase] = Field(min_length=1)
    must_not: list[GoldenCase] = Field(min_length=1)


class RuleFile(_Part):
    """One rule."""

    name: str = Field(pattern=r"^[a-z0-9-]+$")
    purpose: str = Field(min_length=1)
    target: str = Field(min_length=1)
    pattern: dict[str, Any] = Field(min_length=1)
    cases: Cases


def read_rule(path: Path) -> RuleFile:
    """Read a rule file; raises Rejected naming the first thing that is wrong with it."""
    try:
        loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
        rule = RuleFile.model_validate(loaded)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise Rejected("not_yaml", f"{path}: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        raise Rejected("no_rule", f"{path}: {place}: {first['msg']}") from error
    if rule.name != path.stem:
        raise Rejected("no_rule", f"{path}: the rule calls itself {rule.name!r}, unlike its file")
    return rule


def matcher(pattern: Mapping[str, Any]) -> Matcher:
    """Return what decides whether an event matches: moto's matcher, which the `local` extra brings."""
    try:
        from moto.events.exceptions import InvalidEventPatternException
        from moto.events.models import EventPattern
    except ImportError as error:
        raise Misconfigured(
            "no matcher for EventBridge patterns is installed: pip install 'faultbridge[local]'"
        ) from error
    try:
        loaded = EventPattern.load(json.dumps(pattern))
    except InvalidEventPatternException as error:
        raise Rejected("no_pattern", str(error)) from error
    return lambda event: loaded.matches_event(cast("Any", event))


def failures(rule: RuleFile) -> Iterator[str]:
    """Say what is wrong with a rule, one line each: its limits, its fields, its golden cases."""
    size = len(json.dumps(rule.pattern, separators=(",", ":")))
    if size > MOST_CHARACTERS:
        yield f"the pattern has {size} characters; EventBridge takes {MOST_CHARACTERS}"
    yield from misspelt(rule.pattern)
    matches = matcher(rule.pattern)
    for case in rule.cases.must:
        if not matches(case.whole()):
            yield f"must match and does not: {case.says}"
    for case in rule.cases.must_not:
        if matches(case.whole()):
            yield f"must not match and does: {case.says}"


def misspelt(pattern: Mapping[str, Any]) -> list[str]:
    """Find fields of our events in a pattern that no event has, and words that are in no list."""
    if any(str(source).startswith("aws.") for source in pattern.get("source", [])):
        return []
    types = [one for one in pattern.get("detail-type", []) if isinstance(one, str)] or list(HOMES)
    unknown = [f"{one!r} is no event of this version" for one in types if one not in HOMES]
    schemas = [open_schema(kebab(one)) for one in types if one in HOMES]
    readings = [list(_wrong(pattern.get("detail", {}), schema, schema, "detail")) for schema in schemas]
    # Right for one of the types is right: the rule may be about several.
    return unknown + (min(readings, key=len) if readings else [])


def _wrong(pattern: object, node: Mapping[str, Any], root: Mapping[str, Any], place: str) -> Iterator[str]:
    shapes = list(_shapes(node, root))
    if isinstance(pattern, list):
        yield from _wrong_words(pattern, shapes, place)
        return
    if not isinstance(pattern, Mapping):
        return
    for name, inner in pattern.items():
        if name == "$or":
            for branch in inner:
                yield from _wrong(branch, node, root, place)
            continue
        found = [shape["properties"][name] for shape in shapes if name in shape.get("properties", {})]
        found += [shape["additionalProperties"] for shape in shapes if "additionalProperties" in shape]
        if found:
            yield from _wrong(inner, {"anyOf": found}, root, f"{place}.{name}")
        elif shapes != [{}]:
            yield f"{place}.{name} is no field of the event"


def _wrong_words(wanted: list[object], shapes: list[Mapping[str, Any]], place: str) -> Iterator[str]:
    known = [word for shape in shapes for word in shape.get("enum", [])]
    for word in wanted:
        if known and isinstance(word, str) and word not in known:
            yield f"{place}: {word!r} is none of {', '.join(known)}"


def _shapes(node: Mapping[str, Any], root: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield what a place of an event may look like, references and alternatives resolved."""
    if "$ref" in node:
        yield from _shapes(root["$defs"][node["$ref"].rpartition("/")[2]], root)
    elif "anyOf" in node:
        for one in node["anyOf"]:
            yield from _shapes(one, root)
    else:
        yield node
