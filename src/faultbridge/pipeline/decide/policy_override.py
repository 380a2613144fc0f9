"""Policy override: give each condition the severity and action of the policy rule that applies to it."""

from __future__ import annotations

from collections.abc import Iterable

from faultbridge.domain.conditions import Condition
from faultbridge.domain.copies import replace
from faultbridge.domain.nodes import NodeState
from faultbridge.domain.policy import Policy
from faultbridge.pipeline.fold.capacity import MAX_OVERRIDES
from faultbridge.pipeline.fold.changes import Change, ChangeKind


def apply_policy(state: NodeState, changes: Iterable[Change], policy: Policy) -> tuple[NodeState, tuple[Change, ...]]:
    """Apply the policy's severities and actions to a node; return the node and the additional changes to record.

    `changes` are the changes of this commit; their conditions need no additional change. Any other condition may now
    match another rule, for example because it was observed often enough. At most 8 such conditions change in one
    commit, the worst first; the others change with the next observation of the node.
    """
    changed = {(change.condition.code, change.condition.component) for change in changes if change.condition}
    conditions: dict[str, Condition] = dict(state.conditions)
    overridden: list[Change] = []
    for key, condition in sorted(state.conditions.items(), key=lambda item: -item[1].severity.rank):
        rule = policy.rule_for(condition, state.key.cluster, state.placement.instance_type)
        severity = rule.severity or condition.reported_severity or condition.severity
        action = rule.action or condition.reported_action or condition.action
        if (severity, action) == (condition.severity, condition.action):
            continue
        effective = replace(condition, severity=severity, action=action)
        if (condition.code, condition.component) in changed:
            conditions[key] = effective
        elif len(overridden) < MAX_OVERRIDES:
            conditions[key] = effective
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
