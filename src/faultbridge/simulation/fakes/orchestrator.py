"""A scheduler in memory: what is cordoned, and where work still runs."""

from __future__ import annotations

from collections import deque
from datetime import datetime

from faultbridge.ports import CallResult, Clock, ClusterNode, ProviderFailure
from faultbridge.simulation.fakes.clock import ManualClock
from faultbridge.simulation.fakes.seams import Seam


class FakeOrchestrator:
    """An Orchestrator (fake). `busy_until` says when a node's work is gone; scripted failures come first.

    Up to `silent_until` it answers nobody.

    It goes by names; `kept_off` has the instances that no work may come to, `absent` the nodes that it does not have.
    """

    def __init__(self, clock: Clock | None = None, *, applicable: bool = True, seam: Seam | None = None) -> None:
        self.clock = clock or ManualClock()
        self.seam = seam or Seam()
        self.cordoned: set[str] = set()
        self.kept_off: set[str | None] = set()
        self.absent: set[str] = set()
        self.busy_until: dict[str, datetime] = {}
        self.silent_until: datetime | None = None
        self.failures: deque[ProviderFailure] = deque()
        self._applicable = applicable

    @property
    def applicable(self) -> bool:
        """Tell whether there is anything to cordon."""
        return self._applicable

    def fail_next(self, *failures: ProviderFailure) -> None:
        """Let the next calls fail in these ways, without effect."""
        self.failures.extend(failures)

    def cordon(self, node: ClusterNode) -> CallResult:
        """Keep work off a node."""
        with self.seam.around("orchestrator", "cordon", node.node):
            answer = self._answer(node)
            if answer.ok and self._applicable:
                self.cordoned.add(node.node)
                self.kept_off.add(node.instance_id)
            return answer

    def uncordon(self, node: ClusterNode) -> CallResult:
        """Let work on a node."""
        with self.seam.around("orchestrator", "uncordon", node.node):
            answer = self._answer(node)
            if answer.ok:
                self.cordoned.discard(node.node)
                self.kept_off.discard(node.instance_id)
            return answer

    def drain(self, node: ClusterNode, deadline: datetime) -> CallResult:
        """Ask work to leave."""
        with self.seam.around("orchestrator", "drain", node.node):
            answer = self._answer(node)
            if answer.failure is ProviderFailure.NOT_FOUND and node.node in self.absent:
                return CallResult(reason="not a node of the cluster: nothing runs there")
            if answer.ok and self._applicable and self._busy(node.node):
                return CallResult(ProviderFailure.TIMEOUT, "work is still running")
            return answer

    def _busy(self, node: str) -> bool:
        until = self.busy_until.get(node)
        return until is not None and self.clock.now() < until

    def _answer(self, node: ClusterNode) -> CallResult:
        if self.failures:
            failure = self.failures.popleft()
            return CallResult(failure, "scripted", no_response=failure is ProviderFailure.TIMEOUT)
        if self.silent_until is not None and self.clock.now() < self.silent_until:
            return CallResult(ProviderFailure.TIMEOUT, "no answer", no_response=True)
        if self._applicable and node.node in self.absent:
            return CallResult(ProviderFailure.NOT_FOUND, "not a node of the cluster")
        return CallResult(reason="" if self._applicable else "not applicable: the cluster has no orchestrator")
