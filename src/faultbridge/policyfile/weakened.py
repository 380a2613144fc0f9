"""Weakened protection: lists the limits, breakers and rules that a new policy removes or weakens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from faultbridge.domain.policy import OrchestratorUnreachable, Rule
from faultbridge.policyfile.effective import ChangedSetting, changed_settings

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


def _strength(value: float | None) -> float:
    # Only verification levels can be null: the level of the installation, which is 3 by default, but can be lower.
    return 2.5 if value is None else value


_DEFAULTS = Rule("default")
_STRENGTH: Mapping[str, Callable[[Any], float]] = {
    "dry_run": float,
    "verify_level": _strength,
    "release_without_capacity": lambda permitted: -float(permitted),
    "orchestrator_unreachable": lambda response: -float(response == OrchestratorUnreachable.PROCEED.value),
}
"""How strongly each value of a field of a rule protects nodes; a higher number is stronger."""


def weakened_protection(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[str, ...]:
    """Return one line of text for each breaker, limit or part of a rule that the new policy removes or weakens."""
    lines: dict[str, None] = {}
    for change in changed_settings(before, after):
        if line := _weaker(change) if change.rule is None else _weaker_rule(change):
            lines[line] = None
    return tuple(lines)


def _weaker_rule(change: ChangedSetting) -> str:
    """Return a line if a value of a rule protects less than before, else an empty text.

    A rule that the new policy does not have counts there as a rule with all defaults. A rule that only the new policy
    has is not compared, because other rules applied to its conditions before.
    """
    if change.field == "approval":
        return _without_approval(change)
    if change.field.startswith("windows["):
        return _wider_window(change)
    if change.field not in _STRENGTH or change.before is None:
        return ""
    strength, after = _STRENGTH[change.field], change.after.value if change.after else getattr(_DEFAULTS, change.field)
    return f"rule {change.rule}: {_both_values(change)}" if strength(after) < strength(change.before.value) else ""


def _without_approval(change: ChangedSetting) -> str:
    if change.before is None:
        return ""
    kept = change.after.value if change.after else ()
    dropped = [action for action in change.before.value if action not in kept]
    return f"rule {change.rule} no longer asks for approval of {', '.join(dropped)}" if dropped else ""


def _wider_window(change: ChangedSetting) -> str:
    """Return a line if repairs under a rule may start at times at which no maintenance window was open before."""
    is_first = change.field.startswith("windows[0]")
    if change.after is None:
        return f"rule {change.rule} no longer waits for a maintenance window" if is_first else ""
    if change.before is None:
        return "" if is_first else f"rule {change.rule} has a further maintenance window"
    shorter = change.field.endswith(".duration") and change.after.value < change.before.value
    return "" if shorter else f"rule {change.rule}: {_both_values(change)}"


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
    lower = key in _WEAKER_WHEN_LOWER and _strength(new) < _strength(old)
    return _both_values(change) if higher or lower else ""


def _both_values(change: ChangedSetting) -> str:
    before, after = (one.text if one else "not set" for one in (change.before, change.after))
    return f"{change.field}: {before} before, {after} now"
