"""Events: what happens to a simulated fleet from outside; events sort by time."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from faultbridge.lab.fault_process import HostFault
from faultbridge.lab.scenario import Scenario


class EventKind(StrEnum):
    """The kinds of events: `reappear` ends the hiding of a fault, `operator` an operator's repair."""

    FAULT = "fault"
    REAPPEAR = "reappear"
    ALARM = "alarm"
    ALARM_END = "alarm_end"
    OPERATOR = "operator"
    ACTION = "action"


@dataclass(frozen=True, slots=True, order=True)
class Event:
    """One event: its time in seconds, its kind, and its host or node by number.

    `kind_text` is what the trace calls a fault, or the kind of a false alarm, which lasts `length` seconds. `case` is
    the escalated case of an operator, or the step of a baseline.
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
    """Return the faults and the false alarms of a scenario."""
    faults = [
        Event(one.start, EventKind.FAULT, host=one.host, kind_text=one.kind, fault=one) for one in scenario.faults()
    ]
    alarms = [
        Event(one.start, EventKind.ALARM, node=one.node, kind_text=one.kind, length=one.length)
        for one in scenario.false_alarms()
    ]
    return [*faults, *alarms]
