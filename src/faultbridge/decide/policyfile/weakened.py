"""Weakened protection: lists the limits, breakers and rules that a new policy removes or weakens."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from faultbridge.decide.policyfile.schema import (
    DURATION_FIELDS,
    PolicyPart,
    RulePart,
    format_duration,
)
from faultbridge.model.policy import OrchestratorUnreachable, PolicyDocument

FROM_FILE, FROM_DEFAULT = "file", "default"
_NOT_GIVEN = object()


@dataclass(frozen=True, slots=True)
class Setting:
    """One value of a policy, durations in seconds; `origin` is `file` or `default`."""

    rule: str | None
    field: str
    value: Any
    origin: str

    @property
    def text(self) -> str:
        """Return the value as it is written in a policy file."""
        if self.field.rpartition(".")[2] in (DURATION_FIELDS | {"wait_seconds"}) and isinstance(self.value, int):
            return format_duration(self.value)
        return self.value if isinstance(self.value, str) else json.dumps(self.value)


@dataclass(frozen=True, slots=True)
class ChangedSetting:
    """One value that differs between two policies; None if a policy has no such rule or part."""

    rule: str | None
    field: str
    before: Setting | None
    after: Setting | None


def effective_settings(document: PolicyDocument) -> tuple[Setting, ...]:
    """Return every value of a stored policy with its origin; `rules` lists their names in order."""
    policy = complete_policy(document)
    given = policy.model_dump(mode="json", exclude_unset=True)
    rules = given.pop("rules", [])
    complete = policy.model_dump(mode="json")
    settings = [Setting(None, "rules", [rule["name"] for rule in complete["rules"]], FROM_FILE)]
    for rule, given_rule in zip(complete.pop("rules"), rules, strict=True):
        settings += [Setting(rule["name"], *leaf) for leaf in _leaves(rule, given_rule)]
    return (*(Setting(None, *leaf) for leaf in _leaves(complete, given)), *settings)


def complete_policy(document: PolicyDocument) -> PolicyPart:
    """Return a stored policy document as a policy with all defaults; durations are in seconds."""
    parts = {name: value for name, value in document.items() if name != "version"}
    return PolicyPart.model_validate(parts)


def changed_settings(before: PolicyDocument, after: PolicyDocument) -> tuple[ChangedSetting, ...]:
    """Return the values that differ between two stored policy documents; rules are compared by name.

    If only one policy has a rule, a breaker or a maintenance window, only the values that its policy file sets are
    returned.
    """
    old = {(one.rule, one.field): one for one in effective_settings(before)}
    new = {(one.rule, one.field): one for one in effective_settings(after)}
    pairs = ((key, old.get(key), new.get(key)) for key in {**old, **new})
    return tuple(ChangedSetting(*key, left, right) for key, left, right in pairs if _differs(left, right))


def _differs(before: Setting | None, after: Setting | None) -> bool:
    if before is not None and after is not None:
        return bool(before.value != after.value)
    only = before or after
    return only is not None and only.origin == FROM_FILE


def _leaves(value: Any, given: Any, path: str = "") -> Iterator[tuple[str, Any, str]]:  # noqa: ANN401 - JSON
    """Yield the path, value and origin of each setting; `value` has defaults, `given` only the file's values."""
    if isinstance(value, dict):
        for name, inner in value.items():
            known = given.get(name, _NOT_GIVEN) if isinstance(given, dict) else _NOT_GIVEN
            yield from _leaves(inner, known, f"{path}.{name}".removeprefix("."))
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for index, (inner, known) in enumerate(zip(value, given, strict=True)):
            yield from _leaves(inner, known, f"{path}.{inner['scope']}" if "scope" in inner else f"{path}[{index}]")
    else:
        yield path, value, FROM_DEFAULT if given is _NOT_GIVEN else FROM_FILE


_WEAKER_WHEN_HIGHER = frozenset(
    {
        "limits.concurrent",
        "limits.per_hour",
        "limits.isolation_percent",
        "limits.attempts",
        "limits.same_attempts",
        "limits.act_within",
        "limits.claim_ttl",
        "limits.acknowledged_for",
        "breakers.nodes",
        "breakers.percent",
        "breakers.trial",
        "breakers.openings",
        "incidents.nodes",
        "incidents.percent",
        "incidents.explains",
        "incidents.odds",
    }
)
_WEAKER_WHEN_LOWER = frozenset(
    {
        "limits.drain_deadline",
        "limits.orchestrator_timeout",
        "limits.verify_level",
        "limits.probation",
        "limits.relapse_verify_level",
        "limits.finding_precision",
        "breakers.quiet",
        "incidents.window",
        "incidents.quiet",
        "incidents.max_age",
    }
)


