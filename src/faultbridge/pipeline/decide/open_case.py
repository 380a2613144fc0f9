"""Open case: creates the case of a fault, of an added instance or of an operator's order.

Arguments of `open_case`:

- `rule`: the name of the policy rule that applies.
- `reason`: the text of the timeline entry.
- `isolate`: whether new work must be kept off the node until it is repaired.
- `gpus`: the node's number of GPUs, or None if unknown.
- `relapse_of`: the id of the case whose repair did not last, or None if the fault is no relapse.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime, timedelta

from faultbridge.dataclass import dataclass
from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.cases import Case, RepairAction, WaitingFor, case_id
from faultbridge.domain.cluster.config import ClusterConfig
from faultbridge.domain.copies import replace
from faultbridge.domain.edges import CaseStatus
from faultbridge.domain.faults import Action, Component, Severity
from faultbridge.domain.policy import Policy
from faultbridge.pipeline import entry_builder

DETECTED = "detected"
"""The key in `Case.marks` for the time since which the fault behind the case is active."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The input of a decision besides the node's state, such as the policy.

    `catalog` is the version of the fault catalog. `gpus` maps each instance type to its number of GPUs. `shadow` is a
    second policy without effect, or None: what this policy would have decided is only recorded.
    """

    policy: Policy
    config: ClusterConfig
    catalog: str
    stack_id: str
    gpus: Mapping[str, int] = field(default_factory=dict)
    shadow: Policy | None = None


@dataclass(frozen=True, slots=True)
class Cause:
    """The fault or event that opens a case. `since` is its first observation, or None if unknown."""

    code: str
    component: Component
    severity: Severity
    action: Action
    since: datetime | None = None


def open_case(
    transition: Transition,
    cause: Cause,
    rules: Rules,
    now: datetime,
    *,
    rule: str,
    repair_action: RepairAction,
    reason: str,
    isolate: bool = False,
    wait_seconds: int | None = None,
    waiting_for: WaitingFor = WaitingFor.WAIT,
    gpus: int | None = None,
    relapse_of: str | None = None,
) -> Transition:
    """Open a case on a node. With `wait_seconds`, the case first waits that long, and `waiting_for` states why."""
    state = transition.state
    case = Case(
        id=case_id(rules.stack_id, state.key.cluster, state.key.node, state.head.epoch, state.head.sequence + 1),
        status=CaseStatus.OPEN,
        opened_at=now,
        code=cause.code,
        component=cause.component,
        severity=cause.severity,
        action=cause.action,
        repair_action=repair_action,
        rule=rule,
        policy=rules.policy.version,
        isolate=isolate,
        waiting_for=waiting_for if wait_seconds else None,
        not_before=None if wait_seconds is None else now + timedelta(seconds=wait_seconds),
        marks={**({DETECTED: cause.since} if cause.since else {}), CaseStatus.OPEN.value: now},
        previous_case=state.case.id if state.case else None,
        gpus=gpus,
        relapse_of=relapse_of,
    )
    draft = entry_builder.case_change(None, case, now, reason, state)
    return replace(transition, state=replace(state, case=case), drafts=(*transition.drafts, draft))
