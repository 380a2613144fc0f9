"""Capacity: what speaks for a successor before an instance is given up, and whether that is enough."""

from __future__ import annotations

from dataclasses import dataclass

from faultbridge.domain.cases import WaitingFor
from faultbridge.domain.faults import Severity
from faultbridge.domain.times import to_text
from faultbridge.errors import Conflict
from faultbridge.pipeline import entry_builder
from faultbridge.ports import Capacity, CapacityEvidence
from faultbridge.repair.attempt.contract import Answer
from faultbridge.repair.attempt.step_context import DRY_FOR, Work
from faultbridge.repair.successor.launch import spare_of
from faultbridge.storage import items, keys
from faultbridge.storage.writes import Equals, Path, Update, Value

NAME = "capacity"


@dataclass(frozen=True, slots=True)
class Sought:
    """What a look for capacity came to: evidence to go on with, or the answer of a step that ends here."""

    evidence: CapacityEvidence
    answer: Answer | None = None
    spare: str | None = None


def seek(work: Work, instance_id: str, group: str) -> Sought:
    """Look for capacity; without any evidence only an unusable node may go, and only where the rule says so."""
    spare = spare_of(work, group)
    if spare is not None:
        return Sought(CapacityEvidence.SPARE, spare=spare)
    found: Capacity = work.provider.capacity(instance_id, group)
    if found.evidence is not CapacityEvidence.NONE:
        if found.free:
            return Sought(found.evidence)
        return Sought(found.evidence, none_left(work, found.reason or f"{found.evidence.value} has nothing free"))
    rule = work.rules.policy.rule_named(work.case.rule)
    if work.case.approved_attempt == work.case.attempts:
        return Sought(found.evidence)
    if work.case.severity is Severity.FATAL and rule.release_without_capacity:
        return Sought(found.evidence)
    reason = "nothing proves that there is another instance"
    draft = entry_builder.step(
        work.case, NAME, "unproven", work.tools.clock.now(), reason=reason, old_instance=instance_id
    )
    return Sought(found.evidence, work.ask(reason, draft))


def none_left(work: Work, reason: str) -> Answer:
    """End the attempt for want of capacity: the node is kept, and its whole group is left alone for a while."""
    now, old = work.tools.clock.now(), work.instance_id
    draft = entry_builder.step(work.case, NAME, "none_left", now, reason=reason, failure="CAPACITY", old_instance=old)
    answer = work.requeue(WaitingFor.CAPACITY, f"CAPACITY: {reason}", draft, counts=False)
    _mark(work, dry=True)
    return answer


def there_is_some(work: Work) -> None:
    """Let the cases of a group go on that was left alone."""
    _mark(work, dry=False)


def _mark(work: Work, *, dry: bool) -> None:
    """Say of a group whether it is dry; lost in a race, the next repair says it again."""
    cluster, group = work.state.key.cluster, work.state.placement.group
    place = keys.cluster_control(cluster)
    control = items.read_control(cluster, work.tools.table.get(place))
    if group is None or (not dry and group not in control.dry):
        return
    others = {name: until for name, until in control.dry.items() if name != group}
    marked = others | ({group: work.tools.clock.now() + DRY_FOR} if dry else {})
    value: dict[Path, Value] = {("dry",): {name: to_text(until) for name, until in marked.items()}}
    try:
        work.tools.table.write(Update(place, set=value, add={"version": 1}, when=Equals("version", control.version)))
    except Conflict:
        return
