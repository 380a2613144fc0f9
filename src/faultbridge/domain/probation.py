"""Probation: the period after a repair in which a returning fault needs a stronger repair action."""

from __future__ import annotations

from datetime import datetime

from faultbridge.dataclass import dataclass
from faultbridge.domain.cases import RepairAction
from faultbridge.domain.conditions import Condition, component_key
from faultbridge.domain.faults import Component, ComponentType, Family


@dataclass(frozen=True, slots=True)
class Probation:
    """One repaired fault of a node that is in service again.

    `case_id` is the case that was closed with `repair_action`. `instance` is the number of the node's instance after
    the repair. The probation applies to that instance until `until`.
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

        The device is not compared after a replacement of the instance, because the new instance has another device,
        even if it has the same PCI address. It is also not compared if the repaired fault was about the node itself.
        """
        if condition.code == self.code or (self.family is not None and condition.family is self.family):
            return True
        shared = self.repair_action is RepairAction.REPLACE_NODE or self.component.type is ComponentType.NODE
        return not shared and component_key(condition.component) == component_key(self.component)
