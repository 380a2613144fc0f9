"""Orchestrator: cordons and drains the simulated nodes, and asks the jobs of cordoned nodes for checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from faultbridge.model.enums import ProviderFailure
from faultbridge.record.ports.compute import CallResult
from faultbridge.record.ports.orchestrator import ClusterNode
from faultbridge.record.ports.presence import CheckResult
from tests.lab.fleet import Event, EventKind, Fleet
from tests.lab.product.node_store import node_number


class FleetOrchestrator:
    """Implements `Orchestrator` over the jobs of a fleet; `seconds` returns the time in the scenario."""

    applicable = True

    def __init__(self, fleet: Fleet, seconds: Callable[[], float]) -> None:
        """Start with no cordoned node."""
        self._fleet, self._seconds = fleet, seconds
        self.cordoned: set[int] = set()

    def cordon(self, node: ClusterNode) -> CallResult:
        """Keep new work off a node, and ask the job that runs there for a checkpoint."""
        number, at = node_number(node), self._seconds()
        if number not in self.cordoned:
            self.cordoned.add(number)
            self._fleet.jobs.close(number, at)
            answers = self._fleet.jobs.request_save(number, at)
            if answers is not None:
                self._fleet.push(Event(answers, EventKind.SAVED, number))
        return CallResult()

    def discourage(self, node: ClusterNode) -> CallResult:
        """Do nothing: the jobs of a fleet have no preference."""
        return CallResult()

    def uncordon(self, node: ClusterNode) -> CallResult:
        """Let a node take new work, as soon as its host has no visible fault."""
        number = node_number(node)
        self.cordoned.discard(number)
        self.reopen(number)
        return CallResult()

    def drain(self, node: ClusterNode, deadline: datetime) -> CallResult:
        """Evict the work of a node; this takes no time."""
        number = node_number(node)
        self._fleet.jobs.close(number, self._seconds())
        self.evict(number)
        return CallResult()

    def idle(self, node: ClusterNode) -> CallResult:
        """Return TIMEOUT while a job has the node."""
        busy = self._fleet.jobs.runs_on(node_number(node))
        return CallResult(ProviderFailure.TIMEOUT, "work is still running") if busy else CallResult()

    def readiness(self, node: ClusterNode) -> CheckResult:
        """Return PASSED: nodes of the lab are always ready."""
        return CheckResult.PASSED

    def evict(self, number: int) -> None:
        """Take a node from its job."""
        faulty = self._fleet.host_of(number) in self._fleet.hosts.active
        self._fleet.jobs.evict(number, self._seconds(), faulty=faulty)

    def reopen(self, number: int) -> None:
        """Let a node take new work unless it is cordoned or its host has a visible fault."""
        if number not in self.cordoned and not self._fleet.hosts.is_down(self._fleet.host_of(number)):
            self._fleet.jobs.open(number, self._seconds())
