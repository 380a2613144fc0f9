"""Product fleet: runs months of a simulated fleet through the product's own code, event by event.

The fleet calls the product's observe, tick, isolation, admission, breaker rule and repair steps. Only the table, the
writer of nodes and AWS are replaced. A sweep runs at each whole minute at which a timer is due, a case has waited long
enough for an incident, or admission or a breaker may decide differently. At any other minute it would change nothing.

Not simulated: incidents of failure domains (traces name none), answers to approval requests, and orchestrators.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from datetime import datetime, timedelta

from faultbridge.decide.fold.changes import Arrival
from faultbridge.decide.observe import observe, tick
from faultbridge.model.entries import Draft, Transition
from faultbridge.model.enums import Actor, CaseStatus
from faultbridge.model.faults import Clear, Observation
from faultbridge.model.nodes import NodeKey, NodeState
from faultbridge.model.policy import Policy
from faultbridge.model.times import truncate
from faultbridge.model.values import replace
from faultbridge.repair.attempt.recovery import recover_attempt
from faultbridge.repair.case_orders import OperatorOrder
from tests.lab.events import Event, EventKind, events_of
from tests.lab.fleet_log import FleetLog
from tests.lab.hosts import Hosts
from tests.lab.product.cluster_view import ClusterView
from tests.lab.product.fleet_services import CLUSTER, STACK_ID, fleet_services
from tests.lab.product.host_ports import HostPorts, instance_name
from tests.lab.product.node_store import node_key, node_number, serving_node
from tests.lab.product.probes import skip_probes
from tests.lab.scenario import BEGIN, MINUTE, Scenario
from tests.lab.symptoms import symptom
from tests.sim.fakes import ManualClock

Observer = Callable[[datetime, NodeState, tuple[Draft, ...]], None]
ALARM_SOURCE = "lab-alarm"


class ProductFleet:
    """One run of a scenario under a policy; `observer` gets time, node state and entries of each commit."""

    def __init__(
        self,
        scenario: Scenario,
        policy: Policy,
        *,
        observer: Observer | None = None,
        begin: datetime = BEGIN,
        stack_id: str = STACK_ID,
    ) -> None:
        """Start the fleet at `begin` with all nodes in service; `stack_id` is the simulated installation."""
        self.scenario, self.hosts, self.log = scenario, Hosts(scenario), FleetLog()
        self.clock = ManualClock(begin)
        self.ports = HostPorts(self.hosts, self.clock, begin)
        self._observer, self._begin, self._changed = observer, begin, set[NodeKey]()
        self.services = fleet_services(policy, scenario.nodes, self.clock, self.ports, self._committed, stack_id)
        self.view = ClusterView(self.services, self.log)
        self._node_of = {host: node_key(CLUSTER, host) for host in range(scenario.nodes)}
        for host, key in self._node_of.items():
            state = serving_node(key, instance_name(host + 1), begin - timedelta(days=1))
            self.services.store.states[key] = state
        self._events = events_of(scenario)
        heapq.heapify(self._events)
        self._swept = 0

    def run(self, progress: Callable[[float], None] = lambda _: None) -> FleetLog:
        """Run the scenario to its end and return the fleet's log; `progress` gets the share that is done."""
        reported = 0.0
        while True:
            at = min(self._next_event(), self._next_sweep() * MINUTE)
            if at >= self.scenario.seconds:
                break
            self.advance(at)
            if at / self.scenario.seconds >= reported + 0.01:
                reported = at / self.scenario.seconds
                progress(reported)
        self.log.counts["replacements"] = self.ports.launches
        self.log.counts["needless_replacements"] = self.ports.needless
        self.view.end(self.scenario.seconds)
        progress(1.0)
        return self.log

    def advance(self, at: float) -> None:
        """Carry out the next event or sweep, due at the time `at` in seconds, and let the product react to it."""
        if self._next_event() <= at:
            self._apply(self._pop_event())
        else:
            self._sweep(round(at / MINUTE))
        self._react()

    # ------------------------------------------------------------------ time

    def _next_event(self) -> float:
        events, returning = self._events, self.hosts.reappearing
        return min(events[0].at if events else math.inf, returning[0][0] if returning else math.inf)

    def _pop_event(self) -> Event:
        at = self._next_event()
        if self._events and self._events[0].at == at:
            return heapq.heappop(self._events)
        return Event(at, EventKind.REAPPEAR, host=heapq.heappop(self.hosts.reappearing)[1])

    def _next_sweep(self) -> float:
        due = self.view.next_due()
        if due is None:
            return math.inf
        return max(math.ceil((due - self._begin) / timedelta(minutes=1)), self._swept + 1)

    # ------------------------------------------------------------------ events

    def _apply(self, event: Event) -> None:
        self.clock.advance_to(max(truncate(self._begin + timedelta(seconds=event.at)), self.clock.now()))
        key = self._node_of.get(event.host) if event.host is not None else node_key(CLUSTER, event.node)
        match event.kind:
            case EventKind.FAULT if event.fault is not None:
                serving = key is not None and self._serves(key)
                if self.hosts.begin(event.fault, serving=serving) and key is not None:
                    self._report(key, event)
                elif key is not None and event.fault.host in self.hosts.active and not serving:
                    self.hosts.hide(event.fault.host, event.at)
            case EventKind.REAPPEAR if event.host is not None and self.hosts.reappear(event.host) and key is not None:
                kind = self.hosts.active[event.host].fault.kind
                self._report(key, replace(event, kind_text=kind))
            case EventKind.ALARM if key is not None and self._serves(key):
                self._observe(key, replace(symptom(event.kind_text), source=ALARM_SOURCE))
                heapq.heappush(self._events, replace(event, at=event.at + event.length, kind=EventKind.ALARM_END))
            case EventKind.ALARM_END if key is not None:
                ended = symptom(event.kind_text)
                self._observe(key, Clear(ALARM_SOURCE, ended.code, ended.component, "gone"))
            case EventKind.OPERATOR if key is not None:
                self._operate(key, event.case)
            case _:
                pass

    def _report(self, key: NodeKey, event: Event) -> None:
        self._observe(key, symptom(event.kind_text))
        self._record_serving(self.services.store.read(key))

    def _observe(self, key: NodeKey, observation: Observation) -> None:
        at, services = self.clock.now(), self.services

        def revise(state: NodeState, now: datetime) -> Transition:
            seen = [Arrival(observation, at, "r-1")]
            passed = observe(state, seen, rules=services.rules, catalog=services.catalog, now=now)
            return Transition(passed.state, passed.drafts)

        services.store(key, revise, actor=Actor.INGEST)

    def _operate(self, key: NodeKey, case_id: str) -> None:
        state = self.services.store.read(key)
        case = state.live_case
        if case is not None and case.id == case_id and case.status is CaseStatus.ESCALATED:
            self.hosts.cured(self._host_of(state))
            self.services.orders.return_node(key, OperatorOrder("lab"))

    # ------------------------------------------------------------------ product

    def _sweep(self, minute: int) -> None:
        self._swept = minute
        self.clock.advance_to(self._begin + timedelta(minutes=minute))
        now, services = self.clock.now(), self.services
        services.workflow.expire_tokens()
        for state in self.view.due(now):
            current = services.store.read(state.key)
            if current.due_at is None or current.due_at > now:
                continue
            skipped = skip_probes(current, self.ports.ready_at, now, self._begin)
            if skipped is not None:
                services.store.store(current, Transition(skipped), Actor.SWEEP)
            else:
                services.store(state.key, self._tick, actor=Actor.SWEEP)
                recover_attempt(services.step_runner, state.key)
        self._escalate()
        self.view.update_breakers(now)
        for key in self.view.to_isolate():
            self.view.isolated(key, services.isolate.isolate(key))
        self._dispatch()

    def _tick(self, state: NodeState, now: datetime) -> Transition:
        passed = tick(state, rules=self.services.rules, now=now)
        return Transition(passed.state, passed.drafts)

    def _escalate(self) -> None:
        for key in self.view.to_escalate(self.clock.now()):
            self.services.escalate_alone(key)

    def _react(self) -> None:
        while self._changed:
            changed, self._changed = self._changed, set()
            self._escalate()
            self.view.update_breakers(self.clock.now())
            for key in self.view.in_order(changed):
                self.view.isolated(key, self.services.isolate.isolate(key))
            self._dispatch()

    def _dispatch(self) -> None:
        if self.view.dispatch_may_change(self.clock.now()):
            self.view.begin_dispatch()
            self.services.dispatch.admit_cases(CLUSTER)
            self.view.dispatched(self.clock.now())

    def _committed(self, before: NodeState, after: NodeState, drafts: tuple[Draft, ...]) -> None:
        self.view.update(before, after, drafts, self.ports.seconds())
        if before.incarnation is not after.incarnation:
            self._move_instance(before, after)
        if before.status is not after.status:
            self._record_serving(after)
        if self.view.triggers(drafts):
            self._changed.add(after.key)
        case, old = after.live_case, before.live_case
        if case is not None and case.status is CaseStatus.ESCALATED and (old is None or old.status is not case.status):
            at = self.ports.seconds() + self.hosts.repair_left(self._host_of(after), self.ports.seconds())
            heapq.heappush(self._events, Event(at, EventKind.OPERATOR, node=node_number(after.key), case=case.id))
        if self._observer is not None:
            self._observer(self.clock.now(), after, drafts)

    def _move_instance(self, before: NodeState, after: NodeState) -> None:
        old = self._host_of(before)
        if self._node_of.get(old) == before.key:
            del self._node_of[old]
        self._node_of[self._host_of(after)] = after.key

    def _record_serving(self, state: NodeState) -> None:
        host = self._host_of(state)
        in_service = state.status is not None and state.status.in_service
        serving = in_service and not self.hosts.is_down(host)
        faulty = host in self.hosts.active
        self.log.update(node_number(state.key), self.ports.seconds(), serving=serving, faulty=faulty)

    def _serves(self, key: NodeKey) -> bool:
        state = self.services.store.read(key)
        return state.status is not None and state.status.in_service and not self.hosts.is_down(self._host_of(state))

    def _host_of(self, state: NodeState) -> int:
        if state.incarnation is None or state.incarnation.instance_id is None:
            raise AssertionError
        return self.ports.host_of(state.incarnation.instance_id)
