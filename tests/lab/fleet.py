"""Fleet: what happens to the nodes of a scenario, whichever system repairs them.

The faults, precursors and false alarms of a scenario, the ends of jobs, and the steps that a system schedules are
events. A subclass is one system; `ProductFleet` and `BaselineFleet` run it, and `WholeProduct` runs the product slowly.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, field
from enum import StrEnum

from tests.lab.fault_process import HostFault
from tests.lab.hosts import Hosts
from tests.lab.jobs import Jobs
from tests.lab.scenario import Scenario
from tests.lab.symptoms import PRECURSOR


class EventKind(StrEnum):
    """The kinds of events: faults, precursors, false alarms, answers of jobs, and steps of repairs.

    `reappear` means that a hidden fault becomes visible again, and `report_end` that a monitor no longer sees a state.
    `saved` means that a job answers a request for a checkpoint. `operator` means that an operator repairs a node.
    `action` is a step of a baseline's repair. `job_end` is the end of a job.
    """

    FAULT = "fault"
    PRECURSOR = "precursor"
    REAPPEAR = "reappear"
    ALARM = "alarm"
    REPORT_END = "report_end"
    SAVED = "saved"
    OPERATOR = "operator"
    ACTION = "action"
    JOB_END = "job_end"


@dataclass(frozen=True, slots=True, order=True)
class Event:
    """One event: its time in seconds since the start of the scenario, and its kind.

    - `host` is the number of the host that has the fault, for the kinds `fault`, `precursor` and `reappear`. For all
      other kinds, `host` is None, and `node` is the number of the node.
    - `text` is the kind of a false alarm, the id of the case that an operator repairs, or the step of a repair.
    - `length` is the duration of a false alarm in seconds. For `action`, it is the number of the repair.
    - `fault` is the fault that starts, or whose precursor is seen.
    """

    at: float
    kind: EventKind
    node: int = -1
    host: int | None = field(default=None, compare=False)
    text: str = field(default="", compare=False)
    length: float = field(default=0.0, compare=False)
    fault: HostFault | None = field(default=None, compare=False)


class Fleet:
    """The hosts and jobs of one run of a scenario, and its events; a system repairs the nodes."""

    def __init__(self, scenario: Scenario) -> None:
        """Start the fleet with all nodes in service."""
        self.scenario, self.hosts = scenario, Hosts(scenario)
        self.jobs = Jobs(scenario.nodes, scenario.mix, scenario.seed)
        self.node_of = {host: host for host in range(scenario.nodes)}
        self._events = [
            *(Event(one.start, EventKind.FAULT, host=one.host, fault=one) for one in scenario.faults()),
            *(Event(at, EventKind.PRECURSOR, host=one.host, fault=one) for at, one in scenario.precursors()),
            *(
                Event(one.start, EventKind.ALARM, one.node, text=one.kind, length=one.length)
                for one in scenario.false_alarms()
            ),
        ]
        heapq.heapify(self._events)

    # ------------------------------------------------------------------ the system

    def node_on(self, host: int) -> int | None:
        """Return the node that a host backs, or None."""
        return self.node_of.get(host)

    def host_of(self, node: int) -> int:
        """Return the number of the host that backs a node."""
        raise NotImplementedError

    def in_service(self, node: int) -> bool:
        """Return whether the system lets work run on a node."""
        raise NotImplementedError

    def report(self, node: int, kind: str, at: float) -> None:
        """Report a fault of a node, a precursor or a false alarm to the system; `kind` is that of the trace."""
        raise NotImplementedError

    def end_report(self, node: int, kind: str, at: float) -> None:
        """Report that the monitors no longer see a false alarm, or a fault that a restart cured or hid."""
        raise NotImplementedError

    def step(self, event: Event) -> None:
        """Carry out a step that the system scheduled: `operator`, `saved` or `action`."""
        raise NotImplementedError

    # ------------------------------------------------------------------ events

    def push(self, event: Event) -> None:
        """Schedule an event."""
        heapq.heappush(self._events, event)

    def next_event(self) -> float:
        """Return the time of the next event."""
        queues = (self._events, self.hosts.reappearing, self.hosts.vanished)
        first = [queue[0] for queue in queues if queue]
        times = [one.at if isinstance(one, Event) else one[0] for one in first]
        return min(*times, self.jobs.next_end(), math.inf)

    def pop_event(self) -> Event:
        """Return the next event and remove it; the end of a job comes after other events of its time."""
        at = self.next_event()
        if self._events and self._events[0].at == at:
            return heapq.heappop(self._events)
        if self.hosts.reappearing and self.hosts.reappearing[0][0] == at:
            return Event(at, EventKind.REAPPEAR, host=heapq.heappop(self.hosts.reappearing)[1])
        if self.hosts.vanished and self.hosts.vanished[0][0] == at:
            _, host, kind = heapq.heappop(self.hosts.vanished)
            return Event(at, EventKind.REPORT_END, host=host, text=kind)
        return Event(at, EventKind.JOB_END)

    def apply(self, event: Event) -> None:
        """Let an event happen, and report to the system what its monitors see."""
        node = event.node if event.host is None else self.node_on(event.host)
        match event.kind:
            case EventKind.JOB_END:
                self.jobs.end_next()
            case EventKind.FAULT if event.fault is not None:
                self._start_fault(node, event.fault, event.at)
            case EventKind.PRECURSOR if event.fault is not None and node is not None and self.works(node):
                if self.hosts.warn(event.fault):
                    self.report(node, PRECURSOR, event.at)
            case EventKind.REAPPEAR if event.host is not None and self.hosts.reappear(event.host) and node is not None:
                self._fail(node, self.hosts.active[event.host].fault.kind, event.at)
            case EventKind.ALARM if node is not None and self.works(node):
                self.report(node, event.text, event.at)
                self.push(Event(event.at + event.length, EventKind.REPORT_END, node, text=event.text))
            case EventKind.REPORT_END if node is not None:
                self.end_report(node, event.text, event.at)
            case EventKind.OPERATOR | EventKind.SAVED | EventKind.ACTION:
                self.step(event)
            case _:
                pass

    def works(self, node: int) -> bool:
        """Return whether work can run on a node: it is in service, and its host has no visible fault."""
        return self.in_service(node) and not self.hosts.is_down(self.host_of(node))

    def moved(self, node: int, old: int, new: int) -> None:
        """Record that another host backs a node."""
        if self.node_of.get(old) == node:
            del self.node_of[old]
        self.node_of[new] = node

    def _start_fault(self, node: int | None, fault: HostFault, at: float) -> None:
        serving = node is not None and self.works(node)
        if self.hosts.begin(fault, serving=serving) and node is not None:
            self._fail(node, fault.kind, at)
        elif node is not None and fault.host in self.hosts.active and not serving:
            self.hosts.hide(fault.host, at)

    def _fail(self, node: int, kind: str, at: float) -> None:
        self.jobs.fail(node, at)
        self.report(node, kind, at)
