"""Read a rule file, and test its EventBridge pattern: size, field names and test events."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, cast

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from faultbridge.cli.rules.pattern_check import pattern_problems
from faultbridge.errors import Misconfigured, Rejected

# The default AWS quota for a pattern: https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-quota.html
MAX_PATTERN_CHARACTERS = 2048
ENVELOPE = {"version": "0", "id": "golden", "account": "111122223333", "region": "us-east-1", "resources": []}
TIME = "2026-02-03T04:05:06Z"

Event = dict[str, Any]
Matcher = Callable[[Event], bool]


class _RuleModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class GoldenCase(_RuleModel):
    """A test event of a rule ("golden case").

    `says` describes the event. Fields of the event that are not given get default values.
    """

    says: str = Field(min_length=1)
    event: Event

    def envelope(self) -> Event:
        """Return the complete test event, as EventBridge would deliver it."""
        return {**ENVELOPE, "time": TIME, "source": "faultbridge", "detail-type": "", "detail": {}, **self.event}


class Cases(_RuleModel):
    """The test events of a rule: events that it must match, and events that it must not match."""

    must: list[GoldenCase] = Field(min_length=1)
    must_not: list[GoldenCase] = Field(min_length=1)


class RuleFile(_RuleModel):
    """One EventBridge rule file: a pattern, its purpose, a suggested target, and test events for it.

    `buses` lists the event buses of the rule. `own` is the bus of Faultbridge, and `default` is the default bus of the
    AWS account.
    """

    name: str = Field(pattern=r"^[a-z0-9-]+$")
    purpose: str = Field(min_length=1)
    target: str = Field(min_length=1)
    buses: tuple[Literal["own", "default"], ...] = ("own",)
    pattern: dict[str, Any] = Field(min_length=1)
    cases: Cases


def read_rule(path: Path) -> RuleFile:
    """Read a rule file. Raises `Rejected` with the first problem if the file is invalid."""
    try:
        loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
        rule = RuleFile.model_validate(loaded)
    except UnicodeDecodeError:
        raise Rejected("binary", f"not a text file: {path}") from None
    except yaml.YAMLError as error:
        raise Rejected("not_yaml", f"{path}: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"])) or "the file"
        raise Rejected("no_rule", f"{path}: {field}: {first['msg']}") from error
    if rule.name != path.stem:
        raise Rejected("no_rule", f"{path}: wrong rule name: {rule.name!r}; use the file name {path.stem!r}")
    return rule


def matcher(pattern: Mapping[str, Any]) -> Matcher:
    """Return a function that tests whether an event matches a pattern.

    The function uses moto, which the `local` extra installs. Raises Misconfigured if moto is not installed, and
    Rejected if the pattern is invalid.
    """
    try:
        from moto.events.exceptions import InvalidEventPatternException
        from moto.events.models import EventPattern
    except ImportError as error:
        raise Misconfigured(
            "matcher for EventBridge patterns is not installed: moto; run pip install 'faultbridge[local]'"
        ) from error
    try:
        loaded = EventPattern.load(json.dumps(pattern))
    except InvalidEventPatternException as error:
        raise Rejected("no_pattern", str(error)) from error
    return lambda event: loaded.matches_event(cast("Any", event))


def failures(rule: RuleFile) -> Iterator[str]:
    """Yield one line for each problem of a rule: size, unknown fields or values, failed test events."""
    size = len(json.dumps(rule.pattern, separators=(",", ":")))
    if size > MAX_PATTERN_CHARACTERS:
        yield f"pattern too long: {size} characters; EventBridge allows {MAX_PATTERN_CHARACTERS}"
    yield from pattern_problems(rule.pattern)
    matches = matcher(rule.pattern)
    for case in rule.cases.must:
        if not matches(case.envelope()):
            yield f"must match, but does not: {case.says}"
    for case in rule.cases.must_not:
        if matches(case.envelope()):
            yield f"must not match, but does: {case.says}"
