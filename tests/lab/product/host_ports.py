"""Host ports: the product's compute ports (such as `Provider`), implemented over simulated hosts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from faultbridge.model.cluster.config import CapacitySource
from faultbridge.model.enums import ProviderFailure, RepairAction
from faultbridge.model.values import replace
from faultbridge.record.ports.compute import (
    Bundle,
    BundleState,
    CallResult,
    Capacity,
    CapacityEvidence,
    HostOutput,
    LaunchedInstance,
    Restart,
    RestartState,
    Verdict,
    Verification,
)
from faultbridge.record.ports.presence import InstanceChecks, Presence
from faultbridge.record.ports.table import Clock
from tests.lab.hosts import Hosts
from tests.lab.scenario import BEGIN

INSTANCE_TYPE = "p5.48xlarge"
DEFAULT_LEVEL = 3
RECENT = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Backing:
    """One instance: the number of its host, its launch time, and whether it still runs."""

    host: int
    launched_at: datetime
    alive: bool = True


class HostPorts:
    """Implements `Provider`, `Collector`, and the methods that `HostRestarter` and `HostVerifier` call.

    When an instance is released, its host leaves the fleet, and its group launches a successor on a host of the pool.
    """

    def __init__(self, hosts: Hosts, clock: Clock, begin: datetime = BEGIN) -> None:
        """Start one instance for each node of the fleet."""
        self.hosts = hosts
        self._clock = clock
        self._begin = begin
        before = begin - timedelta(days=1)
        self.instances = {instance_name(n + 1): Backing(n, before) for n in range(hosts.scenario.nodes)}
        self._recent: list[str] = []
        self._restarts: dict[str, tuple[datetime, bool]] = {}
        self._tests: dict[str, tuple[datetime, Verdict]] = {}
        self.launches = self.needless = 0

    def seconds(self, at: datetime | None = None) -> float:
        """Convert a time, by default the current time, to seconds since the start of the scenario."""
        return ((at or self._clock.now()) - self._begin).total_seconds()

    def host_of(self, instance_id: str) -> int:
        """Return the number of the host on which an instance runs or ran."""
        return self.instances[instance_id].host

    # ------------------------------------------------------------------ provider

    def capacity(self, source: CapacitySource, instance_id: str, group: str) -> Capacity:
        """Return the free hosts of the pool for the source `OWN_RESERVATION`; any other source is ABSENT."""
        if source is not CapacitySource.OWN_RESERVATION:
            return Capacity(CapacityEvidence.ABSENT)
        count = self.hosts.free(self.seconds())
        reason = "" if count else "the pool has no host"
        return Capacity(CapacityEvidence.RESERVATION, free=count > 0, reason=reason, count=count)

    def replace(self, instance_id: str, token: str) -> CallResult:
        """Release an instance, and launch its successor on a host of the pool.

        The call fails with CAPACITY if the pool is empty. It does nothing if the instance is already released.
        """
        backing = self.instances[instance_id]
        if not backing.alive:
            return CallResult(operation=token)
        host = self.hosts.take(self.seconds())
        if host is None:
            return CallResult(ProviderFailure.CAPACITY, "the pool has no host")
        self.instances[instance_id] = replace(backing, alive=False)
        known = self.hosts.active.get(backing.host)
        self.needless += known is None or self.hosts.cure_of(known.fault) is not RepairAction.REPLACE_NODE
        self.hosts.release(backing.host, self.seconds())
        self.launches += 1
        successor = instance_name(self.hosts.scenario.hosts + self.launches)
        launched_at = self._clock.now() + timedelta(seconds=self.hosts.scenario.physics.launch)
        self.instances[successor] = Backing(host, launched_at)
        self._recent.append(successor)
        return CallResult(operation=token)

    def probe(self, instance_id: str) -> Presence:
        """Return ALIVE if an instance still runs, else GONE."""
        return Presence.ALIVE if self.instances[instance_id].alive else Presence.GONE

    def checks(self, instance_id: str) -> InstanceChecks:
        """Return checks with unknown results: the lab does not simulate EC2 status checks."""
        return InstanceChecks()

    def impaired(self) -> frozenset[str]:
        """Return none: the lab does not simulate EC2 status checks."""
        return frozenset()

    def candidates(self, group: str, launched_after: datetime) -> tuple[LaunchedInstance, ...]:
        """List the running successors that were launched at or after a time, oldest first.

        Successors that were launched more than a day ago are not listed.
        """
        now = self._clock.now()
        self._recent = [name for name in self._recent if self.instances[name].launched_at > now - RECENT]
        found = [(self.instances[name].launched_at, name) for name in self._recent if self.instances[name].alive]
        return tuple(
            LaunchedInstance(name, at, INSTANCE_TYPE, running=True)
            for at, name in sorted(found)
            if launched_after <= at <= now
        )

    # ------------------------------------------------------------------ restarter

    def restart(self, repair_action: RepairAction, instance_id: str, token: str) -> CallResult:
        """Start a restart; the same token starts no second restart."""
        operation = f"{repair_action.value}-{instance_id}-{token}"
        self._restarts.setdefault(operation, (self._clock.now(), False))
        return CallResult(operation=operation)

    def restart_status(self, repair_action: RepairAction, instance_id: str, token: str) -> Restart:
        """Return the state of a restart.

        The first call after the end of the restart applies the effect of the restart to the host.
        """
        operation = f"{repair_action.value}-{instance_id}-{token}"
        begun = self._restarts.get(operation)
        if begun is None:
            return Restart(RestartState.ABSENT)
        ended = begun[0] + timedelta(seconds=self.hosts.scenario.physics.restart)
        if self._clock.now() < ended:
            return Restart(RestartState.RUNNING, operation=operation)
        if not begun[1]:
            self._restarts[operation] = begun[0], True
            self.hosts.restarted(self.host_of(instance_id), repair_action, self.seconds(ended))
        boot = f"boot-{token}" if repair_action is RepairAction.REBOOT_NODE else None
        return Restart(RestartState.DONE, operation=operation, boot_id=boot)

    # ------------------------------------------------------------------ verifier and collector

    def start(self, instance_id: str, token: str, level: int | None = None) -> str:
        """Start a verification and return its operation id; the same token starts no second verification."""
        operation = f"verify-{instance_id}-{token}"
        self._tests.setdefault(operation, (self._clock.now(), Verdict.PENDING))
        return operation

    def verification(self, instance_id: str, operation: str, level: int | None) -> Verification:
        """Return the result of a verification; PENDING while it runs."""
        begun, verdict = self._tests[operation]
        if self._clock.now() < begun + timedelta(seconds=self.hosts.scenario.physics.verification):
            return Verification(Verdict.PENDING)
        if verdict is Verdict.PENDING:
            verdict = Verdict.PASSED if self.hosts.passes(self.host_of(instance_id)) else Verdict.FAILED
            self._tests[operation] = begun, verdict
        findings = () if verdict is Verdict.PASSED else ("the simulated diagnostics found the fault",)
        return Verification(verdict, findings, level=level or DEFAULT_LEVEL)

    def collect(self, instance_id: str, token: str) -> Bundle:
        """Return a bundle in the state KEPT with an invented address, because the lab collects no logs."""
        return Bundle(BundleState.KEPT, f"lab://{instance_id}/{token}")

    def read(self, instance_id: str, token: str) -> HostOutput:
        """Return an empty result: no host answers."""
        return HostOutput()


@dataclass(frozen=True, slots=True)
class HostRestarter:
    """Implements `Restarter` over simulated hosts, by calls of `HostPorts`."""

    ports: HostPorts

    def restart(self, repair_action: RepairAction, instance_id: str, token: str) -> CallResult:
        """Start a restart of an instance."""
        return self.ports.restart(repair_action, instance_id, token)

    def status(self, repair_action: RepairAction, instance_id: str, token: str) -> Restart:
        """Return the state of a restart of an instance."""
        return self.ports.restart_status(repair_action, instance_id, token)


@dataclass(frozen=True, slots=True)
class HostVerifier:
    """Implements `Verifier` over simulated hosts, by calls of `HostPorts`."""

    ports: HostPorts

    def start(self, instance_id: str, token: str, level: int | None = None, *, prove_idle: bool = False) -> str:
        """Start a verification of an instance; returns its operation id."""
        return self.ports.start(instance_id, token, level)

    def status(self, instance_id: str, operation: str, level: int | None = None) -> Verification:
        """Return the state or the result of a verification of an instance."""
        return self.ports.verification(instance_id, operation, level)

    def processes(self, instance_id: str, token: str) -> Verification:
        """Return that no process uses the GPUs, because the clusters of the lab have an orchestrator."""
        return Verification(Verdict.PASSED)


def instance_name(number: int) -> str:
    """Return the id of the simulated instance with this number, in the format of EC2 instance ids."""
    return f"i-{number:017x}"
