"""Fakes of commands on instances: resets and reboots, verifications, log bundles."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from faultbridge.model.enums import ProviderFailure, RepairAction
from faultbridge.model.values import replace
from faultbridge.record.ports.compute import (
    Bundle,
    BundleState,
    CallResult,
    HostOutput,
    Restart,
    RestartState,
    Verdict,
    Verification,
)
from faultbridge.record.ports.table import Clock
from tests.sim.fakes.clock import ManualClock
from tests.sim.fakes.fleet import FailingFake, FakeFleet
from tests.sim.fakes.seam import Seam

PASSED = Verification(Verdict.PASSED, report=b'{"verdict": "passed"}')
OCCUPIED = Verification(Verdict.OCCUPIED, ("process 7 uses a GPU: train",))
CUT_OFF = Verification(Verdict.FAILED, ("nccl-allreduce: peers unreachable",))
DEFAULT_LEVEL = 3
"""The level of a verification for which the policy sets no level, equal to the default of `settings`."""


class FakeRestarter(FailingFake):
    """Implements `Restarter` (fake) on a `FakeFleet`: each token starts one restart of length `duration`.

    `restart` returns failures set with `fail_next` before real answers. `results` maps an instance to the status of its
    restarts after `duration`; the default is DONE. A restart of a terminated instance stays RUNNING. `on_restart` is
    called for each restart, so that a test can repair the instance. With `status_unknown` every status is UNKNOWN.
    """

    def __init__(
        self, fleet: FakeFleet, *, seam: Seam | None = None, duration: timedelta = timedelta(minutes=4)
    ) -> None:
        super().__init__(fleet, seam=seam)
        self.duration = duration
        self.results: dict[str, Restart] = {}
        self.status_unknown = False
        self.restarted: list[tuple[RepairAction, str, str]] = []
        self.on_restart: Callable[[RepairAction, str], None] = lambda repair_action, instance: None
        self._started: dict[tuple[RepairAction, str, str], datetime] = {}

    def restart(self, repair_action: RepairAction, instance_id: str, token: str) -> CallResult:
        """Start a restart of an instance; the same token starts no second restart."""
        with self.seam.around("restarter", "restart", (repair_action, instance_id, token)):
            script = self._next_failure()
            if script is not None and not script.effect:
                return CallResult(script.failure, "scripted")
            if not self.fleet.is_alive(instance_id):
                return CallResult(ProviderFailure.NOT_FOUND, "the agent does not answer")
            operation = self._start(repair_action, instance_id, token)
            return CallResult(script.failure, "scripted") if script else CallResult(operation=operation)

    def status(self, repair_action: RepairAction, instance_id: str, token: str) -> Restart:
        """Return the status of the restart that a token started; ABSENT if the token started no restart."""
        with self.seam.around("restarter", "status", (repair_action, instance_id, token)):
            if self.status_unknown:
                return Restart(RestartState.UNKNOWN, "the agent does not answer")
            started = self._started.get((repair_action, instance_id, token))
            if started is None:
                return Restart(RestartState.ABSENT)
            operation = _operation(repair_action, token)
            if not self.fleet.is_alive(instance_id) or self.fleet.clock.now() < started + self.duration:
                return Restart(RestartState.RUNNING, operation=operation)
            boot = f"boot-{token}" if repair_action is RepairAction.REBOOT_NODE else None
            return self.results.get(instance_id, Restart(RestartState.DONE, operation=operation, boot_id=boot))

    def _start(self, repair_action: RepairAction, instance_id: str, token: str) -> str:
        if (repair_action, instance_id, token) not in self._started:
            self._started[repair_action, instance_id, token] = self.fleet.clock.now()
            self.restarted.append((repair_action, instance_id, token))
            self.on_restart(repair_action, instance_id)
        return _operation(repair_action, token)


def _operation(repair_action: RepairAction, token: str) -> str:
    return f"{repair_action.value}-{token}"


class FakeVerifier:
    """Implements `Verifier` (fake): each token starts one verification, which takes `duration`.

    After `duration`, the result is the first of these that applies:

    - OCCUPIED, at once, if `occupied` returned True for the instance at the start, because work used it. None means
      that this is unknown; then only a verification with `prove_idle` is OCCUPIED.
    - UNKNOWN for a terminated instance, for which `alive` returns False.
    - FAILED for an instance that cannot connect to its peers, for which `cut_off` returns True.
    - The result that `results` contains for the instance. The default is `result`, a passed verification.

    The instances in `silent` do not answer a look at their processes.
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
        self.cut_off: Callable[[str], bool] = lambda _instance: False
        self.occupied: Callable[[str], bool | None] = lambda _instance: False
        self.results: dict[str, Verification] = {}
        self.silent: set[str] = set()
        self.started: dict[str, tuple[str, datetime]] = {}
        self._occupied: set[str] = set()
        self._looked: dict[tuple[str, str], bool | None] = {}
        self._by_token: dict[tuple[str, str], str] = {}

    def start(self, instance_id: str, token: str, level: int | None = None, *, prove_idle: bool = False) -> str:
        """Start a verification and return its operation id; the same token starts no second verification."""
        with self.seam.around("verifier", "start", (instance_id, token, level)):
            operation = self._by_token.setdefault((instance_id, token), f"verify-{len(self._by_token) + 1}")
            occupied = self.occupied(instance_id)
            if operation not in self.started and (prove_idle if occupied is None else occupied):
                self._occupied.add(operation)
            self.started.setdefault(operation, (instance_id, self.clock.now()))
            return operation

    def status(self, instance_id: str, operation: str, level: int | None = None) -> Verification:
        """Return the result of a verification; PENDING until `duration` has passed.

        `operation` is the operation id that `start` returned. The result is UNKNOWN if the instance has no verification
        with this id. `level` is the level of the diagnostics; None means the default level.
        """
        with self.seam.around("verifier", "status", (instance_id, operation)):
            owner, at = self.started.get(operation, ("", self.clock.now()))
            if owner != instance_id:
                return Verification(Verdict.UNKNOWN, ("no such verification",))
            if operation in self._occupied:
                return OCCUPIED
            if self.clock.now() < at + self.duration:
                return Verification(Verdict.PENDING)
            if not self.alive(instance_id):
                return Verification(Verdict.UNKNOWN, ("the command ended as Undeliverable",))
            if self.cut_off(instance_id):
                return replace(CUT_OFF, level=level or DEFAULT_LEVEL)
            return replace(self.results.get(instance_id, self.result), level=level or DEFAULT_LEVEL)

    def processes(self, instance_id: str, token: str) -> Verification:
        """Return whether work used the instance when the token first looked; PENDING on that first call."""
        with self.seam.around("verifier", "processes", (instance_id, token)):
            if (instance_id, token) not in self._looked:
                self._looked[instance_id, token] = self.occupied(instance_id)
                return Verification(Verdict.PENDING)
            if not self.alive(instance_id) or instance_id in self.silent:
                return Verification(Verdict.UNKNOWN, ("the command ended as Undeliverable",))
            occupied = self._looked[instance_id, token]
            if occupied is None:
                return Verification(Verdict.OCCUPIED, ("the processes that use the GPUs cannot be listed",))
            return OCCUPIED if occupied else Verification(Verdict.PASSED)


