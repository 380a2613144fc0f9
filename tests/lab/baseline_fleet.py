"""Runs a scenario under the rules of another repair system (a baseline).

A baseline returns repaired nodes to service without a verification.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from faultbridge.decode.data import load_catalog
from faultbridge.model.cases import REPAIR_ACTION_OF
from faultbridge.model.enums import RepairAction
from tests.lab.baselines import Baseline
from tests.lab.events import Event, EventKind, events_of
from tests.lab.fleet_log import FleetLog
from tests.lab.hosts import Hosts
from tests.lab.scenario import MINUTE, Scenario
from tests.lab.symptoms import symptom
from tests.lab.trace import HOUR

SOFT = ("net.", "host.silent", "host.not_ready", "host.unreachable")
RETRY = 10 * MINUTE


@dataclass(slots=True)
class _Repair:
    """The repair of a node. `kind` is the kind of the fault that was reported.

    `action` is the repair action, which is None until it starts. `number` identifies the repair, so that events of an
    earlier repair of the node are ignored.
    """

    kind: str
    number: int
    action: RepairAction | None = None


class BaselineFleet:
    """One run of a scenario under a baseline: the simplified rules of another repair system."""

    def __init__(self, scenario: Scenario, baseline: Baseline) -> None:
        """Start the fleet with all nodes in service."""
        self._scenario, self._rules = scenario, baseline
        self._hosts, self._log = Hosts(scenario), FleetLog()
        self._host = list(range(scenario.nodes))
        self._node: dict[int, int] = {host: host for host in range(scenario.nodes)}
        self._repairs: dict[int, _Repair] = {}
        self._history: dict[int, list[float]] = defaultdict(list)
        self._number = 0
        self._catalog = load_catalog()
        self._events = events_of(scenario)
        heapq.heapify(self._events)

    def run(self, progress: Callable[[float], None] = lambda _: None) -> FleetLog:
        """Run the scenario to its end and return the log of the fleet.

        `progress` is called once, at the end, with 1.0.
        """
        while (event := self._next()) is not None and event.at < self._scenario.seconds:
            self._apply(event)
        progress(1.0)
        return self._log

    def _next(self) -> Event | None:
        returning = self._hosts.reappearing
        if returning and (not self._events or returning[0][0] < self._events[0].at):
            at, host = heapq.heappop(returning)
            return Event(at, EventKind.REAPPEAR, host=host)
        return heapq.heappop(self._events) if self._events else None

    def _apply(self, event: Event) -> None:
        node = event.node if event.host is None else self._node.get(event.host)
        match event.kind:
            case EventKind.FAULT if event.fault is not None:
                serving = node is not None and node not in self._repairs
                if self._hosts.begin(event.fault, serving=serving) and node is not None:
                    self._report(node, event.kind_text, event.at)
                elif node is not None and event.fault.host in self._hosts.active and not serving:
                    self._hosts.hide(event.fault.host, event.at)
            case EventKind.REAPPEAR if event.host is not None and self._hosts.reappear(event.host):
                if node is not None and node not in self._repairs:
                    self._report(node, self._hosts.active[event.host].fault.kind, event.at)
            case EventKind.ALARM if node not in self._repairs and not self._hosts.is_down(self._host[event.node]):
                self._report(event.node, event.kind_text, event.at)
                self._push(event.at + event.length, event.node, "clear")
            case EventKind.ACTION if event.node in self._repairs and self._is_current(event):
                self._step(event)
            case _:
                pass

    def _report(self, node: int, kind: str, at: float) -> None:
        self._number += 1
        self._repairs[node] = _Repair(kind, self._number)
        self._history[self._host[node]].append(at)
        if self._rules.evicts_at_once:
            self._log.update(node, at, serving=False, faulty=self._host[node] in self._hosts.active)
        self._record(node, at)
        if self._rules.action is None:
            self._call_operator(node, at)
            return
        soft = symptom(kind).code.startswith(SOFT)
        self._push(at + (self._rules.soft_wait if soft else self._rules.wait), node, "repair")

    def _step(self, event: Event) -> None:
        """Carry out the step of a node's repair that the event names.

        - `clear`: a false alarm ended. The repair ends too if its action has not started and the host has no fault.
        - `repair`: start the repair action, or try again to start it.
        - `done`: the repair action ended. A reset or reboot takes effect on the host now. End the repair.
        - `operator`: an operator has repaired the node. End the fault and the repair.
        """
        node, at, repair = event.node, event.at, self._repairs[event.node]
        host, step = self._host[node], event.case
        if step == "clear":
            if repair.action is None and host not in self._hosts.active:
                self._finish(node, at)
        elif step == "repair" and repair.action is None:
            self._begin(node, at, repair)
        elif step == "done":
            if repair.action is not RepairAction.REPLACE_NODE and repair.action is not None:
                self._hosts.restarted(host, repair.action, at)
            self._finish(node, at)
        elif step == "operator":
            self._hosts.cured(host)
            self._finish(node, at)

    def _begin(self, node: int, at: float, repair: _Repair) -> None:
        unhealthy = len(self._repairs)
        if unhealthy > self._rules.min_unhealthy and unhealthy * 100 > self._rules.percent * self._scenario.nodes:
            self._log.waited["breaker"] += RETRY / HOUR
            self._push(at + RETRY, node, "repair")
            return
        action = self._action(node, at, repair.kind)
        if action is None:
            self._call_operator(node, at)
            return
        host = self._host[node]
        self._log.update(node, at, serving=False, faulty=host in self._hosts.active)
        physics = self._scenario.physics
        if action is not RepairAction.REPLACE_NODE:
            repair.action = action
            self._push(at + physics.restart, node, "done")
            return
        successor = self._hosts.take(at)
        if successor is None:
            self._log.waited["capacity"] += RETRY / HOUR
            self._push(at + RETRY, node, "repair")
            return
        repair.action = action
        known = self._hosts.active.get(host)
        needless = known is None or self._hosts.cure_of(known.fault) is not RepairAction.REPLACE_NODE
        self._log.counts["replacements"] += 1
        self._log.counts["needless_replacements"] += needless
        self._hosts.release(host, at)
        del self._node[host]
        self._host[node], self._node[successor] = successor, node
        self._push(at + physics.launch, node, "done")

    def _action(self, node: int, at: float, kind: str) -> RepairAction | None:
        rules, host = self._rules, self._host[node]
        recent = [time for time in self._history[host] if time > at - rules.window]
        if rules.give_up and len(recent) > rules.give_up:
            return None
        if rules.half_life:
            score = sum(0.5 ** ((at - time) / rules.half_life) for time in self._history[host])
            return RepairAction.REPLACE_NODE if score >= rules.removals else rules.action
        if rules.removals:
            return RepairAction.REPLACE_NODE if len(recent) >= rules.removals else rules.action
        if rules.by_code:
            catalog_action = self._catalog.classify(symptom(kind)).action
            wanted = REPAIR_ACTION_OF.get(catalog_action) if catalog_action else None
            return RepairAction.REBOOT_NODE if wanted is RepairAction.VERIFY else wanted
        return rules.action

    def _call_operator(self, node: int, at: float) -> None:
        self._log.counts["pages"] += 1
        left = self._hosts.repair_left(self._host[node], at)
        self._push(at + left, node, "operator")

    def _finish(self, node: int, at: float) -> None:
        del self._repairs[node]
        self._record(node, at)
        if self._hosts.is_down(self._host[node]):
            self._report(node, self._hosts.active[self._host[node]].fault.kind, at)

    def _record(self, node: int, at: float) -> None:
        host = self._host[node]
        repair = self._repairs.get(node)
        held = repair is not None and (repair.action is not None or self._rules.evicts_at_once)
        serving = not held and not self._hosts.is_down(host)
        self._log.update(node, at, serving=serving, faulty=host in self._hosts.active)

    def _push(self, at: float, node: int, step: str) -> None:
        number = self._repairs[node].number
        heapq.heappush(self._events, Event(at, EventKind.ACTION, node=node, case=step, length=float(number)))

    def _is_current(self, event: Event) -> bool:
        return self._repairs[event.node].number == int(event.length)
