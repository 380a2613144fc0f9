"""Clusters: how one is registered, how it is doing, and the one truth about what is being repaired in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from zlib import crc32

from faultbridge.domain.breakers import Breaker, BreakerScope, BreakerState, breaker_name
from faultbridge.domain.nodes import Head
from faultbridge.errors import Rejected

EKS = "eks"
"""The orchestrator of clusters that Amazon EKS runs."""


class Mode(StrEnum):
    """How far Faultbridge goes in a cluster: look only, say what it would do, or do it."""

    OBSERVE = "observe"
    DRY_RUN = "dry_run"
    ACT = "act"


class RepairOwner(StrEnum):
    """Who repairs: Faultbridge, the provider's own automation, or nobody."""

    FAULTBRIDGE = "faultbridge"
    PROVIDER = "provider"
    OBSERVE = "observe"


class ClusterStatus(StrEnum):
    """How a cluster is doing, as its nodes are."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"
    RECOVERING = "recovering"
    CRITICAL = "critical"


@dataclass(frozen=True, slots=True)
class ProviderRole:
    """A role through which the machines of another account are reached; its trust asks for the external id."""

    arn: str
    external_id: str | None = None


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """How a cluster was registered; `expected` is the number of its nodes, `shards` is fixed for ever.

    `trusted_senders` may speak of any of its nodes: `<role id>:<session>`, or `<role id>:*`. `eks_cluster` and
    `hyperpod_cluster` are what AWS calls it there; `provider_role` reaches it where it is in another account. Until
    `maintenance_until` its nodes are left alone. `instance_types` are launched in this order, each where there is no
    capacity for those before it, in any of the `subnets`; without them the launch template says which and where.
    `spares` machines of the launch template `spare_group` wait in its pool.
    """

    cluster: str
    provider: str = "ec2-auto-scaling"
    orchestrator: str = "none"
    verifier: str = "ssm-dcgm"
    restarter: str = "ssm"
    repair_owner: RepairOwner = RepairOwner.OBSERVE
    mode: Mode = Mode.OBSERVE
    shards: int = 1
    expected: int = 0
    policy: str | None = None
    version: int = 0
    trusted_senders: tuple[str, ...] = ()
    eks_cluster: str | None = None
    hyperpod_cluster: str | None = None
    provider_role: ProviderRole | None = None
    maintenance_until: datetime | None = None
    instance_types: tuple[str, ...] = ()
    subnets: tuple[str, ...] = ()
    spares: int = 0
    spare_group: str | None = None

    def checked(self) -> ClusterConfig:
        """Return the registration if it says all that its parts need; `no_eks_cluster` when it does not."""
        if self.orchestrator == EKS and not self.eks_cluster:
            raise Rejected("no_eks_cluster", f"{self.cluster} has orchestrator {EKS}: say what EKS calls it")
        return self

    @property
    def acts(self) -> bool:
        """Tell whether Faultbridge repairs here, or would say that it does."""
        return self.repair_owner is RepairOwner.FAULTBRIDGE and self.mode is not Mode.OBSERVE

    @property
    def follows(self) -> bool:
        """Tell whether the provider's own automation repairs here, and Faultbridge follows it to a verified node."""
        return self.repair_owner is RepairOwner.PROVIDER and self.mode is Mode.ACT

    @property
    def attends(self) -> bool:
        """Tell whether a fault here opens a case, whoever repairs."""
        return self.acts or self.follows

    def shard(self, node: str) -> int:
        """Return the shard of the cluster's rows in which a node is kept."""
        return shard_of(node, self.shards)


def shard_of(name: str, shards: int) -> int:
    """Spread names evenly and for ever the same over a number of shards."""
    return crc32(name.encode()) % shards


@dataclass(frozen=True, slots=True)
class ClusterState:
    """What the cluster's own stream last said: status and counts of nodes by status."""

    cluster: str
    head: Head = field(default_factory=Head)
    status: ClusterStatus | None = None
    counts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Control:
    """Who holds a repair slot since when, and what forbids new ones; every admission commits on its version.

    `breakers` has those that tripped once, by name; `dry` the groups that had no capacity, and until when each is
    left alone.
    """

    cluster: str
    version: int = 0
    holders: Mapping[str, datetime] = field(default_factory=dict)
    starts: tuple[datetime, ...] = ()
    paused: bool = False
    breakers: Mapping[str, Breaker] = field(default_factory=dict)
    dry: Mapping[str, datetime] = field(default_factory=dict)
    budget_used_up: bool = False

    def breaker(self, domain: str | None) -> Breaker | None:
        """Return the strictest breaker that is not closed and watches nodes of a failure domain, or None."""
        names = [breaker_name(BreakerScope.CLUSTER)]
        names += [breaker_name(BreakerScope.DOMAIN, domain)] if domain else []
        tripped = [self.breakers[name] for name in names if name in self.breakers]
        order = list(BreakerState)
        strictest = max(tripped, key=lambda one: order.index(one.state), default=None)
        return None if strictest is None or strictest.state is BreakerState.CLOSED else strictest
