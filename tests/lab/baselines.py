"""Baselines: the rules of other repair systems, simplified, and one run of a scenario under such rules.

A baseline returns repaired nodes to service without a verification, sees no precursors and asks no job to save.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from faultbridge.decode.data import load_catalog
from faultbridge.model.cases import REPAIR_ACTION_OF
from faultbridge.model.enums import RepairAction
from tests.lab.fleet import Event, EventKind, Fleet
from tests.lab.jobs import MINUTE, Jobs
from tests.lab.scenario import Scenario
from tests.lab.symptoms import PRECURSOR, symptom
from tests.lab.trace import DAY, HOUR

REPLACE, REBOOT = RepairAction.REPLACE_NODE, RepairAction.REBOOT_NODE


@dataclass(frozen=True, slots=True)
class Baseline:
    """The rules of one other repair system; `approximated` states how they differ from the real system.

    - `wait`: seconds from the report of a fault to its repair. `soft_wait` is used instead for network faults, missing
      heartbeats, and nodes that are not ready or not reachable.
    - `percent`: no repair starts while more than this percentage of the nodes have a reported fault. With `reset`, the
      breaker then stays open until an operator resets it.
    - `action`: the repair action. If it is None, an operator repairs every fault.
    - `by_code`: the repair action is the catalog's action for the fault instead of `action`, or a reboot if the catalog
      names `verify`. If the catalog names no repair action, an operator repairs the fault.
    - `removals`: a host is replaced once it has had this number of reported faults within `window` seconds. Before
      that, its repair action is `action`. 0: not used.
    - `give_up`: a host with more than this number of reported faults within `window` seconds is repaired by an
      operator. 0: not used.
    - `cordons`: a node takes no new work as soon as its fault is reported, and its repair waits until its job ends.
    - `evicts_at_once`: a node stops serving as soon as its fault is reported. Otherwise, a node with a false alarm
      serves until its repair starts.
    """

    name: str
    approximated: str
    action: RepairAction | None = REPLACE
    by_code: bool = False
    wait: float = 0.0
    soft_wait: float = 0.0
    percent: int = 100
    reset: bool = False
    removals: int = 0
    give_up: int = 0
    window: float = 7 * DAY
    cordons: bool = False
    evicts_at_once: bool = False


EKS = "eks-auto-repair"
BASELINES: Mapping[str, Baseline] = {
    one.name: one
    for one in (
        Baseline(
            EKS,
            "as in EKS Auto Mode and with Karpenter, where each action is a replacement: waits 10 min for accelerators"
            " and 30 min for other conditions; stops above 20 % unhealthy nodes; its agent sees every fault here",
            wait=10 * MINUTE,
            soft_wait=30 * MINUTE,
            percent=20,
        ),
        Baseline("fixed-wait", "replaces after 30 min, whatever the fault", wait=30 * MINUTE, soft_wait=30 * MINUTE),
        Baseline(
            "nvsentinel-allow-completion",
            "cordons at once, lets jobs end (drain mode AllowCompletion), and uncordons when the fault ends; takes the"
            " action of Faultbridge's catalog, because NVIDIA's own is close to it, and reboots where that one only"
            " verifies; no verification; an operator resets its breaker, and repairs a node after 5 repairs in 7 days",
            by_code=True,
            percent=50,
            reset=True,
            give_up=5,
            cordons=True,
        ),
        Baseline(
            "restart-then-replace",
            "restarts a host at once, and replaces it at its third fault in 7 days",
            action=REBOOT,
            removals=3,
            evicts_at_once=True,
        ),
        Baseline("replace-at-once", "replaces the host of every reported fault, with no wait, limit or verification",
                 evicts_at_once=True),
        Baseline("never-replace", "an operator repairs each fault in the trace's own time", action=None),
    )
}  # fmt: skip

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


class BaselineFleet(Fleet):
    """One run of a scenario under a baseline: the simplified rules of another repair system."""

    def __init__(self, scenario: Scenario, baseline: Baseline) -> None:
        """Start the fleet with all nodes in service."""
        super().__init__(scenario)
        self._rules = baseline
        self._host = list(range(scenario.nodes))
        self._repairs: dict[int, _Repair] = {}
        self._history: dict[int, list[float]] = defaultdict(list)
        self._number, self._open_until = 0, 0.0
        self._catalog = load_catalog()

    def run(self) -> Jobs:
        """Run the scenario to its end and return what the jobs lost."""
        while self.next_event() < self.scenario.seconds:
            self.apply(self.pop_event())
        self.jobs.finish(self.scenario.seconds)
        return self.jobs

    def host_of(self, node: int) -> int:
        """Return the number of the host that backs a node."""
        return self._host[node]

    def in_service(self, node: int) -> bool:
        """Return whether no fault of the node is reported."""
        return node not in self._repairs

    def report(self, node: int, kind: str, at: float) -> None:
        """Schedule the repair of a node; a precursor is not reported."""
        if kind == PRECURSOR or node in self._repairs:
            return
        self._number += 1
        self._repairs[node] = _Repair(kind, self._number)
        self._history[self._host[node]].append(at)
        if self._rules.evicts_at_once or self._rules.cordons:
            self.jobs.close(node, at)
        if self._rules.evicts_at_once:
            self._evict(node, at)
        if self._rules.action is None:
            self._call_operator(node, at)
            return
        soft = symptom(kind).code.startswith(SOFT)
        self._push(at + (self._rules.soft_wait if soft else self._rules.wait), node, "repair")

    def end_report(self, node: int, kind: str, at: float) -> None:
        """End the repair of a false alarm if its action has not started and the host has no fault."""
        repair = self._repairs.get(node)
        healthy = self._host[node] not in self.hosts.active
        if repair is not None and repair.kind == kind and repair.action is None and healthy:
            self._finish(node, at)

    def step(self, event: Event) -> None:
        """Carry out the step of a node's repair that the event names.

        - `repair`: start the repair action, or try again to start it.
        - `done`: the repair action ended. A reset or reboot takes effect on the host now. End the repair.
        - `operator`: an operator has repaired the node. End the fault and the repair.
        """
        node, at, repair = event.node, event.at, self._repairs.get(event.node)
        if repair is None or repair.number != int(event.length):
            return
        host, step = self._host[node], event.text
        if step == "repair" and repair.action is None:
            self._begin_repair(node, at, repair)
        elif step == "done":
            if repair.action is not RepairAction.REPLACE_NODE and repair.action is not None:
                self.hosts.restarted(host, repair.action, at)
            self._finish(node, at)
        elif step == "operator":
            self.hosts.cured(host)
            self._finish(node, at)

    def _begin_repair(self, node: int, at: float, repair: _Repair) -> None:
        if (again := self._held_until(node, at)) is not None:
            self._push(again, node, "repair")
            return
        action = self._action(node, at, repair.kind)
        if action is None:
            self._call_operator(node, at)
            return
        self.jobs.close(node, at)
        self._evict(node, at)
        if action is not RepairAction.REPLACE_NODE:
            repair.action = action
            self._push(at + self.scenario.physics.restart, node, "done")
        elif (successor := self.hosts.take(at)) is None:
            self.jobs.waited["capacity"] += RETRY / HOUR
            self._push(at + RETRY, node, "repair")
        else:
            repair.action = action
            self._replace(node, successor, at)
            self._push(at + self.scenario.physics.launch, node, "done")

    def _held_until(self, node: int, at: float) -> float | None:
        """Return when to try again to start a repair, or None if it may start: a job or the breaker may hold it."""
        rules = self._rules
        if rules.cordons and self.jobs.runs_on(node):
            return at + MINUTE
        if rules.reset and at < self._open_until:
            return self._open_until
        if len(self._repairs) * 100 <= rules.percent * self.scenario.nodes:
            return None
        self.jobs.waited["breaker"] += RETRY / HOUR
        if not rules.reset:
            return at + RETRY
        self.jobs.counts["pages"] += 1
        self._open_until = at + self.scenario.physics.operator
        return self._open_until

    def _replace(self, node: int, successor: int, at: float) -> None:
        host = self._host[node]
        known = self.hosts.active.get(host)
        self.jobs.counts["replacements"] += 1
        needless = known is None or self.hosts.cure_of(known.fault) is not RepairAction.REPLACE_NODE
        self.jobs.counts["needless_replacements"] += needless
        self.hosts.release(host, at)
        self._host[node] = successor
        self.moved(node, host, successor)

    def _action(self, node: int, at: float, kind: str) -> RepairAction | None:
        rules, host = self._rules, self._host[node]
        recent = [time for time in self._history[host] if time > at - rules.window]
        if rules.give_up and len(recent) > rules.give_up:
            return None
        if rules.removals:
            return RepairAction.REPLACE_NODE if len(recent) >= rules.removals else rules.action
        if rules.by_code:
            catalog_action = self._catalog.classify(symptom(kind)).action
            wanted = REPAIR_ACTION_OF.get(catalog_action) if catalog_action else None
            return RepairAction.REBOOT_NODE if wanted is RepairAction.VERIFY else wanted
        return rules.action

    def _call_operator(self, node: int, at: float) -> None:
        self.jobs.counts["pages"] += 1
        self._push(at + self.hosts.repair_left(self._host[node], at), node, "operator")

    def _finish(self, node: int, at: float) -> None:
        del self._repairs[node]
        host = self._host[node]
        if self.hosts.is_down(host):
            self.report(node, self.hosts.active[host].fault.kind, at)
        else:
            self.jobs.open(node, at)

    def _evict(self, node: int, at: float) -> None:
        self.jobs.evict(node, at, faulty=self._host[node] in self.hosts.active)

    def _push(self, at: float, node: int, step: str) -> None:
        number = self._repairs[node].number
        self.push(Event(at, EventKind.ACTION, node, text=step, length=float(number)))