_NULL_LEVEL = 2.5
"""The rank of a general verification level of null: the level of the installation, which is 3 unless it is set lower.

Level 3 is therefore safer than null, and null is safer than level 2.
"""

_NULL_RANKS = {"limits.finding_precision": 101.0, "limits.same_attempts": 3.0}
"""The rank of null by field, for fields that are not levels.

Without `finding_precision`, no finding is a fault, which is safer than any percentage. `same_attempts` is 3 by default.
"""

_UNSAFE = {
    "dry_run": False,
    "isolate": False,
    "release_without_capacity": True,
    "orchestrator_unreachable": OrchestratorUnreachable.PROCEED,
}
"""The value with which each of these fields of a rule protects nodes less."""


def weakened_protection(before: PolicyDocument, after: PolicyDocument) -> tuple[str, ...]:
    """Return lines of text about the changes of breakers, limits and rules that can weaken protection.

    Rules are compared by name. A rule that only the new policy has is not compared, because in the old policy other
    rules applied to the conditions that it matches.
    """
    lines = [_weaker(change) for change in changed_settings(before, after) if change.rule is None]
    old, new = complete_policy(before), complete_policy(after)
    general = _rank(old.limits.verify_level), _rank(new.limits.verify_level)
    rules = {rule.name: rule for rule in new.rules}
    for rule in old.rules:
        lines += _weaker_rule(rule, rules.get(rule.name), general)
    return tuple(dict.fromkeys(filter(None, lines)))


def _weaker_rule(before: RulePart, after: RulePart | None, general: tuple[float, float]) -> Iterator[str]:
    """Yield a line for each part of a rule that can protect nodes less in the new policy."""
    rule, kept = f"rule {before.name}", after or RulePart(name=before.name)
    for field, unsafe in _UNSAFE.items():
        old, new = getattr(before, field), getattr(kept, field)
        if new == unsafe != old:
            yield f"{rule}: {field}: {_text(old)} before, {_text(new) if after else 'not set'} now"
    if dropped := [action.value for action in before.approval if action not in kept.approval]:
        yield f"{rule} no longer asks for approval of {', '.join(dropped)}"
    if before.windows and not kept.windows:
        yield f"{rule} no longer waits for a maintenance window"
    elif before.windows and (added := [one for one in kept.windows if one not in before.windows]):
        shown = (f"{one.cron} {format_duration(one.duration)} {one.zone}" for one in added)
        yield f"{rule} has another maintenance window: {', '.join(shown)}"
    # The general level, which a rule without a level follows, has a line of its own.
    if after is not None and (before.verify_level, after.verify_level) != (None, None):
        levels = before.verify_level or general[0], after.verify_level or general[1]
        if levels[1] < levels[0]:
            old, new = ("null" if level == _NULL_LEVEL else f"{level:g}" for level in levels)
            yield f"{rule}: verify_level: {old} before, {new} now"


def _text(value: str | bool) -> str:  # noqa: FBT001 - a value of a policy file
    return value if isinstance(value, str) else json.dumps(value)


def _weaker(change: ChangedSetting) -> str:
    part, _, name = change.field.partition(".")
    if part == "breakers":
        scope, _, name = name.partition(".")
        if change.after is None:
            return f"the {scope} breaker is dropped"
    if change.before is None or change.after is None:
        return ""
    old, new = change.before.value, change.after.value
    key = f"{part}.{name}"
    higher = key in _WEAKER_WHEN_HIGHER and new > old
    null = _NULL_RANKS.get(key, _NULL_LEVEL)
    lower = key in _WEAKER_WHEN_LOWER and _rank(new, null) < _rank(old, null)
    return f"{change.field}: {change.before.text} before, {change.after.text} now" if higher or lower else ""


def _rank(value: float | None, null: float = _NULL_LEVEL) -> float:
    return null if value is None else value
