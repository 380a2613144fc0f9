"""Override: what the policy thinks of a condition in place of the catalog."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from faultbridge.domain.nodes import NodeState
from faultbridge.domain.policy import Policy
from faultbridge.pipeline.fold.changes import Change, ChangeKind


def override(state: NodeState, changes: Iterable[Change], policy: Policy) -> tuple[NodeState, tuple[Change, ...]]:
    """Give each condition the severity and action of its rule; returns the changes that nothing else would tell.

    Such a change is a condition that was observed so often that another rule is about it now.
    """
    told = {(change.condition.code, change.condition.component) for change in changes if change.condition}
    conditions, raised = {}, []
    for key, condition in state.conditions.items():
        rule, as_reported = (
            policy.rule_for(condition, state.key.cluster, state.placement.instance_type),
            condition.as_reported,
        )
        judged = replace(
            condition, severity=rule.severity or as_reported.severity, action=rule.action or as_reported.action
        )
        conditions[key] = judged
        if judged != condition and (condition.code, condition.component) not in told:
            reason = f"rule {rule.name}"
            raised.append(Change(ChangeKind.UPDATED, condition.last_at, judged, reason=reason, what=("severity",)))
    return replace(state, conditions=conditions), tuple(raised)
