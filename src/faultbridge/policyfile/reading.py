"""Reading a policy file: what is wrong with it is said all at once, by rule, field and expectation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml
from pydantic import ValidationError

from faultbridge.errors import Rejected
from faultbridge.policyfile import durations
from faultbridge.policyfile.models import DURATIONS, BreakerPart, PolicyPart, RulePart

MAX_CHARACTERS = 200_000


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: in which rule (None for none of them), in which field, and what was expected."""

    rule: str | None
    field: str
    expected: str
    found: str = ""

    def __str__(self) -> str:
        """Say it in a line."""
        where = f"rule {self.rule}, " if self.rule else ""
        found = f" (found {self.found})" if self.found else ""
        return f"{where}{self.field}: {self.expected}{found}"


class InvalidPolicy(Rejected):
    """A policy that will not be used as it is; `problems` has everything that is wrong with it."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        """Keep the problems; the text is the first of them."""
        more = f" and {len(problems) - 1} more" if len(problems) > 1 else ""
        super().__init__("invalid_policy", f"{problems[0]}{more}")
        self.problems = tuple(problems)


def read_policy(text: str) -> dict[str, Any]:
    """Turn a YAML or JSON policy into the document that the table keeps, without its version.

    Raises InvalidPolicy with every problem, Rejected `malformed_yaml` for what is no YAML at all.
    """
    parsed = _parse(text)
    try:
        policy = PolicyPart.model_validate(parsed)
    except ValidationError as error:
        raise InvalidPolicy([_problem(one, parsed) for one in error.errors(include_url=False)]) from None
    problems = list(_contradictions(policy.rules, policy.breakers))
    if problems:
        raise InvalidPolicy(problems)
    return _document(policy)


def _parse(text: str) -> Mapping[str, Any]:
    if len(text) > MAX_CHARACTERS:
        raise Rejected("too_large", f"a policy has at most {MAX_CHARACTERS} characters")
    try:
        parsed = yaml.load(text, Loader=_Plain)  # noqa: S506 - a SafeLoader that takes no aliases either
    except (yaml.YAMLError, RecursionError) as error:
        raise Rejected("malformed_yaml", " ".join(str(error).split())) from None
    if parsed is None:
        raise InvalidPolicy([Problem(None, "the file", "rules or limits are expected", "nothing")])
    if not isinstance(parsed, dict):
        raise InvalidPolicy([Problem(None, "the file", "a mapping with rules and limits is expected", _shown(parsed))])
    return parsed


class _Plain(yaml.SafeLoader):
    """YAML without aliases: a few of them can stand for more than memory holds."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Refuse an alias where it stands."""
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases (*name) are not read")
        return super().compose_node(parent, index)


def _problem(error: Mapping[str, Any], parsed: Mapping[str, Any]) -> Problem:
    place = list(error["loc"])
    rule = None
    if place[:1] == ["rules"] and len(place) > 1 and isinstance(place[1], int):
        rule = _name_of(parsed, place[1])
        place = place[2:] or ["the rule"]
    return Problem(rule, _path(place), _expectation(error), _shown(error.get("input")))


def _name_of(parsed: Mapping[str, Any], number: int) -> str:
    rules = parsed.get("rules")
    rule = rules[number] if isinstance(rules, list) else None
    name = rule.get("name") if isinstance(rule, dict) else None
    return f"{name} (number {number + 1})" if isinstance(name, str) else f"number {number + 1}"


def _path(place: Sequence[int | str]) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)
    return text.removeprefix(".") or "the file"


def _expectation(error: Mapping[str, Any]) -> str:
    context = error.get("ctx") or {}
    match error["type"]:
        case "missing":
            return "it is missing"
        case "extra_forbidden":
            return "no such field is known"
        case "enum":
            return f"one of {str(context['expected']).replace(' or ', ', ')} is expected"
        case "string_pattern_mismatch":
            return f"text that fits {context['pattern']} is expected"
        case "value_error":
            return str(context["error"])
        case _:
            message = str(error["msg"])
            return message[:1].lower() + message[1:]


def _shown(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= _MAX_SHOWN else shown[:_MAX_SHOWN] + "..."


_MAX_SHOWN = 60


def _contradictions(rules: Sequence[RulePart], breakers: Sequence[BreakerPart]) -> Iterator[Problem]:
    """Find what each part alone does not show: names twice, rules out of reach, repair actions in no order."""
    if len({one.scope for one in breakers}) < len(breakers):
        yield Problem(None, "breakers", "one breaker of each scope, cluster and domain, is expected")
    known: set[str] = set()
    catches_all: str | None = None
    for rule in rules:
        if rule.name in known:
            yield Problem(rule.name, "name", "a name that no other rule has is expected")
        if catches_all is not None:
            yield Problem(rule.name, "match", f"it is never reached: rule {catches_all} before it matches everything")
        known.add(rule.name)
        catches_all = catches_all or (rule.name if rule.match.matches_all else None)
        mildest_first = (
            sorted(dict.fromkeys(rule.repair_actions), key=list(type(rule.repair_actions[0])).index)
            if rule.repair_actions
            else []
        )
        if list(rule.repair_actions) != mildest_first:
            expected = ", ".join(repair_action.value for repair_action in mildest_first)
            yield Problem(
                rule.name, "repair_actions", f"each repair action once, mildest first, is expected: {expected}"
            )
        beyond = [repair_action.value for repair_action in rule.approval if repair_action not in rule.repair_actions]
        if beyond:
            yield Problem(
                rule.name,
                "approval",
                "repair actions of the rule's list of repair actions are expected",
                ", ".join(beyond),
            )


def _document(policy: PolicyPart) -> dict[str, Any]:
    document: dict[str, Any] = durations.converted(
        policy.model_dump(mode="json", exclude_unset=True), DURATIONS, lambda seconds: seconds * 1000
    )
    return document
