"""Weakened protection: lists the limits, breakers and approvals that a new policy removes or weakens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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


def weakened_protection(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[str, ...]:
    """Return one line of text for each breaker, approval or limit that the new policy removes or weakens."""
    lines: dict[str, None] = {}
    for change in changed_settings(before, after):
        if line := _weaker(change) if change.rule is None else _without_approval(change):
            lines[line] = None
    return tuple(lines)


def _without_approval(change: ChangedSetting) -> str:
    if change.field != "approval" or change.before is None:
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
    lower = key in _WEAKER_WHEN_LOWER and (new or 0) < (old or 0)
    return f"{change.field}: {change.before.text} before, {change.after.text} now" if higher or lower else ""
