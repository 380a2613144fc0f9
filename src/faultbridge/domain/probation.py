"""Probation: the period after a repair in which a relapse of its fault is not repaired in the same way again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from faultbridge.domain.cases import Case, RepairAction
from faultbridge.domain.conditions import Condition, component_key
from faultbridge.domain.faults import Component, ComponentType, Family

MAX_PROBATIONS = 8
"""Maximum probations of a node; the oldest is dropped first."""


@dataclass(frozen=True, slots=True)
class Probation:
    """One repaired fault of a node that is in service again.

    `case_id` is the case that was closed with `repair_action`, and `instance` the number of the node's instance after
    it. It applies to that instance until `until`.
    """

    case_id: str
    code: str
    component: Component
    repair_action: RepairAction
    instance: int
    until: datetime
    family: Family | None = None

    def is_relapse(self, condition: Condition) -> bool:
        """Return whether a condition has the code, the family or the device of the repaired fault.

        After a replacement the device is another one, although it may have the same address.
        """
        if condition.code == self.code or (self.family is not None and condition.family is self.family):
            return True
        shared = self.repair_action is RepairAction.REPLACE_NODE or self.component.type is ComponentType.NODE
        return not shared and component_key(condition.component) == component_key(self.component)


def begin_probation(
    probations: Iterable[Probation], case: Case, family: Family | None, instance: int, until: datetime, now: datetime
) -> tuple[Probation, ...]:
    """Return the probations of a node after the repair of a case; those of former instances and of the past end."""
    running = [one for one in probations if one.instance == instance and one.until > now and one.code != case.code]
    begun = Probation(case.id, case.code, case.component, case.repair_action, instance, until, family)
    return (*running, begun)[-MAX_PROBATIONS:]


def find_relapse(
    probations: Iterable[Probation], condition: Condition, instance: int | None, now: datetime
) -> Probation | None:
    """Return the probation that a condition violates, or None; of several the one with the strongest action."""
    order = list(RepairAction)
    found = [one for one in probations if one.instance == instance and now < one.until and one.is_relapse(condition)]
    return max(found, key=lambda one: order.index(one.repair_action), default=None)
