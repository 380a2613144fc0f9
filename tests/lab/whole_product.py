"""Runs a scenario through the whole product on fakes: real table rows, sweeps each minute, and the same hosts."""

from __future__ import annotations

import heapq
import json
import math
from datetime import datetime, timedelta

from faultbridge.decode.data import load_catalog
from faultbridge.model.cluster.state import BreakerLimit
from faultbridge.model.enums import CaseStatus
from faultbridge.model.faults import Clear, Observation
from faultbridge.model.nodes import NodeState
from faultbridge.model.policy import Limits, Rule
from faultbridge.model.storage import keys
from faultbridge.model.times import truncate
from faultbridge.model.values import replace
from faultbridge.repair.case_orders import OperatorOrder
from tests.builders import NOON
from tests.lab.events import Event, EventKind, events_of
from tests.lab.hosts import Hosts
from tests.lab.product.host_ports import HostPorts, HostRestarter, HostVerifier
from tests.lab.product.product_fleet import ALARM_SOURCE
from tests.lab.scenario import MINUTE, Scenario
from tests.lab.symptoms import symptom
from tests.scenarios.world import ScenarioPorts, World, entry_text

Line = tuple[datetime, str, str]


class WholeProduct(World):
    """The product with simulated hosts behind its compute ports."""

    def __init__(
        self, scenario: Scenario, rules: tuple[Rule, ...], limits: Limits, breakers: tuple[BreakerLimit, ...]
    ) -> None:
        self.hosts = Hosts(scenario)
        super().__init__(nodes=scenario.nodes, rules=rules, limits=limits, breakers=breakers, catalog=load_catalog())
        self.scenario, self.first = scenario, len(self.table.stream)
        self.events = events_of(scenario)
        heapq.heapify(self.events)
        self.escalated: set[str] = set()

    def connect(self, ports: ScenarioPorts) -> None:
        self.host_ports = HostPorts(self.hosts, self.clock, NOON)
        ports.providers, ports.collector = {"ec2-auto-scaling": self.host_ports}, self.host_ports
        ports.restarters, ports.verifiers = (
            {"ssm": HostRestarter(self.host_ports)},
            {"ssm-dcgm": HostVerifier(self.host_ports)},
        )

    def run(self) -> list[Line]:
        """Run to the end; a sweep runs each minute, except while every node is healthy."""
        minute = 0
        while True:
            at = min(self.events[0].at if self.events else math.inf, self.returning())
            if self.at_rest():
                minute = max(minute, math.ceil(at / MINUTE) - 1) if at < math.inf else math.inf
            if min(at, (minute + 1) * MINUTE) >= self.scenario.seconds:
                return self.lines()
            if at <= (minute + 1) * MINUTE:
                self.apply(self.next_event(at))
                self.process_entries()
                continue
            minute += 1
            self.clock.advance_to(NOON + timedelta(minutes=minute))
            self.workflow.expire_tokens()
            swept = self.sweep.run()
            assert not swept.failures
            self.process_entries()
            self.call_operators()

    def returning(self) -> float:
        return self.hosts.reappearing[0][0] if self.hosts.reappearing else math.inf

    def at_rest(self) -> bool:
        """Return whether no sweep can change anything: no timer, no waiting case, and no breaker that could change."""
        if self.guarded:
            return not any(self.node(number + 1).live_case for number in range(self.scenario.nodes))
        states = [self.node(number + 1) for number in range(self.scenario.nodes)]
        waiting = [
            one.live_case for one in states if one.live_case and one.live_case.status is not CaseStatus.ESCALATED
        ]
        return not waiting and all(one.due_at is None for one in states)

    @property
    def guarded(self) -> bool:
        return bool(self.control().breakers)

    def next_event(self, at: float) -> Event:
        if self.events and self.events[0].at == at:
            return heapq.heappop(self.events)
        return Event(at, EventKind.REAPPEAR, host=heapq.heappop(self.hosts.reappearing)[1])

    def apply(self, event: Event) -> None:
        self.clock.advance_to(max(truncate(NOON + timedelta(seconds=event.at)), self.clock.now()))
        number = event.node + 1 if event.host is None else self.number_of(event.host)
        serving = number is not None and self.serves(number)
        if event.kind is EventKind.FAULT and event.fault is not None:
            if self.hosts.begin(event.fault, serving=serving):
                self.see(number, symptom(event.kind_text))
            elif number is not None and event.host in self.hosts.active and not serving:
                self.hosts.hide(event.host, event.at)
        elif event.kind is EventKind.REAPPEAR:
            if self.hosts.reappear(event.host) and number is not None:
                self.see(number, symptom(self.hosts.active[event.host].fault.kind))
        elif event.kind is EventKind.ALARM:
            if serving:
                self.see(number, replace(symptom(event.kind_text), source=ALARM_SOURCE))
                heapq.heappush(self.events, replace(event, at=event.at + event.length, kind=EventKind.ALARM_END))
        elif event.kind is EventKind.ALARM_END:
            ended = symptom(event.kind_text)
            self.see(number, Clear(ALARM_SOURCE, ended.code, ended.component, "gone"))
        elif self.case(number).id == event.case and self.case(number).status is CaseStatus.ESCALATED:
            self.hosts.cured(self.host(self.node(number)))
            self.node_orders.return_node(self.key(number), OperatorOrder("lab"))
        self.process_entries()
        self.call_operators()

    def see(self, number: int, observation: Observation) -> None:
        self._observe(number, observation, "r-1")

    def call_operators(self) -> None:
        """Schedule the repair of each newly escalated case."""
        for number in range(1, self.scenario.nodes + 1):
            state = self.node(number)
            case = state.live_case
            if case is None or case.status is not CaseStatus.ESCALATED:
                self.escalated -= {f"{number}"}
            elif f"{number}" not in self.escalated:
                self.escalated.add(f"{number}")
                now = self.host_ports.seconds(case.marks["escalated"])
                at = now + self.hosts.repair_left(self.host(state), now)
                heapq.heappush(self.events, Event(at, EventKind.OPERATOR, node=number - 1, case=case.id))

    def serves(self, number: int) -> bool:
        state = self.node(number)
        return state.status.in_service and not self.hosts.is_down(self.host(state))

    def host(self, state: NodeState) -> int:
        return self.host_ports.host_of(state.incarnation.instance_id)

    def number_of(self, host: int) -> int | None:
        numbers = range(1, self.scenario.nodes + 1)
        return next((number for number in numbers if self.host(self.node(number)) == host), None)

    def lines(self) -> list[Line]:
        """Return the entries of all nodes since the registration, in the order in which they were written."""
        bodies = [
            json.loads(str(record.new["body"]))
            for record in self.table.stream[self.first :]
            if record.event == "INSERT" and record.key.sk.startswith(keys.ENTRY) and record.new["node"]
        ]
        return [
            (
                datetime.fromisoformat(one["metadata"]["recorded_at"]),
                one["metadata"]["node"],
                entry_text(one["metadata"]["event_type"], one["data"]),
            )
            for one in bodies
        ]
