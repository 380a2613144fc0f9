"""Ports that replace, launch, reset and reboot instances."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Protocol

from msgspec import Struct

from faultbridge.model.cluster.config import CapacitySource, ClusterConfig
from faultbridge.model.enums import ProviderFailure, RepairAction
from faultbridge.model.errors import FaultbridgeError
from faultbridge.model.names import NODE_NAME, short_name
from faultbridge.record.ports.presence import InstanceChecks, Presence

_INCONCLUSIVE = frozenset({ProviderFailure.THROTTLED, ProviderFailure.CONFLICT})


class CallResult(Struct, frozen=True):
    """The result of one call to a provider or another system: success, or a failure code and its reason.

    `operation` is the called system's id of the operation. `no_response` is True if the system did not respond. `since`
    is when the system accepted an operation that is still in progress; the failure is then TIMEOUT.
    """

    failure: ProviderFailure | None = None
    reason: str = ""
    operation: str | None = None
    no_response: bool = False
    since: datetime | None = None

    @property
    def ok(self) -> bool:
        """Return whether the call succeeded."""
        return self.failure is None

    @property
    def inconclusive(self) -> bool:
        """Return whether the call has no conclusive result.

        This is the case without a response, and after a refusal because of load or a concurrent change.
        """
        return self.no_response or self.failure in _INCONCLUSIVE


class CapacityEvidence(StrEnum):
    """Evidence that capacity for a successor exists; the values are listed from strongest to weakest.

    - `spare`: a verified spare is ready.
    - `reservation`: a reservation fits the successor, other than the one in which the instance runs.
    - `own_reservation`: the instance runs in a reservation, to which its release can return capacity.
    - `launch_first`: the successor is launched before the instance is released.
    - `none`: it is unknown whether the source has capacity; only a launch can show it.
    - `absent`: the provider or the instance has no such source, for example no reservation.
    """

    SPARE = "spare"
    RESERVATION = "reservation"
    OWN_RESERVATION = "own_reservation"
    LAUNCH_FIRST = "launch_first"
    NONE = "none"
    ABSENT = "absent"


class Capacity(Struct, frozen=True):
    """What one capacity source reports about capacity for the successor of one instance.

    `free`: a launch can use the capacity, now or after the old instance is released. It is False with the evidence
    `none` if the group launches nothing now, whatever the source has. `count`: how many instances are free now; None if
    unknown. `ends_at`: when the source ends and its instances are terminated, or None.
    """

    evidence: CapacityEvidence = CapacityEvidence.NONE
    free: bool = True
    reason: str = ""
    count: int | None = None
    ends_at: datetime | None = None


class LaunchedInstance(Struct, frozen=True):
    """A launched instance that may become a successor or a spare and is not in the inventory yet.

    A successor has a `launched_at` after the decision to replace. `running` is False while the instance starts. `slot`
    is the provider's permanent id of the node that the instance backs, or None.
    """

    instance_id: str
    launched_at: datetime
    instance_type: str | None = None
    private_dns: str | None = None
    running: bool = True
    slot: str | None = None
    case: str | None = None
    """The id of its case, or its `Spare.owner` in the spare pool; None if its provider launched it."""

    @property
    def host_names(self) -> tuple[str, ...]:
        """Return the short and the full host name of the instance; empty if it has no valid DNS name."""
        dns = self.private_dns or ""
        return tuple(dict.fromkeys(name for name in (short_name(dns), dns) if NODE_NAME.fullmatch(name)))


class SuccessorNotNeeded(FaultbridgeError):  # noqa: N818 - names the situation, which the caller handles
    """Raised by a provider that launches instances on demand, if nothing requires another instance of the group."""


class Provider(Protocol):
    """Replaces instances. Callers identify an instance by its id, because host names can be reused."""

    def replace(self, instance_id: str, token: str) -> CallResult:
        """Terminate the instance. Its group or a `Launcher` launches a successor. A call may be repeated.

        The result has the failure TIMEOUT and `since` while the provider still drains or terminates the instance.
        """

    def probe(self, instance_id: str) -> Presence:
        """Return whether the instance still exists at the provider."""

    def checks(self, instance_id: str) -> InstanceChecks:
        """Return the status checks of an instance. A check that cannot be read is UNKNOWN."""

    def impaired(self) -> frozenset[str]:
        """Return the running instances of the account whose status checks fail; empty if the provider has none."""

    def capacity(self, source: CapacitySource, instance_id: str, group: str) -> Capacity:
        """Return the capacity of a source for the instance's successor; ABSENT if there is no such source."""

    def candidates(self, group: str, launched_after: datetime) -> tuple[LaunchedInstance, ...]:
        """Return possible successors: running instances of the group launched since a time, oldest first.

        The result is empty if the groups of the provider launch no instances. Raises SuccessorNotNeeded if there is
        none and the group launches instances only on demand, of which there is none.
        """


class LaunchRequest(Struct, frozen=True):
    """A request to launch, or to find again, the successor of a case or an instance for the spare pool.

    `case` is the id of the case, or `Spare.owner` for the spare pool; the instance is tagged with it. A `token`
    launches at most one instance. `instance_types` are tried in order; if there are none, the launch template decides.
    `instead_of` is the instance to replace, if any, and `spare` the spare that the case took from the pool, if any.
    """

    cluster: ClusterConfig
    group: str
    case: str
    token: str
    instead_of: str | None = None
    instance_types: tuple[str, ...] = ()
    spare: str | None = None


