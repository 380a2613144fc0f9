"""Runs a scenario through the whole product on fakes: real table rows, sweeps each minute, and the same hosts."""

from __future__ import annotations

import json
import math
from datetime import datetime, timedelta
from functools import partial

from faultbridge.model.cluster.state import BreakerLimit
from faultbridge.model.enums import Actor, CaseStatus
from faultbridge.model.policy import Limits, Rule
from faultbridge.model.storage import keys
from faultbridge.model.times import truncate
from faultbridge.repair.case_orders import OperatorOrder
from tests.builders import NOON
from tests.lab.fleet import Event, EventKind, Fleet
from tests.lab.jobs import MINUTE
from tests.lab.product.host_ports import HostPorts, HostRestarter, HostVerifier
from tests.lab.product.orchestrator import FleetOrchestrator
from tests.lab.product.product_fleet import ended, let_drain, reported
from tests.lab.scenario import Scenario
from tests.lab.symptoms import lab_catalog
from tests.scenarios.world import ScenarioPorts, World, entry_text

Line = tuple[datetime, str, str]


class WholeProduct(World, Fleet):
    """The product with simulated hosts and jobs behind its ports."""

    def __init__(
        self, scenario: Scenario, rules: tuple[Rule, ...], limits: Limits, breakers: tuple[BreakerLimit, ...]
    ) -> None:
        Fleet.__init__(self, scenario)
        catalog, nodes = lab_catalog(), scenario.nodes
        World.__init__(self, nodes=nodes, rules=rules, limits=limits, breakers=breakers, catalog=catalog)
        self.first = len(self.table.stream)
        self.escalated: set[str] = set()

    def connect(self, ports: ScenarioPorts) -> None:
        self.host_ports = HostPorts(self.hosts, self.clock, NOON)
        self.scheduler = FleetOrchestrator(self, self.host_ports.seconds)
        ports.orchestrators = {"none": self.scheduler}
        ports.providers, ports.collector = {"ec2-auto-scaling": self.host_ports}, self.host_ports
        ports.restarters, ports.verifiers = (
            {"ssm": HostRestarter(self.host_ports)},
            {"ssm-dcgm": HostVerifier(self.host_ports)},
        )

    def run(self) -> list[Line]:
        """Run to the end; a sweep runs each minute, except while every node is healthy."""
        minute = 0
        while True:
            at = self.next_event()
            if self.at_rest():
                minute = max(minute, math.ceil(at / MINUTE) - 1) if at < math.inf else math.inf
            if min(at, (minute + 1) * MINUTE) >= self.scenario.seconds:
                return self.lines()
            if at <= (minute + 1) * MINUTE:
                event = self.pop_event()
                self.clock.advance_to(max(truncate(NOON + timedelta(seconds=event.at)), self.clock.now()))
                self.apply(event)
                self.process_entries()
                self.call_operators()
                continue
            minute += 1
            self.clock.advance_to(NOON + timedelta(minutes=minute))
            self.workflow.expire_tokens()
            swept = self.sweep.run()
            assert not swept.failures
            self.process_entries()
            self.call_operators()

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

    def report(self, node: int, kind: str, at: float) -> None:
        self._observe(node + 1, reported(kind), "r-1")

    def end_report(self, node: int, kind: str, at: float) -> None:
        if (found := ended(kind, self.catalog)) is not None:
            self._observe(node + 1, found, "r-1")

    def step(self, event: Event) -> None:
        state = self.node(event.node + 1)
        case = self.case(event.node + 1) if event.kind is EventKind.OPERATOR else None
        if event.kind is EventKind.SAVED:
            self.append(state.key, partial(let_drain, self.catalog), actor=Actor.SWEEP)
            self.isolate.isolate(state.key)
        elif case is not None and case.id == event.text and case.status is CaseStatus.ESCALATED:
            self.hosts.cured(self.host_of(event.node))
            self.node_orders.return_node(state.key, OperatorOrder("lab"))
            self.scheduler.reopen(event.node)

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
                at = now + self.hosts.repair_left(self.host_of(number - 1), now)
                self.push(Event(at, EventKind.OPERATOR, number - 1, text=case.id))

    def in_service(self, node: int) -> bool:
        return self.node(node + 1).status.in_service

    def host_of(self, node: int) -> int:
        return self.host_ports.host_of(self.node(node + 1).incarnation.instance_id)

    def node_on(self, host: int) -> int | None:
        return next((node for node in range(self.scenario.nodes) if self.host_of(node) == host), None)

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
