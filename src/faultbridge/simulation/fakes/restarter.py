"""Resets and reboots in memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta

from faultbridge.domain.cases import RepairAction
from faultbridge.ports import CallResult, ProviderFailure, Restart, RestartState
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
        self.restarted: list[tuple[RepairAction, str, str]] = []
        self.on_restart: Callable[[RepairAction, str], None] = lambda repair_action, instance: None
        self._begun: dict[tuple[RepairAction, str, str], datetime] = {}

    def fail_next(self, failure: ProviderFailure, *, effect: bool = False) -> None:
        """Let the next call to restart fail in this way."""
        self.failures.append(Failure(failure, effect))

    def restart(self, repair_action: RepairAction, instance_id: str, token: str) -> CallResult:
        """Begin a restart, once a token."""
        with self.seam.around("restarter", "restart", (repair_action, instance_id, token)):
            script = self.failures.popleft() if self.failures else None
            if script is not None and not script.effect:
                return CallResult(script.failure, "scripted")
            if not self._alive(instance_id):
                return CallResult(ProviderFailure.NOT_FOUND, "the agent does not answer")
            operation = self._begin(repair_action, instance_id, token)
            return CallResult(script.failure, "scripted") if script else CallResult(operation=operation)

    def status(self, repair_action: RepairAction, instance_id: str, token: str) -> Restart:
        """Tell how a restart stands."""
        with self.seam.around("restarter", "status", (repair_action, instance_id, token)):
            if self.blind:
                return Restart(RestartState.UNKNOWN, "nobody answers")
            began = self._begun.get((repair_action, instance_id, token))
            if began is None:
                return Restart(RestartState.ABSENT)
            operation = _operation(repair_action, token)
            if not self._alive(instance_id) or self.fleet.clock.now() < began + self.duration:
                return Restart(RestartState.RUNNING, operation=operation)
            boot = f"boot-{token}" if repair_action is RepairAction.REBOOT_NODE else None
            return self.results.get(instance_id, Restart(RestartState.DONE, operation=operation, boot_id=boot))

    def _begin(self, repair_action: RepairAction, instance_id: str, token: str) -> str:
        if (repair_action, instance_id, token) not in self._begun:
            self._begun[repair_action, instance_id, token] = self.fleet.clock.now()
            self.restarted.append((repair_action, instance_id, token))
            self.on_restart(repair_action, instance_id)
        return _operation(repair_action, token)

    def _alive(self, instance_id: str) -> bool:
        instance = self.fleet.instances.get(instance_id)
        return instance is not None and instance.alive


def _operation(repair_action: RepairAction, token: str) -> str:
    return f"{repair_action.value}-{token}"
