"""Weakened protection: lists the limits, breakers and rules that a new policy removes or weakens."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from faultbridge.policyfile.effective import ChangedSetting, Setting, changed_settings, effective_settings

_WEAKER_WHEN_HIGHER = frozenset(
    {
        "limits.concurrent",
        "limits.per_hour",
        "limits.attempts",
        "limits.act_within",
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

_RULE_DEFAULTS = {"dry_run": False, "release_without_capacity": False, "orchestrator_unreachable": "hold"}
"""The values of a rule that a policy does not have."""

_UNSAFE = {"dry_run": False, "release_without_capacity": True, "orchestrator_unreachable": "proceed"}
"""The value with which each of these fields of a rule protects nodes less."""


def weakened_protection(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[str, ...]:
    """Return one line of text for each change of a breaker, limit or rule that can weaken protection.

    Rules are compared by name. A rule that only the new policy has is not compared, because other rules applied to its
    conditions before.
    """
    changes = changed_settings(before, after)
    lines = [_weaker(change) if change.rule is None else _weaker_rule(change) for change in changes]
    old, new = (_Rules(effective_settings(document)) for document in (before, after))
    lines += [line for rule in old.names for line in (_wider_windows(rule, old, new), _lower_level(rule, old, new))]
    return tuple(dict.fromkeys(filter(None, lines)))


class _Rules:
    """The windows and verification levels of the rules of one policy."""

    def __init__(self, settings: Iterable[Setting]) -> None:
        self.names: list[str] = []
        self.level = _NULL_LEVEL
        self._levels: dict[str, int | None] = {}
        self._windows: dict[str, dict[str, list[str]]] = {}
        for one in settings:
            if one.rule is None:
                if one.field == "rules":
                    self.names = one.value
                elif one.field == "limits.verify_level":
                    self.level = _rank(one.value)
            elif one.field == "verify_level":
                self._levels[one.rule] = one.value
            elif one.field.startswith("windows["):
                windows = self._windows.setdefault(one.rule, {})
                windows.setdefault(one.field.partition(".")[0], []).append(one.text)

    def windows(self, rule: str) -> frozenset[str]:
        """Return each maintenance window of a rule as a text."""
        return frozenset(" ".join(parts) for parts in self._windows.get(rule, {}).values())

    def level_of(self, rule: str) -> float:
        """Return the rank of the verification level of a rule; a rule without a level has that of the policy."""
        level = self._levels.get(rule)
        return self.level if level is None else level


def _wider_windows(rule: str, old: _Rules, new: _Rules) -> str:
    """Return a line if a rule has a new maintenance window, or had windows and has none now; else ""."""
    before, after = old.windows(rule), new.windows(rule)
    if not before or (after and after <= before):
        return ""
    if not after:
        return f"rule {rule} no longer waits for a maintenance window"
    return f"rule {rule} has another maintenance window: {', '.join(sorted(after - before))}"


def _lower_level(rule: str, old: _Rules, new: _Rules) -> str:
    """Return a line if the verification level of a rule in both policies is lower than before; else "".

    The result is "" if the rule has the general level in both policies: the general level has a line of its own.
    """
    before, after = old.level_of(rule), new.level_of(rule)
    is_general = (before, after) == (old.level, new.level)
    if rule not in new.names or is_general or after >= before:
        return ""
    shown = ("null" if level == _NULL_LEVEL else f"{level:g}" for level in (before, after))
    return "rule {}: verify_level: {} before, {} now".format(rule, *shown)


def _weaker_rule(change: ChangedSetting) -> str:
    """Return a line if a value of a rule protects nodes less than before, else an empty text."""
    if change.before is None:
        return ""
    if change.field == "approval":
        return _without_approval(change)
    if change.field not in _UNSAFE:
        return ""
    after = change.after.value if change.after else _RULE_DEFAULTS[change.field]
    unsafe = _UNSAFE[change.field]
    return f"rule {change.rule}: {_both_values(change)}" if after == unsafe != change.before.value else ""


def _without_approval(change: ChangedSetting) -> str:
    if change.before is None:
        return ""
    kept = change.after.value if change.after else ()
    dropped = [action for action in change.before.value if action not in kept]
    return f"rule {change.rule} no longer asks for approval of {', '.join(dropped)}" if dropped else ""


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
    lower = key in _WEAKER_WHEN_LOWER and _rank(new) < _rank(old)
    return _both_values(change) if higher or lower else ""


def _rank(value: float | None) -> float:
    # Only a verification level can be null.
    return _NULL_LEVEL if value is None else value


def _both_values(change: ChangedSetting) -> str:
    before, after = (one.text if one else "not set" for one in (change.before, change.after))
    return f"{change.field}: {before} before, {after} now"
