"""Resets and reboots in memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta

from faultbridge.domain.cases import Rung
from faultbridge.ports import Answer, ProviderFailure, Restart, RestartState
from faultbridge.simulation.fakes.fleet import Failure, FakeFleet
from faultbridge.simulation.fakes.seams import Seam


class FakeRestarter:
    """A Restarter (fake) over a fleet: each restart takes `duration` and is done once a token.

    Scripted failures come first; `results` is what the restarts of an instance come to instead of `done`; `on_restart`
    hears of each, so that a test can let it cure what is wrong.
    """

    def __init__(
        self, fleet: FakeFleet, *, seam: Seam | None = None, duration: timedelta = timedelta(minutes=4)
    ) -> None:
        self.fleet = fleet
        self.seam = seam or Seam()
        self.duration = duration
        self.failures: deque[Failure] = deque()
        self.results: dict[str, Restart] = {}
        self.blind = False
        self.restarted: list[tuple[Rung, str, str]] = []
        self.on_restart: Callable[[Rung, str], None] = lambda rung, instance: None
        self._begun: dict[tuple[Rung, str, str], datetime] = {}

    def fail_next(self, failure: ProviderFailure, *, effect: bool = False) -> None:
        """Let the next call to restart fail in this way."""
        self.failures.append(Failure(failure, effect))

    def restart(self, rung: Rung, instance_id: str, token: str) -> Answer:
        """Begin a restart, once a token."""
        with self.seam.around("restarter", "restart", (rung, instance_id, token)):
            script = self.failures.popleft() if self.failures else None
            if script is not None and not script.effect:
                return Answer(script.failure, "scripted")
            if not self._alive(instance_id):
                return Answer(ProviderFailure.NOT_FOUND, "the agent does not answer")
            operation = self._begin(rung, instance_id, token)
            return Answer(script.failure, "scripted") if script else Answer(operation=operation)

    def look(self, rung: Rung, instance_id: str, token: str) -> Restart:
        """Tell how a restart stands."""
        with self.seam.around("restarter", "look", (rung, instance_id, token)):
            if self.blind:
                return Restart(RestartState.UNKNOWN, "nobody answers")
            began = self._begun.get((rung, instance_id, token))
            if began is None:
                return Restart(RestartState.ABSENT)
            operation = _operation(rung, token)
            if not self._alive(instance_id) or self.fleet.clock.now() < began + self.duration:
                return Restart(RestartState.RUNNING, operation=operation)
            boot = f"boot-{token}" if rung is Rung.REBOOT else None
            return self.results.get(instance_id, Restart(RestartState.DONE, operation=operation, boot_id=boot))

    def _begin(self, rung: Rung, instance_id: str, token: str) -> str:
        if (rung, instance_id, token) not in self._begun:
            self._begun[rung, instance_id, token] = self.fleet.clock.now()
            self.restarted.append((rung, instance_id, token))
            self.on_restart(rung, instance_id)
        return _operation(rung, token)

    def _alive(self, instance_id: str) -> bool:
        instance = self.fleet.instances.get(instance_id)
        return instance is not None and instance.alive


def _operation(rung: Rung, token: str) -> str:
    return f"{rung.value}-{token}"
