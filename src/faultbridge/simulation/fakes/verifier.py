"""A verifier in memory."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from faultbridge.ports import Clock, Verdict, Verification
from faultbridge.simulation.fakes.clock import ManualClock
from faultbridge.simulation.fakes.seams import Seam

PASSED = Verification(Verdict.PASSED, report=b'{"verdict": "passed"}')


class FakeVerifier:
    """A Verifier (fake): each verification takes `duration`, then comes to its instance's result (passed).

    `results` sets the result of an instance; the same token never starts a second verification. What is no longer there
    (`alive` tells) leaves no result.
    """

    def __init__(
        self,
        clock: Clock | None = None,
        *,
        seam: Seam | None = None,
        duration: timedelta = timedelta(minutes=1),
        result: Verification = PASSED,
        alive: Callable[[str], bool] = lambda _instance: True,
    ) -> None:
        self.clock = clock or ManualClock()
        self.seam = seam or Seam()
        self.duration = duration
        self.result = result
        self.alive = alive
        self.results: dict[str, Verification] = {}
        self.begun: dict[str, tuple[str, datetime]] = {}
        self._by_token: dict[tuple[str, str], str] = {}

    def start(self, instance_id: str, token: str, level: int | None = None) -> str:
        """Begin a verification, once a token."""
        with self.seam.around("verifier", "start", (instance_id, token, level)):
            operation = self._by_token.setdefault((instance_id, token), f"verify-{len(self._by_token) + 1}")
            self.begun.setdefault(operation, (instance_id, self.clock.now()))
            return operation

    def status(self, instance_id: str, operation: str, level: int | None = None) -> Verification:
        """Tell how a verification stands."""
        with self.seam.around("verifier", "status", (instance_id, operation)):
            owner, at = self.begun.get(operation, ("", self.clock.now()))
            if owner != instance_id:
                return Verification(Verdict.UNKNOWN, ("no such verification",))
            if self.clock.now() < at + self.duration:
                return Verification(Verdict.PENDING)
            if not self.alive(instance_id):
                return Verification(Verdict.UNKNOWN, ("the command ended as Undeliverable",))
            return self.results.get(instance_id, self.result)
