"""Policy override: give each condition the severity and action of the policy rule that applies to it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from faultbridge.domain.nodes import NodeState
from faultbridge.domain.policy import Policy
from faultbridge.pipeline.fold.changes import Change, ChangeKind


def apply_policy(state: NodeState, changes: Iterable[Change], policy: Policy) -> tuple[NodeState, tuple[Change, ...]]:
    """Return the node with the policy's severities and actions, and the changes that this caused.

    A change is returned only for a condition without any other change now: for example, it was observed so often that
    another rule applies to it.
    """
    changed = {(change.condition.code, change.condition.component) for change in changes if change.condition}
    conditions, overridden = {}, []
    for key, condition in state.conditions.items():
        rule = policy.rule_for(condition, state.key.cluster, state.placement.instance_type)
        reported = condition.as_reported
        effective = replace(
            condition, severity=rule.severity or reported.severity, action=rule.action or reported.action
        )
        conditions[key] = effective
        if effective != condition and (condition.code, condition.component) not in changed:
            overridden.append(
                Change(
                    ChangeKind.UPDATED,
                    condition.last_at,
                    effective,
                    reason=f"rule {rule.name}",
                    changed_parts=("severity",),
                )
            )
    return replace(state, conditions=conditions), tuple(overridden)
