"""Sources of capacity: queried in the order of the policy until one has an instance for the successor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from faultbridge.dataclass import dataclass
from faultbridge.domain.cluster.capacity_sources import CapacitySource
from faultbridge.domain.times import to_text
from faultbridge.ports import Capacity, CapacityEvidence
from faultbridge.repair.attempt.step_context import StepContext
from faultbridge.repair.successor.launch import (
    case_request,
    fallback_types,
    free_launches,
    source_of_type,
    take_spare,
    taken_spare,
)
from faultbridge.repair.successor.pending import count_pending
from faultbridge.repair.volumes.zones import in_zones, volume_zones

MIN_LEFT = timedelta(hours=1)
"""A source that ends sooner counts as `none_free`: its instances are terminated 30 to 60 minutes before its end."""


class Decision(StrEnum):
    """What the answer of a capacity source decides about the release of the old instance.

    - `used`: the source permits the release.
    - `none_free`: the source has no free instance, or ends too soon.
    - `unknown`: it is not known whether the source has a free instance.
    - `absent`: the source does not exist.
    """

    USED = "used"
    NONE_FREE = "none_free"
    UNKNOWN = "unknown"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class SourceAnswer:
    """The answer of one capacity source, and the spare instance that was taken for the case, if any.

    `pending` is the number of other replacements that will use free instances of the source before this one.
    """

    source: CapacitySource
    found: Capacity
    now: datetime
    spare: str | None = None
    pending: int = 0

    @property
    def decision(self) -> Decision:
        """Return what the answer decides about the release of the old instance."""
        if self.found.evidence is CapacityEvidence.ABSENT:
            return Decision.ABSENT
        if self.found.evidence is CapacityEvidence.NONE:
            return Decision.UNKNOWN
        free = self.found.free and self.is_enough_for(self.pending)
        return Decision.USED if free and not self._ends_soon else Decision.NONE_FREE

    @property
    def reason(self) -> str:
        """Return why the source permits or refuses the release of the old instance; empty without a reason."""
        found = self.found
        without = "" if found.free else f"{found.evidence.value} has no free capacity"
        ends = f"it ends at {to_text(found.ends_at)}" if found.ends_at and self._ends_soon else ""
        used = "" if self.is_enough_for(self.pending) else f"{self.pending} replacements in progress use them first"
        return "; ".join(filter(None, (found.reason or without, used, ends)))

    @property
    def fact(self) -> dict[str, Any]:
        """Return the answer as a timeline entry records it: source, decision, free instances and reason."""
        return {
            "source": self.source.value,
            "decision": self.decision.value,
            "free": self.found.count,
            "reason": self.reason,
        }

    @property
    def is_shared(self) -> bool:
        """Return whether the source is a reservation with free instances whose number is known.

        Other replacements may use free instances of such a source. For any other source, the number of replacements in
        progress (`pending`) does not matter.
        """
        found = self.found
        return found.free and found.count is not None and found.evidence is CapacityEvidence.RESERVATION

    def is_enough_for(self, pending: int) -> bool:
        """Return whether a free instance is left after `pending` other replacements each used an instance.

        The result is True if the source is not a reservation with a known number of free instances (`is_shared`).
        """
        return not self.is_shared or (self.found.count or 0) > pending

    @property
    def _ends_soon(self) -> bool:
        return self.found.ends_at is not None and self.found.ends_at < self.now + MIN_LEFT


def ask_sources(context: StepContext, instance_id: str, group: str) -> tuple[SourceAnswer, ...]:
    """Query the policy's sources of capacity in order, until one permits the release of the old instance.

    Returns the answers in the order of the queries. Only the last answer can permit the release.

    If the case already has a spare or a launched successor, no source is queried, and the result is one answer about
    this instance. A query could wrongly find no free instance, because the case itself may have taken the last one.
    """
    present = _present(context, instance_id, group)
    if present is not None:
        return (present,)
    answers: list[SourceAnswer] = []
    own: Mapping[CapacitySource, Callable[[], SourceAnswer]] = {
        CapacitySource.SPARE_POOL: lambda: _spare(context, instance_id, group),
        CapacitySource.FALLBACK_TYPES: lambda: _fallback(context),
    }
    for source in context.rules.policy.capacity:
        ask = own.get(source)
        found = ask() if ask else _provided(context, source, instance_id, group)
        answers.append(found)
        if found.decision is Decision.USED:
            break
    return tuple(answers)


def _provided(context: StepContext, source: CapacitySource, instance_id: str, group: str) -> SourceAnswer:
    found = SourceAnswer(source, context.provider.capacity(source, instance_id, group), context.now)
    # A launcher starts its successor before the release, so the count of the source already shows it.
    if context.launcher is not None or not found.is_shared:
        return found
    return replace(found, pending=count_pending(context))


def _present(context: StepContext, instance_id: str, group: str) -> SourceAnswer | None:
    """Return an answer for the spare or launched instance that the case already has, or None.

    A spare that is not in the zone of the volumes that move to it does not count.
    """
    if context.launcher is None:
        return None
    taken = _taken(context, instance_id)
    if taken is not None:
        return taken
    launched = next(iter(free_launches(context, context.launcher, case_request(context, group))), None)
    if launched is None:
        return None
    source = source_of_type(context, launched.instance_type)
    reason = f"{launched.instance_id} was launched by an earlier attempt"
    return SourceAnswer(source, Capacity(CapacityEvidence.LAUNCH_FIRST, reason=reason), context.now)


def ask_spare_pool(context: StepContext, instance_id: str, group: str) -> SourceAnswer:
    """Return the answer of the spare pool: the spare that the case took before, or a spare taken now.

    If the attempt has already recorded a spare, that spare could not be claimed. Then only a ready spare of the pool is
    taken. If earlier spares were returned, two spares that cannot be claimed, such as stopped instances, would replace
    each other without end, and no successor would be launched.
    """
    taken = _taken(context, instance_id) if context.attempt.spare is None else None
    return taken or _spare(context, instance_id, group)


def _taken(context: StepContext, instance_id: str) -> SourceAnswer | None:
    spare = taken_spare(context, lambda one: _fits(context, one, volume_zones(context, instance_id)))
    if spare is None:
        return None
    found = Capacity(CapacityEvidence.SPARE, reason=spare)
    return SourceAnswer(CapacitySource.SPARE_POOL, found, context.now, spare)


def _fits(context: StepContext, spare: str, zones: frozenset[str]) -> bool:
    return not zones or in_zones(context, spare, zones)


def _spare(context: StepContext, instance_id: str, group: str) -> SourceAnswer:
    if context.launcher is None or not context.rules.config.spares:
        found = Capacity(CapacityEvidence.ABSENT, reason="the cluster keeps no spares")
        return SourceAnswer(CapacitySource.SPARE_POOL, found, context.now)
    zones = volume_zones(context, instance_id)
    spare = take_spare(context, group, lambda one: _fits(context, one, zones))
    where = f" in {', '.join(sorted(zones))}" if zones else ""
    reason = spare or f"no verified spare with as many GPUs is free{where}"
    found = Capacity(CapacityEvidence.SPARE, free=spare is not None, reason=reason, count=None if spare else 0)
    return SourceAnswer(CapacitySource.SPARE_POOL, found, context.now, spare)


def _fallback(context: StepContext) -> SourceAnswer:
    """Return the answer for the fallback instance types: `absent` if there are none, else `used`.

    The successor is launched before the release, so this launch shows whether a type has capacity.
    """
    types = fallback_types(context) if context.launcher else ()
    found = (
        Capacity(CapacityEvidence.LAUNCH_FIRST, reason=", ".join(types))
        if types
        else Capacity(CapacityEvidence.ABSENT, reason="the cluster has no further instance type")
    )
    return SourceAnswer(CapacitySource.FALLBACK_TYPES, found, context.now)
