"""Product fleet: runs months of a simulated fleet through the product's own code, event by event.

The fleet calls the product's observe, tick, isolation, admission, breaker rule and repair steps. Only the table, the
writer of nodes and AWS are replaced. A sweep runs at each whole minute at which a timer is due, a case has waited long
enough for an incident, or admission or a breaker may decide differently. At any other minute it would change nothing.

Not simulated: incidents of failure domains (traces name none), and answers to approval requests.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial

from faultbridge.decide.fold.changes import Arrival
from faultbridge.decide.observe import observe, tick
from faultbridge.decide.work import permit_drain
from faultbridge.model.catalog import Catalog, Kind
from faultbridge.model.entries import Draft, Transition
from faultbridge.model.enums import Actor, CaseStatus
from faultbridge.model.faults import Clear, Fault, Observation
from faultbridge.model.nodes import NodeKey, NodeState
from faultbridge.model.policy import Policy
from faultbridge.model.times import truncate
from faultbridge.model.values import replace
from faultbridge.repair.attempt.step_runner import recover_attempt
from faultbridge.repair.case_orders import OperatorOrder
from tests.lab.fleet import Event, EventKind, Fleet
from tests.lab.jobs import MINUTE, Jobs
from tests.lab.product.cluster_view import ClusterView
from tests.lab.product.fleet_services import CLUSTER, STACK_ID, fleet_services
from tests.lab.product.host_ports import HostPorts, instance_name
from tests.lab.product.node_store import node_key, node_number, serving_node
from tests.lab.product.orchestrator import FleetOrchestrator
from tests.lab.scenario import ALARM_KINDS, BEGIN, Scenario
from tests.lab.symptoms import symptom
from tests.sim.fakes import ManualClock

Observer = Callable[[datetime, NodeState, tuple[Draft, ...]], None]
ALARM_SOURCE = "lab-alarm"


class ProductFleet(Fleet):
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
        super().__init__(scenario)
        self.clock = ManualClock(begin)
        self.ports = HostPorts(self.hosts, self.clock, begin)
        self.orchestrator = FleetOrchestrator(self, self.ports.seconds)
        self._observer, self._begin, self._changed = observer, begin, set[NodeKey]()
        self.services = fleet_services(
            policy, scenario.nodes, self.clock, self.ports, self.orchestrator, self._committed, stack_id
        )
        self.view = ClusterView(self.services, self.jobs)
        for number in range(scenario.nodes):
            state = serving_node(node_key(CLUSTER, number), instance_name(number + 1), begin - timedelta(days=1))
            self.services.store.states[state.key] = state
        self._swept = 0

    def run(self) -> Jobs:
        """Run the scenario to its end and return what the jobs lost."""
        while (at := min(self.next_event(), self._next_sweep() * MINUTE)) < self.scenario.seconds:
            self.advance(at)
        self.jobs.counts["replacements"] = self.ports.launches
        self.jobs.counts["needless_replacements"] = self.ports.needless
        self.view.end(self.scenario.seconds)
        self.jobs.finish(self.scenario.seconds)
        return self.jobs

    def advance(self, at: float) -> None:
        """Carry out the next event or sweep, due at the time `at` in seconds, and let the product react to it."""
        if self.next_event() <= at:
            event = self.pop_event()
            self.clock.advance_to(max(truncate(self._begin + timedelta(seconds=event.at)), self.clock.now()))
            self.apply(event)
        else:
            self._sweep(round(at / MINUTE))
        self._react()

    def _next_sweep(self) -> float:
        due = self.view.next_due()
        if due is None:
            return math.inf
        return max(math.ceil((due - self._begin) / timedelta(minutes=1)), self._swept + 1)

    # ------------------------------------------------------------------ events

    def host_of(self, node: int) -> int:
        """Return the number of the host that backs a node."""
        return self._host_of(self._state(node))

    def in_service(self, node: int) -> bool:
        """Return whether the product has the node in service."""
        status = self._state(node).status
        return status is not None and status.in_service

    def report(self, node: int, kind: str, at: float) -> None:
        """Let the product observe a fault."""
        self._observe(node, reported(kind))

    def end_report(self, node: int, kind: str, at: float) -> None:
        """Let the product observe that a state is over; the source of an event does not report its end."""
        if (found := ended(kind, self.services.catalog)) is not None:
            self._observe(node, found)

    def step(self, event: Event) -> None:
        """Let an operator repair a node, or let a job answer that it saved a checkpoint."""
        state = self._state(event.node)
        case = state.live_case
        if event.kind is EventKind.SAVED:
            self.services.store(state.key, partial(let_drain, self.services.catalog), actor=Actor.SWEEP)
            self.view.isolated(state.key, self.services.isolate.isolate(state.key))
        elif case is not None and case.id == event.text and case.status is CaseStatus.ESCALATED:
            self.hosts.cured(self._host_of(state))
            self.services.orders.return_node(state.key, OperatorOrder("lab"))
            self.orchestrator.reopen(event.node)

    def _observe(self, node: int, observation: Observation) -> None:
        at, services = self.clock.now(), self.services

        def revise(state: NodeState, now: datetime) -> Transition:
            seen = [Arrival(observation, at, "r-1")]
            passed = observe(state, seen, rules=services.rules, catalog=services.catalog, now=now)
            return Transition(passed.state, passed.drafts)

        services.store(node_key(CLUSTER, node), revise, actor=Actor.INGEST)

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
            self.moved(node_number(after.key), self._host_of(before), self._host_of(after))
        if self.view.triggers(drafts):
            self._changed.add(after.key)
        case, old = after.live_case, before.live_case
        if case is not None and case.status is CaseStatus.ESCALATED and (old is None or old.status is not case.status):
            at = self.ports.seconds() + self.hosts.repair_left(self._host_of(after), self.ports.seconds())
            self.push(Event(at, EventKind.OPERATOR, node_number(after.key), text=case.id))
        if self._observer is not None:
            self._observer(self.clock.now(), after, drafts)

    def _state(self, node: int) -> NodeState:
        return self.services.store.read(node_key(CLUSTER, node))

    def _host_of(self, state: NodeState) -> int:
        if state.incarnation is None or state.incarnation.instance_id is None:
            raise AssertionError
        return self.ports.host_of(state.incarnation.instance_id)


def reported(kind: str) -> Observation:
    """Return what a monitor reports for a fault of the trace, a precursor or a false alarm."""
    found = symptom(kind)
    return replace(found, source=ALARM_SOURCE) if kind in ALARM_KINDS else found


def ended(kind: str, catalog: Catalog) -> Observation | None:
    """Return what a monitor reports when the state that it reported is over; None for an event."""
    found = reported(kind)
    if not isinstance(found, Fault) or catalog.row(found.code).kind is Kind.EDGE:
        return None
    return Clear(found.source, found.code, found.component, "gone")


def let_drain(catalog: Catalog, state: NodeState, _: datetime) -> Transition:
    """Return the change of a node whose job answered that it saved a checkpoint."""
    return Transition(permit_drain(state, catalog))