class FakeCollector:
    """Implements `Collector` (fake): a log bundle is ready after `duration`.

    If `failure_reason` is set, every log bundle fails with this reason. `outputs` returns what can be read on an
    instance now, or None if it does not answer.
    """

    def __init__(
        self, clock: Clock | None = None, *, seam: Seam | None = None, duration: timedelta = timedelta(0)
    ) -> None:
        self.clock = clock or ManualClock()
        self.seam = seam or Seam()
        self.duration = duration
        self.failure_reason = ""
        self.outputs: Callable[[str], HostOutput | None] = lambda _instance: None
        self.read_duration = timedelta(seconds=10)
        self.read_at: dict[tuple[str, str], HostOutput | None] = {}
        self.started: dict[tuple[str, str], datetime] = {}

    def collect(self, instance_id: str, token: str) -> Bundle:
        """Start to collect a log bundle, and return its state and location.

        A later call with the same token starts no second collection.
        """
        with self.seam.around("collector", "collect", (instance_id, token)):
            location = f"s3://bundles/{instance_id}/{token}"
            if self.failure_reason:
                return Bundle(BundleState.FAILED, location, self.failure_reason)
            started = self.started.setdefault((instance_id, token), self.clock.now())
            finished = self.clock.now() >= started + self.duration
            return Bundle(BundleState.KEPT if finished else BundleState.RUNNING, location)

    def read(self, instance_id: str, token: str) -> HostOutput | None:
        """Start to read an instance; after `read_duration`, return what `outputs` contained for it at the start.

        By default, no instance answers, so that the result is empty.
        """
        with self.seam.around("collector", "read", (instance_id, token)):
            if (instance_id, token) not in self.read_at:
                found = self.outputs(instance_id)
                self.read_at[instance_id, token] = found and replace(found, at=self.clock.now())
            found = self.read_at[instance_id, token]
            if found is None or found.at is None:
                return HostOutput()
            return found if self.clock.now() >= found.at + self.read_duration else None
