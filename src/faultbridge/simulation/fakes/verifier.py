"""A verifier in memory."""

from __future__ import annotations

from datetime import datetime, timedelta

from faultbridge.ports import Clock, Verdict, Verification
from faultbridge.simulation.fakes.clock import ManualClock
from faultbridge.simulation.fakes.seams import Seam

PASSED = Verification(Verdict.PASSED, report=b'{"verdict": "passed"}')


class FakeVerifier:
    """A Verifier (fake): each verification takes `duration`, then comes to its instance's result (passed).

    `results` sets the result of an instance; the same token never starts a second verification.
    """

    def __init__(
        self,
        clock: Clock | None = None,
        *,
        seam: Seam | None = None,
        duration: timedelta = timedelta(minutes=1),
        result: Verification = PASSED,
    ) -> None:
        self.clock = clock or ManualClock()
        self.seam = seam or Seam()
        self.duration = duration
        self.result = result
        self.results: dict[str, Verification] = {}
        self.begun: dict[str, tuple[str, datetime]] = {}
        self._by_token: dict[tuple[str, str], str] = {}

    def begin(self, instance_id: str, token: str, level: int | None = None) -> str:
        """Begin a verification, once a token."""
        with self.seam.around("verifier", "begin", (instance_id, token, level)):
            operation = self._by_token.setdefault((instance_id, token), f"verify-{len(self._by_token) + 1}")
            self.begun.setdefault(operation, (instance_id, self.clock.now()))
            return operation

    def look(self, instance_id: str, operation: str, level: int | None = None) -> Verification:
        """Tell how a verification stands."""
        with self.seam.around("verifier", "look", (instance_id, operation)):
            owner, at = self.begun.get(operation, ("", self.clock.now()))
            if owner != instance_id:
                return Verification(Verdict.UNKNOWN, ("no such verification",))
            if self.clock.now() < at + self.duration:
                return Verification(Verdict.PENDING)
            return self.results.get(instance_id, self.result)
