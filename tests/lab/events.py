"""Events: the faults, the false alarms and the repair steps of a simulated fleet, sortable by time."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from tests.lab.fault_process import HostFault
from tests.lab.scenario import Scenario


class EventKind(StrEnum):
    """The kinds of events: faults, false alarms, and steps of repairs.

    `reappear` means that a hidden fault becomes visible again. `operator` means that an operator repairs a node.
    `action` is a step of a baseline's repair.
    """

    FAULT = "fault"
    REAPPEAR = "reappear"
    ALARM = "alarm"
    ALARM_END = "alarm_end"
    OPERATOR = "operator"
    ACTION = "action"


@dataclass(frozen=True, slots=True, order=True)
class Event:
    """One event: its time in seconds since the start of the scenario, and its kind.

    - `host` is the number of the host that has the fault, for the kinds `fault` and `reappear`. For all other kinds,
      `host` is None, and `node` is the number of the node.
    - `kind_text` is the name of a fault in the trace, or the kind of a false alarm.
    - `length` is the duration of a false alarm in seconds. For `action`, it is the number of the repair.
    - `case` is the id of the escalated case that an operator repairs. For `action`, it is the step of the repair.
    - `fault` is the fault that starts. It is None for all kinds except `fault`.
    """

    at: float
    kind: EventKind
    node: int = -1
    host: int | None = field(default=None, compare=False)
    kind_text: str = field(default="", compare=False)
    length: float = field(default=0.0, compare=False)
    case: str = field(default="", compare=False)
    fault: HostFault | None = field(default=None, compare=False)


def events_of(scenario: Scenario) -> list[Event]:
    """Return the faults and the false alarms of a scenario as events, in no particular order."""
    faults = [
        Event(one.start, EventKind.FAULT, host=one.host, kind_text=one.kind, fault=one) for one in scenario.faults()
    ]
    alarms = [
        Event(one.start, EventKind.ALARM, node=one.node, kind_text=one.kind, length=one.length)
        for one in scenario.false_alarms()
    ]
    return [*faults, *alarms]
