"""Effective values of a policy, set by its file or by a default, and differences of two policies."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from faultbridge.policyfile.schema import DURATION_FIELDS, PolicyPart, convert_durations, format_duration

FROM_FILE, FROM_DEFAULT = "file", "default"
_NOT_GIVEN = object()


@dataclass(frozen=True, slots=True)
class Setting:
    """One value of a policy, and whether the policy file or a default sets it.

    `rule` is the name of the rule that has the value, or None for a value outside the rules. `field` is the path of the
    value in the rule or the policy. `origin` is `file` if the policy file sets the value, else `default`. A duration is
    in seconds.
    """

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
    """One value that differs between two policies.

    `before` is the setting in the old policy, and `after` that in the new policy. A setting is None if its policy has
    no such rule, breaker or maintenance window.
    """

    rule: str | None
    field: str
    before: Setting | None
    after: Setting | None


def effective_settings(document: Mapping[str, Any]) -> tuple[Setting, ...]:
    """Return every value of a stored policy document, with its origin: the file or a default.

    The setting with the field `rules` lists the names of the rules in their order, because the first rule that matches
    applies. Its origin is always `file`.
    """
    policy = complete_policy(document)
    given = policy.model_dump(mode="json", exclude_unset=True)
    rules = given.pop("rules", [])
    complete = policy.model_dump(mode="json")
    settings = [Setting(None, "rules", [rule["name"] for rule in complete["rules"]], FROM_FILE)]
    for rule, given_rule in zip(complete.pop("rules"), rules, strict=True):
        settings += [Setting(rule["name"], *leaf) for leaf in _leaves(rule, given_rule)]
    return (*(Setting(None, *leaf) for leaf in _leaves(complete, given)), *settings)


def complete_policy(document: Mapping[str, Any]) -> PolicyPart:
    """Return a stored policy document as a policy with all defaults; durations are in seconds."""
    parts = {name: value for name, value in document.items() if name != "version"}
    return PolicyPart.model_validate(convert_durations(parts, lambda milliseconds: milliseconds // 1000))


def changed_settings(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[ChangedSetting, ...]:
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
    """Yield the path, value and origin (`file` or `default`) of each setting in a part of a policy.

    `value` is the part with defaults for the values that the policy file does not set. `given` is the same part with
    only the values that the file sets. `path` is the path of the part. A path names a breaker by its scope, and a
    maintenance window by its index from 0.
    """
    if isinstance(value, dict):
        for name, inner in value.items():
            known = given.get(name, _NOT_GIVEN) if isinstance(given, dict) else _NOT_GIVEN
            yield from _leaves(inner, known, f"{path}.{name}".removeprefix("."))
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for index, (inner, known) in enumerate(zip(value, given, strict=True)):
            yield from _leaves(inner, known, f"{path}.{inner['scope']}" if "scope" in inner else f"{path}[{index}]")
    else:
        yield path, value, FROM_DEFAULT if given is _NOT_GIVEN else FROM_FILE
