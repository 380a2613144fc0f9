"""What acts on nodes: providers, orchestrators, verifiers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from faultbridge.domain.clusters import ClusterConfig
from faultbridge.domain.nodes import NodeState


class ProviderFailure(StrEnum):
    """Why a provider, orchestrator or verifier did not do what it was asked."""

    CAPACITY = "CAPACITY"
    THROTTLED = "THROTTLED"
    PERMISSION_DENIED = "PERMISSION_DENIED"
    NOT_FOUND = "NOT_FOUND"
    CONFLICT = "CONFLICT"
    TIMEOUT = "TIMEOUT"
    AMBIGUOUS = "AMBIGUOUS"
    VERIFY_FAILED = "VERIFY_FAILED"
    PROVIDER_ERROR = "PROVIDER_ERROR"

    @property
    def retriable(self) -> bool:
        """Tell whether the same call may succeed later without anybody mending anything."""
        return self in _RETRIABLE


_RETRIABLE = frozenset(
    {
        ProviderFailure.CAPACITY,
        ProviderFailure.THROTTLED,
        ProviderFailure.CONFLICT,
        ProviderFailure.TIMEOUT,
        ProviderFailure.AMBIGUOUS,
    }
)


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of one call: `ok`, or the failure and the provider's words; `operation` is the provider's own id.

    `unanswered` says that nobody answered the call, so that the reason is ours.
    """

    failure: ProviderFailure | None = None
    reason: str = ""
    operation: str | None = None
    unanswered: bool = False

    @property
    def ok(self) -> bool:
        """Tell whether it was done."""
        return self.failure is None


class Presence(StrEnum):
    """What a probe found of an instance."""

    ALIVE = "alive"
    GONE = "gone"
    UNKNOWN = "unknown"


class Evidence(StrEnum):
    """What speaks for a successor before an instance is given up, the best first."""

    SPARE = "spare"
    RESERVATION = "reservation"
    OWN_RESERVATION = "own_reservation"
    LAUNCH_FIRST = "launch_first"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Capacity:
    """What a provider knows of capacity for one node; `free` is whether the evidence has room now."""

    evidence: Evidence = Evidence.NONE
    free: bool = True
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Candidate:
    """An instance that may take a node: running, same group, launched after the intent."""

    instance_id: str
    launched_at: datetime
    instance_type: str | None = None
    private_dns: str | None = None
    running: bool = True


class Provider(Protocol):
    """What replaces an instance. Calls name the instance id of the committed intent, never a host name."""

    def replace(self, instance_id: str, token: str) -> Answer:
        """Give the instance up so that its group launches a successor; repeating it is harmless."""
        ...

    def probe(self, instance_id: str) -> Presence:
        """Tell whether the instance is still there."""
        ...

    def capacity(self, instance_id: str, group: str) -> Capacity:
        """Tell what speaks for a successor of an instance; `NONE` where nobody can know before trying."""
        ...

    def candidates(self, group: str, launched_after: datetime) -> tuple[Candidate, ...]:
        """List the instances of the group that were launched after an instant, oldest first."""
        ...


@dataclass(frozen=True, slots=True)
class Member:
    """A node as its orchestrator is asked about it: how its cluster is registered, what it is called, who sits there.

    A name may outlive the machine that bore it, so an orchestrator that knows instances goes by the instance.
    """

    cluster: ClusterConfig
    node: str
    instance_id: str | None = None
    aliases: tuple[str, ...] = ()

    @classmethod
    def of(cls, state: NodeState, cluster: ClusterConfig) -> Member:
        """Take a node as it is now."""
        sitting, called = state.incarnation, (*state.placement.aliases, *state.placement.host_names)
        return cls(cluster, state.key.node, sitting.instance_id if sitting else None, called)


class Orchestrator(Protocol):
    """What keeps work off a node and takes it away. `applicable` is False where a cluster has none.

    A node that the orchestrator does not have (yet) is `NOT_FOUND`, but nothing is left to be drained from it.
    """

    @property
    def applicable(self) -> bool:
        """Tell whether there is anything to cordon."""
        ...

    def cordon(self, node: Member) -> Answer:
        """Keep new work off the node; repeating it is harmless."""
        ...

    def uncordon(self, node: Member) -> Answer:
        """Let work on the node again; repeating it is harmless."""
        ...

    def drain(self, node: Member, deadline: datetime) -> Answer:
        """Ask running work to leave; ok once none is left."""
        ...


class Verdict(StrEnum):
    """What a verification came to; `unknown` is not `failed`."""

    PENDING = "pending"
    PASSED = "passed"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Verification:
    """One look at a running verification: the verdict, one line a failed test, the raw report, and the GPUs it saw.

    `gpus` is None where the report does not tell.
    """

    verdict: Verdict
    findings: tuple[str, ...] = ()
    report: bytes = b""
    gpus: int | None = None


class Verifier(Protocol):
    """What proves a node good."""

    def begin(self, instance_id: str, token: str, level: int | None = None) -> str:
        """Start a verification, as thorough as `level` (1 to 4) or the installation says; returns its operation id."""
        ...

    def look(self, instance_id: str, operation: str, level: int | None = None) -> Verification:
        """Read how the verification stands, judged by the level at which it was begun."""
        ...
