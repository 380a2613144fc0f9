"""Capacity for a successor: requires evidence of it before an instance is released.

Replacements in a group without capacity are postponed.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from faultbridge.domain.cases import WaitingFor
from faultbridge.domain.faults import Severity
from faultbridge.domain.times import to_text
from faultbridge.errors import Conflict
from faultbridge.pipeline import entry_builder
from faultbridge.ports import Capacity, CapacityEvidence
from faultbridge.repair.attempt.step_context import StepContext
from faultbridge.repair.attempt.step_contract import StepResult
from faultbridge.repair.successor.launch import take_spare
from faultbridge.storage import items, keys
from faultbridge.storage.writes import Equals, Path, Update, Value

NAME = "capacity"
DRY_FOR = timedelta(minutes=10)
"""How long a group without capacity gets no new replacement, before one repair checks its capacity again."""


@dataclass(frozen=True, slots=True)
class CapacityCheck:
    """The capacity evidence for a successor, or the result of a step that ends for lack of capacity."""

    evidence: CapacityEvidence
    result: StepResult | None = None
    spare: str | None = None
    reason: str = ""

    @property
    def facts(self) -> dict[str, str]:
        """Return what the intent records about the capacity."""
        found = {"capacity_evidence": self.evidence.value, "capacity": self.reason, "spare": self.spare}
        return {name: value for name, value in found.items() if value}


def find_capacity(context: StepContext, instance_id: str, group: str) -> CapacityCheck:
    """Look for capacity for a successor: a spare, then evidence from the provider.

    Without evidence, the instance is released only if an operator approved it, or if the rule permits it and the fault
    is fatal or the node never served. Otherwise an operator is asked.
    """
    spare = take_spare(context, group)
    if spare is not None:
        return CapacityCheck(CapacityEvidence.SPARE, spare=spare)
    found: Capacity = context.provider.capacity(instance_id, group)
    if found.evidence is not CapacityEvidence.NONE:
        if found.free:
            return CapacityCheck(found.evidence, reason=found.reason)
        reason = found.reason or f"{found.evidence.value} has no free capacity"
        return CapacityCheck(found.evidence, requeue_without_capacity(context, reason))
    rule = context.rules.policy.rule_named(context.case.rule)
    if context.case.approves(context.case.repair_action, context.case.attempts):
        return CapacityCheck(found.evidence, reason=found.reason)
    useless = context.case.severity is Severity.FATAL or context.case.before_service
    if useless and rule.release_without_capacity:
        context.log("released_without_capacity_evidence", f"rule {rule.name} permits it", instance_id=instance_id)
        return CapacityCheck(found.evidence, reason=found.reason)
    reason = "no evidence of capacity for a replacement instance"
    reason = f"{reason}: {found.reason}" if found.reason else reason
    draft = entry_builder.step(context.case, NAME, "unproven", context.now, reason=reason, old_instance=instance_id)
    return CapacityCheck(found.evidence, context.request_approval(reason, draft))


def requeue_without_capacity(context: StepContext, reason: str) -> StepResult:
    """End the attempt for lack of capacity. The instance stays; its group gets no replacements for now."""
    draft = entry_builder.step(
        context.case,
        NAME,
        "none_left",
        context.now,
        reason=reason,
        failure="CAPACITY",
        old_instance=context.instance_id,
    )
    result = context.requeue(WaitingFor.CAPACITY, f"CAPACITY: {reason}", draft, counts=False)
    _mark_group(context, dry=True)
    return result


def mark_available(context: StepContext) -> None:
    """Let the other cases of the group continue, because the group has capacity again."""
    _mark_group(context, dry=False)


def _mark_group(context: StepContext, *, dry: bool) -> None:
    """Record whether the group lacks capacity. After a lost race, the next repair records it."""
    cluster, group = context.state.key.cluster, context.state.placement.group
    key = keys.cluster_control(cluster)
    control = items.read_control(cluster, context.tools.table.get(key))
    if group is None or (not dry and group not in control.no_capacity_until):
        return
    others = {name: until for name, until in control.no_capacity_until.items() if name != group}
    marked = others | ({group: context.now + DRY_FOR} if dry else {})
    value: dict[Path, Value] = {("no_capacity_until",): {name: to_text(until) for name, until in marked.items()}}
    try:
        context.tools.table.write(Update(key, set=value, add={"version": 1}, when=Equals("version", control.version)))
    except Conflict as conflict:
        context.log("capacity_mark_lost", str(conflict), group=group)
