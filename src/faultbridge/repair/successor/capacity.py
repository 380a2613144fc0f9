"""Capacity for a successor: whether there is evidence of free capacity that permits a release.

Further replacements in a group without capacity are postponed.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any

from faultbridge.dataclass import dataclass
from faultbridge.domain.cases import WaitingFor
from faultbridge.domain.cluster.capacity_sources import CapacitySource
from faultbridge.domain.cluster.state import Control
from faultbridge.domain.copies import replace
from faultbridge.domain.faults import Severity
from faultbridge.domain.times import to_text
from faultbridge.errors import Conflict
from faultbridge.pipeline import entry_builder
from faultbridge.pipeline.decide.governing_rules import governing_rules
from faultbridge.ports import CapacityEvidence
from faultbridge.repair.attempt.step_context import StepContext
from faultbridge.repair.attempt.step_contract import StepResult
from faultbridge.repair.successor.pending import count_pending
from faultbridge.repair.successor.sources import Decision, SourceAnswer, ask_sources
from faultbridge.storage import items, keys
from faultbridge.storage.writes import Equals, Path, Update, Value

NAME = "capacity"
DRY_FOR = timedelta(minutes=10)
"""How long a group without capacity gets no new replacement, before one repair checks its capacity again."""


@dataclass(frozen=True, slots=True)
class CapacityCheck:
    """The result of the search for EC2 capacity for a successor.

    `answers` has one answer for each queried source, such as spares or a reservation. `result` is set if the step must
    end, because no capacity was found or an operator must approve the release of the old instance.
    """

    answers: tuple[SourceAnswer, ...]
    result: StepResult | None = None

    @property
    def used(self) -> SourceAnswer | None:
        """Return the answer that permits the release of the old instance, or None if no answer does."""
        return next((one for one in self.answers if one.decision is Decision.USED), None)

    @property
    def source(self) -> CapacitySource | None:
        """Return the source of capacity that permits the release of the old instance, or None."""
        return self.used.source if self.used else None

    @property
    def spare(self) -> str | None:
        """Return the id of the spare instance that was taken for the case, or None."""
        return self.used.spare if self.used else None

    @property
    def is_dry(self) -> bool:
        """Return whether sources exist, and each of them reports that it has no free instance."""
        decisions = {one.decision for one in self.answers}
        return Decision.NONE_FREE in decisions and decisions.isdisjoint({Decision.USED, Decision.UNKNOWN})

    @property
    def only_a_launch_shows(self) -> bool:
        """Return whether only the launch of the successor shows if the source has capacity."""
        return self.used is not None and self.used.found.evidence is CapacityEvidence.LAUNCH_FIRST

    @property
    def reason(self) -> str:
        """Return why a source permits the release of the old instance, or why no source permits it."""
        if self.used:
            return self.used.reason
        return "; ".join(one.reason for one in self.answers if one.reason and one.decision is not Decision.ABSENT)

    @property
    def text(self) -> str:
        """Return the source of capacity and the reason as text, for the entry that records the release."""
        source = f"capacity from {self.used.source.value}" if self.used else "no source of capacity counts"
        return f"{source}: {self.reason}" if self.reason else source

    @property
    def facts(self) -> dict[str, Any]:
        """Return the facts about the capacity that an entry records."""
        evidence = self.used.found.evidence if self.used else CapacityEvidence.NONE
        found = {
            "capacity_evidence": evidence.value,
            "capacity_source": self.source.value if self.source else None,
            "capacity": self.reason,
            "spare": self.spare,
            "capacity_sources": [one.fact for one in self.answers],
        }
        return {name: value for name, value in found.items() if value}


def is_left(context: StepContext, found: CapacityCheck, control: Control) -> bool:
    """Return whether the source of capacity still has a free instance after all replacements in progress.

    Only a reservation with a known number of free instances can be used up: the replacements in progress are subtracted
    from this number. The result is True for every other source, and if no source permitted the release. It is also True
    if Faultbridge launches the successors, because a successor is launched before the old instance is released.
    """
    if found.used is None or context.launcher is not None or not found.used.is_shared:
        return True
    return found.used.is_enough_for(count_pending(context, control))


def find_capacity(context: StepContext, instance_id: str, group: str) -> CapacityCheck:
    """Query the sources of capacity in the policy, and decide whether the instance may be released.

    - If a source has a free instance, the release is permitted.
    - If sources exist, and each of them reports that it has none, the case is queued again and waits.
    - If it is unknown whether a source has a free instance, or no source exists, an operator must approve the release.

    The approval is not needed if the fault is fatal or the node never served, and all policy rules of the repair have
    `release_without_capacity`. But it is always needed if no source exists and the policy does not list `on_demand`,
    because a policy without `on_demand` demands a reservation.
    """
    found = CapacityCheck(ask_sources(context, instance_id, group))
    if found.used:
        return found
    if found.is_dry:
        return replace(found, result=requeue_without_capacity(context, found.reason, found.facts))
    if context.case.approves(context.case.repair_action, context.case.attempts):
        return found
    useless = context.case.severity is Severity.FATAL or context.case.before_service
    # A list without `on_demand` demands a reservation: without any, the rule must not release the instance on demand.
    case, policy, decisions = context.case, context.rules.policy, {one.decision for one in found.answers}
    demanded = CapacitySource.ON_DEMAND not in policy.capacity and decisions == {Decision.ABSENT}
    rules = governing_rules(context.state, case, policy, case.repair_action)
    if useless and all(rule.release_without_capacity for rule in rules) and not demanded:
        permitted = f"rule {', '.join(rule.name for rule in rules)} permits it"
        context.log("released_without_capacity_evidence", permitted, instance_id=instance_id)
        return found
    reason = "no evidence of capacity for a replacement instance"
    reason = f"{reason}: {found.reason}" if found.reason else reason
    draft = entry_builder.step(
        context.case, NAME, "unproven", context.now, reason=reason, old_instance=instance_id, facts=found.facts
    )
    return replace(found, result=context.request_approval(reason, draft))


def requeue_without_capacity(
    context: StepContext, reason: str, facts: Mapping[str, Any] = MappingProxyType({})
) -> StepResult:
    """End the attempt and queue the case again, because there is no EC2 capacity. The instance is kept.

    Further replacements in the node's group are postponed. `facts` are recorded in the entry.
    """
    draft = entry_builder.step(
        context.case,
        NAME,
        "none_left",
        context.now,
        reason=reason,
        failure="CAPACITY",
        old_instance=context.instance_id,
        facts=facts,
    )
    result = context.requeue(WaitingFor.CAPACITY, f"CAPACITY: {reason}", draft, counts=False)
    mark_group(context, until=context.now + DRY_FOR)
    return result


def mark_available(context: StepContext) -> None:
    """Record that the node's group has EC2 capacity again, so that other cases of the group continue."""
    mark_group(context, until=None)


def mark_group(context: StepContext, *, until: datetime | None) -> None:
    """Record until when replacements of the group are postponed; None if the group has EC2 capacity again.

    After a conflict with another writer, nothing is stored; the next repair of the group stores what it finds.
    """
    cluster, group = context.state.key.cluster, context.state.placement.group
    key = keys.cluster_control(cluster)
    control = items.read_control(cluster, context.tools.table.get(key))
    if group is None or (until is None and group not in control.no_capacity_until):
        return
    others = {name: until for name, until in control.no_capacity_until.items() if name != group}
    marked = others | ({group: until} if until else {})
    value: dict[Path, Value] = {("no_capacity_until",): {name: to_text(until) for name, until in marked.items()}}
    try:
        context.tools.table.write(Update(key, set=value, add={"version": 1}, when=Equals("version", control.version)))
    except Conflict as conflict:
        context.log("capacity_mark_lost", str(conflict), group=group)
