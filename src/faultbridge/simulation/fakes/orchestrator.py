"""A scheduler in memory: what is cordoned, and where work still runs."""

from __future__ import annotations

from collections import deque
from datetime import datetime

from faultbridge.ports import Answer, Clock, ProviderFailure
from faultbridge.simulation.fakes.clock import ManualClock
from faultbridge.simulation.fakes.seams import Seam


class FakeOrchestrator:
    """An Orchestrator (fake). `busy_until` says when a node's work is gone; scripted failures come first."""

    def __init__(self, clock: Clock | None = None, *, applicable: bool = True, seam: Seam | None = None) -> None:
        self.clock = clock or ManualClock()
        self.seam = seam or Seam()
        self.cordoned: set[str] = set()
        self.busy_until: dict[str, datetime] = {}
        self.failures: deque[ProviderFailure] = deque()
        self._applicable = applicable

    @property
    def applicable(self) -> bool:
        """Tell whether there is anything to cordon."""
        return self._applicable

    def fail_next(self, *failures: ProviderFailure) -> None:
        """Let the next calls fail in these ways, without effect."""
        self.failures.extend(failures)

    def cordon(self, node: str) -> Answer:
        """Keep work off a node."""
        with self.seam.around("orchestrator", "cordon", node):
            answer = self._answer()
            if answer.ok and self._applicable:
                self.cordoned.add(node)
            return answer

    def uncordon(self, node: str) -> Answer:
        """Let work on a node."""
        with self.seam.around("orchestrator", "uncordon", node):
            answer = self._answer()
            if answer.ok:
                self.cordoned.discard(node)
            return answer

    def drain(self, node: str, deadline: datetime) -> Answer:
        """Ask work to leave."""
        with self.seam.around("orchestrator", "drain", node):
            answer = self._answer()
            if answer.ok and self._applicable and self._busy(node):
                return Answer(ProviderFailure.TIMEOUT, "work is still running")
            return answer

    def _busy(self, node: str) -> bool:
        until = self.busy_until.get(node)
        return until is not None and self.clock.now() < until

    def _answer(self) -> Answer:
        if self.failures:
            return Answer(self.failures.popleft(), "scripted")
        return Answer(reason="" if self._applicable else "not applicable: the cluster has no orchestrator")