class Launcher(Protocol):
    """Launches successors for groups that launch none, with the first instance type that has capacity."""

    def launched(self, launch_request: LaunchRequest) -> tuple[LaunchedInstance, ...]:
        """Return the live instances that were launched for the request's case, and its `spare`, oldest first.

        `instead_of` is not included. Instances may not run yet. An instance that was just launched may be missing.
        """

    def launched_in(self, cluster: ClusterConfig) -> tuple[LaunchedInstance, ...]:
        """Return a cluster's live instances that Faultbridge launched for cases or for the spare pool."""

    def launch(self, launch_request: LaunchRequest) -> CallResult:
        """Launch an instance tagged with its case. A repeated call with the same token is harmless.

        After `AMBIGUOUS` or `TIMEOUT` an instance may have been launched. After `THROTTLED` the token is unused. After
        any other failure, no instance of this token runs, and a repeated call may return this failure again.
        """

    def assign(self, instance_id: str, case: str) -> CallResult:
        """Tag an instance with the case that took it from the spare pool. A repeated call is harmless."""

    def terminate(self, instance_id: str) -> CallResult:
        """Terminate an instance that backs no node. The call succeeds if the instance is already gone."""


class RestartState(StrEnum):
    """The state of a restart. `absent`: never started. `unknown`: cannot be determined."""

    ABSENT = "absent"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    UNKNOWN = "unknown"


class Restart(Struct, frozen=True):
    """The status of a restart: state, failure reason, operation id, and the boot id after a reboot."""

    state: RestartState
    reason: str = ""
    operation: str | None = None
    boot_id: str | None = None


class Restarter(Protocol):
    """Resets the GPUs of an instance or reboots the instance. A token starts at most one restart."""

    def restart(self, repair_action: RepairAction, instance_id: str, token: str) -> CallResult:
        """Start a restart. The failure NOT_FOUND means that the instance cannot be reached."""

    def status(self, repair_action: RepairAction, instance_id: str, token: str) -> Restart:
        """Return the status of the restart with this token: `done` when the restart has succeeded."""


class Verdict(StrEnum):
    """The result of a verification.

    - `occupied`: another process uses the GPUs, so no diagnostics started. This shows nothing about the hardware.
    - `unknown`: there is no usable report.
    """

    PENDING = "pending"
    PASSED = "passed"
    FAILED = "failed"
    UNKNOWN = "unknown"
    OCCUPIED = "occupied"


class Verification(Struct, frozen=True):
    """The status of a verification: the verdict, findings as lines of text, and the raw report.

    `findings` are about the tests, such as one line per failed test. `gpus` is the number of GPUs in the report, or
    None if the report names none. `level` is the diagnostics level that ran, from 1 to 5. data/coverage.json lists the
    faults that a level proves fixed. The default 0 means that no level is known, so the verification proves no fault
    fixed.
    """

    verdict: Verdict
    findings: tuple[str, ...] = ()
    report: bytes = b""
    gpus: int | None = None
    level: int = 0


class Verifier(Protocol):
    """Runs diagnostics on an instance to verify that it is healthy."""

    def start(self, instance_id: str, token: str, level: int | None = None, *, prove_idle: bool = False) -> str:
        """Start a verification and return its operation id; a token starts at most one verification.

        If another process uses the GPUs, no diagnostics start, and the verdict is `occupied`. With `prove_idle`, this
        is also so if it is unknown whether a process uses them.

        `level` is the diagnostics level from 1 to 5. None means the default level of the verifier. Level 5 requires
        tests between two instances. A verifier without these tests runs level 4 instead. Raises Unverifiable if it can
        never verify instances of this type at the level.
        """

    def status(self, instance_id: str, operation: str, level: int | None = None) -> Verification:
        """Return the status of a verification; `level` is the level at which it was started."""

    def processes(self, instance_id: str, token: str) -> Verification:
        """Return whether a process uses the GPUs, by one look for each token; the call changes nothing.

        The verdict is `passed` if none does, `pending` during the look, and `unknown` if the instance does not answer.
        It is `occupied`, with the processes or the error, if one does, or if the instance answers but cannot list them.
        """


class BundleState(StrEnum):
    """The state of a log bundle of an instance. `kept` means that the bundle is stored."""

    RUNNING = "running"
    KEPT = "kept"
    FAILED = "failed"


class Bundle(Struct, frozen=True):
    """A log bundle of an instance: its state, its S3 URI, and the reason if it failed."""

    state: BundleState
    place: str = ""
    reason: str = ""


class HostOutput(Struct, frozen=True):
    """The newest part of an instance's kernel log, and the output of `nvidia-smi -q -x`; empty if not read.

    `at` is the time of the request, by the clock of the provider; None if nothing was read. The lines of NVIDIA's
    drivers since `log_from` are complete; it is None if the kernel log was not read.
    """

    at: datetime | None = None
    kernel_log: bytes = b""
    log_from: datetime | None = None
    nvidia_smi: bytes = b""


class Collector(Protocol):
    """Collects the logs of an instance and stores them as one bundle, or reads a few of them."""

    def collect(self, instance_id: str, token: str) -> Bundle:
        """Start to collect a log bundle, or return the state of the bundle with this token.

        A token starts at most one bundle.
        """

    def read(self, instance_id: str, token: str) -> HostOutput | None:
        """Start a command that reads an instance, or return its output; None while it runs, at most 90 seconds.

        A token starts at most one command, which changes nothing on the instance. An instance that does not answer has
        an empty output.
        """
