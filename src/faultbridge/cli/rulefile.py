"""Rule files: an EventBridge pattern with its purpose and its golden cases, read and tried out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, cast

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from faultbridge.cli.rulewords import misspelt
from faultbridge.errors import Misconfigured, Rejected

# AWS's quota for a pattern, unless raised: https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-quota.html
MAX_CHARACTERS = 2048
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
    buses: tuple[Literal["own", "default"], ...] = ("own",)
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
    if size > MAX_CHARACTERS:
        yield f"the pattern has {size} characters; EventBridge takes {MAX_CHARACTERS}"
    yield from misspelt(rule.pattern)
    matches = matcher(rule.pattern)
    for case in rule.cases.must:
        if not matches(case.whole()):
            yield f"must match and does not: {case.says}"
    for case in rule.cases.must_not:
        if matches(case.whole()):
            yield f"must not match and does: {case.says}"
