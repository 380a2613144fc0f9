"""Shadow: records a note if a second policy would have decided differently about a new fault.

The second policy has no effect on the node. Only the decision to open a case is compared, once for a new fault.
`faultbridge policy backtest` compares all later decisions too.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from faultbridge.dataclass import dataclass
from faultbridge.domain.case_transitions import Transition
from faultbridge.domain.cases import RepairAction
from faultbridge.domain.copies import replace
from faultbridge.domain.edges import CaseStatus
from faultbridge.domain.isolation import ORDERED
from faultbridge.domain.nodes import NodeState
from faultbridge.domain.policy import Policy
from faultbridge.pipeline import entry_builder
from faultbridge.pipeline.decide.decide import decide
from faultbridge.pipeline.decide.open_case import Rules
from faultbridge.pipeline.fold.changes import Change, ChangeKind


@dataclass(frozen=True, slots=True)
class ShadowDecision:
    """What a policy decides about a new fault. If `repair_action` is None, the policy opens no case."""

    repair_action: RepairAction | None = None
    escalate: bool = False
    isolate: bool = False
    wait_seconds: int = 0
    approval: bool = False
    dry_run: bool = False
    rule: str = ""

    @property
    def decision(self) -> tuple[object, ...]:
        """Return the parts of the decision that are compared: all but the name of the rule."""
        return self.repair_action, self.escalate, self.isolate, self.wait_seconds, self.approval, self.dry_run

    @property
    def text(self) -> str:
        """Return the decision as a phrase for the timeline note."""
        if self.repair_action is None:
            return "no case"
        parts = ["only reported"] if self.dry_run else []
        parts += ["escalated to an operator"] if self.escalate else []
        parts += [] if self.isolate else ["node kept in service until the repair"]
        parts += [f"after {self.wait_seconds} s"] if self.wait_seconds else []
        parts += ["with approval"] if self.approval else []
        return ", ".join([self.repair_action.value, *parts])


def note_shadow(
    decided: Transition, before: NodeState, changes: Iterable[Change], rules: Rules, now: datetime
) -> Transition:
    """Add a note if the shadow policy, a second policy without effect, decides differently.

    `before` and `changes` are the input of the decision `decided`, which the current policy made. The node and its case
    stay as decided. No note is added for an operator's order, or if the node already had a live case.
    """
    changes = tuple(changes)
    began = [change.condition for change in changes if change.kind is ChangeKind.BEGAN and change.condition]
    if any(condition.code.startswith(ORDERED) for condition in began):
        return decided
    if rules.shadow is None or before.live_case is not None or not (began or decided.state.live_case):
        return decided
    other = decide(before, changes, replace(rules, policy=rules.shadow, shadow=None), now)
    made, wanted = _response(decided.state, rules.policy, now), _response(other.state, rules.shadow, now)
    if made.decision == wanted.decision:
        return decided
    case = decided.state.live_case
    note = entry_builder.note(
        kind="would_have_done",
        text=f"shadow policy {rules.shadow.version} would have decided: {wanted.text}; decided: {made.text}",
        at=now,
        case_id=case.id if case else None,
        facts={
            "shadow": True,
            "policy": rules.shadow.version,
            "rule": wanted.rule,
            "repair_action": wanted.repair_action.value if wanted.repair_action else None,
            "isolate": wanted.isolate,
            "wait_seconds": wanted.wait_seconds,
        },
    )
    return replace(decided, drafts=(*decided.drafts, note))


def _response(state: NodeState, policy: Policy, now: datetime) -> ShadowDecision:
    case = state.live_case
    if case is None:
        return ShadowDecision()
    rule = policy.rule_named(case.rule)
    wait = case.not_before - now if case.not_before is not None and not case.awaits_correlation else None
    return ShadowDecision(
        case.repair_action,
        case.status is CaseStatus.ESCALATED or case.awaits_correlation,
        case.isolate,
        int(wait.total_seconds()) if wait else 0,
        case.repair_action in rule.approval,
        rule.dry_run,
        case.rule,
    )
