"""The stages that change the state of one node, in order, after new observations or with time.

`observe` applies new observations:

1. end the conditions that a reboot ends, if the node was rebooted, and move all others to the modes of a new catalog,
2. record the devices that health snapshots show for the first time,
3. fold: apply the observations to the node's conditions,
4. decide: set the node's status, and open, change or close its case, by the rules of the policy,
5. shadow: add a note if a second policy, which has no effect, would decide differently.

`tick` ends conditions that were quiet for long enough, decides, and escalates a case whose approval was not answered.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from msgspec import Struct

from faultbridge.decide import entry_builder
from faultbridge.decide.case_moves import Rules
from faultbridge.decide.decide import decide, expire_approval
from faultbridge.decide.fold.changes import Arrival, Change, ChangeKind, Folded
from faultbridge.decide.fold.expire import end_boot, expire
from faultbridge.decide.fold.fold import Sightings, fold, record_sightings
from faultbridge.decide.fold.reclassify import reclassify
from faultbridge.model.catalog import Catalog
from faultbridge.model.entries import Transition
from faultbridge.model.enums import CaseStatus, NoteKind, RepairAction
from faultbridge.model.faults import Snapshot
from faultbridge.model.isolation import ORDERED
from faultbridge.model.nodes import NodeState
from faultbridge.model.policy import Policy
from faultbridge.model.records import Outcome
from faultbridge.model.values import replace

# Only the decision to open a case is compared, once for a new fault; `faultbridge policy backtest` compares all others.


class ShadowDecision(Struct, frozen=True):
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
    """Add a note if the shadow policy, which has no effect, decides differently.

    No note is added for an operator's order, or if the node already had a live case.
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
        kind=NoteKind.WOULD_HAVE_DONE,
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


def observe(
    state: NodeState,
    arrivals: Iterable[Arrival],
    *,
    rules: Rules,
    catalog: Catalog,
    now: datetime,
    booted_at: datetime | None = None,
) -> Transition:
    """Apply new observations to a node.

    `booted_at` is the time of the first observation if the node was rebooted, else None. The conditions that a reboot
    ends then end before that observation, so that a fault of the new boot opens them again.
    """
    ended = Folded(state) if booted_at is None else end_boot(state, before=booted_at, now=now)
    arrivals = tuple(arrivals)
    snapshots = [arrival for arrival in arrivals if isinstance(arrival.observation, Snapshot)]
    moved = reclassify(ended.state, catalog, now)
    seen = Sightings(moved.state)
    if snapshots:
        seen = record_sightings(moved.state, snapshots, now - rules.policy.limits.remember_for)
    changed = len(ended.changes) + len(moved.changes) + seen.weight
    limits, damped = rules.policy.limits, rules.config.damped(now)
    folded = fold(seen.state, arrivals, now=now, catalog=catalog, limits=limits, changed=changed, damped=damped)
    changes = ended.changes + moved.changes + seen.changes + folded.changes
    decided = decide(folded.state, changes, rules, now)
    if rules.shadow is not None:
        decided = note_shadow(decided, folded.state, changes, rules, now)
    recorded = {change.record_id: Outcome.RECORDED for change in seen.changes if change.record_id}
    return replace(decided, outcomes={**folded.outcomes, **recorded}, remaining=folded.remaining)


def tick(state: NodeState, *, rules: Rules, now: datetime) -> Transition:
    """Apply the passing of time to a node: quiet conditions, waiting periods and approval requests end."""
    expired = expire(state, now=now)
    decided = decide(expired.state, expired.changes, rules, now)
    return expire_approval(decided, now)
