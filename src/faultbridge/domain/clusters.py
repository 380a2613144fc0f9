"""Clusters: registration, status, repair slots and the queue of cases that wait for a slot."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from zlib import crc32

from faultbridge.domain.breakers import Breaker, BreakerScope, BreakerState, breaker_name
from faultbridge.domain.cases import RepairAction, WaitingFor
from faultbridge.domain.failure_domains import DeclaredDomain, FailureDomain
from faultbridge.domain.faults import Family
from faultbridge.domain.incidents import Hold
from faultbridge.domain.nodes import Head, NodeKey
from faultbridge.errors import Rejected

EKS = "eks"
"""The orchestrator name of clusters that run on Amazon EKS."""


class Mode(StrEnum):
    """What Faultbridge does in a cluster: only observe, only report its decisions, or act on them."""

    OBSERVE = "observe"
    DRY_RUN = "dry_run"
    ACT = "act"


class RepairOwner(StrEnum):
    """The owner of repairs: Faultbridge, the provider's automation, or no automation."""

    FAULTBRIDGE = "faultbridge"
    PROVIDER = "provider"
    OBSERVE = "observe"


class ClusterStatus(StrEnum):
    """The status of a cluster, derived from the statuses of its nodes."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"
    RECOVERING = "recovering"
    CRITICAL = "critical"


@dataclass(frozen=True, slots=True)
class ProviderRole:
    """The IAM role for a cluster in another account; its trust policy requires the external id."""

    arn: str
    external_id: str | None = None


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """The registration of a cluster.

    `expected` is the number of nodes. `shards` cannot change after registration.
    `trusted_senders` may send records about every node of the cluster: `<role id>:<session>`, or `<role id>:*`.
    `node_roles` are the ids of the roles that instances of the cluster have; a session of another role proves no
    instance. Without them, every role counts.
    `eks_cluster` and `hyperpod_cluster` are the names in those services. `provider_role` is set when the cluster is
    in another account. Until `maintenance_until` Faultbridge repairs no node.
    `instance_types` are launched in this order: the next one when the previous one has no capacity, in any of the
    `subnets`. Without them the launch template decides. `spares` is the number of spare instances to keep, launched
    from the launch template `spare_group`. `domains` are failure domains that no inventory reports.
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
    node_roles: tuple[str, ...] = ()
    eks_cluster: str | None = None
    hyperpod_cluster: str | None = None
    provider_role: ProviderRole | None = None
    maintenance_until: datetime | None = None
    instance_types: tuple[str, ...] = ()
    subnets: tuple[str, ...] = ()
    spares: int = 0
    spare_group: str | None = None
    domains: tuple[DeclaredDomain, ...] = ()

    def validated(self) -> ClusterConfig:
        """Return this registration; raises `no_eks_cluster` when the EKS cluster name is missing."""
        if self.orchestrator == EKS and not self.eks_cluster:
            raise Rejected(
                "no_eks_cluster", f"the EKS cluster name is missing: {self.cluster}; orchestrator {EKS} requires it"
            )
        return self

    @property
    def acts(self) -> bool:
        """Return whether Faultbridge repairs here, or reports in dry run what it would repair."""
        return self.repair_owner is RepairOwner.FAULTBRIDGE and self.mode is not Mode.OBSERVE

    @property
    def follows_provider(self) -> bool:
        """Return whether the provider's automation repairs here and Faultbridge only verifies the result."""
        return self.repair_owner is RepairOwner.PROVIDER and self.mode is Mode.ACT

    @property
    def opens_cases(self) -> bool:
        """Return whether a fault in this cluster opens a case."""
        return self.acts or self.follows_provider

    def shard(self, node: str) -> int:
        """Return the shard that holds the rows of a node."""
        return shard_of(node, self.shards)


def shard_of(name: str, shards: int) -> int:
    """Return the shard of a name: evenly distributed, and always the same for the same name."""
    return crc32(name.encode()) % shards


@dataclass(frozen=True, slots=True)
class ClusterState:
    """The last recorded status of a cluster, the number of its nodes in each status, and its open incidents."""

    cluster: str
    head: Head = field(default_factory=Head)
    status: ClusterStatus | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    incidents: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Control:
    """The repair slots of a cluster, and everything that blocks new repairs.

    Every admission is written under the condition that `version` is unchanged.
    `holders` maps each case with a slot to the time since which it holds the slot. `starts` are recent repair starts.
    `breakers` holds every breaker that has opened before, by name. `no_capacity_until` maps each group without
    provider capacity to the time of the next try. `events` maps each breaker, `budget`, `pause` and hold to the id of
    its last entry, which causes the next one. `holds` has an entry for each incident that is not closed, and for a
    recently closed one, by incident id.
    """

    cluster: str
    version: int = 0
    holders: Mapping[str, datetime] = field(default_factory=dict)
    starts: tuple[datetime, ...] = ()
    paused: bool = False
    breakers: Mapping[str, Breaker] = field(default_factory=dict)
    no_capacity_until: Mapping[str, datetime] = field(default_factory=dict)
    budget_used_up: bool = False
    events: Mapping[str, str] = field(default_factory=dict)
    holds: Mapping[str, Hold] = field(default_factory=dict)

    def breaker(self, domain: str | None) -> Breaker | None:
        """Return the strictest open or half-open breaker for nodes of a failure domain, or None."""
        names = [breaker_name(BreakerScope.CLUSTER)]
        names += [breaker_name(BreakerScope.DOMAIN, domain)] if domain else []
        tripped = [self.breakers[name] for name in names if name in self.breakers]
        order = list(BreakerState)
        strictest = max(tripped, key=lambda breaker: order.index(breaker.state), default=None)
        return None if strictest is None or strictest.state is BreakerState.CLOSED else strictest

    def incident_of(self, domains: Collection[FailureDomain], families: Collection[Family]) -> str | None:
        """Return the id of the incident that holds the repair of a node, by its domains and families, or None."""
        return next((name for name, hold in sorted(self.holds.items()) if hold.covers(domains, families)), None)


@dataclass(frozen=True, slots=True)
class QueuedCase:
    """One case in the repair queue, as admission reads it.

    `priority` 0 is the most urgent; `since` is when the case was first queued. `approved` is set when an operator
    approved the next attempt, `approval_pending` while the approval request is unanswered. `reason` is why it waits.
    """

    key: NodeKey
    case: str
    repair_action: RepairAction
    priority: int
    since: datetime
    waiting_for: WaitingFor | None = None
    not_before: datetime | None = None
    rule: str = ""
    domain: str | None = None
    group: str | None = None
    approved: bool = False
    approval_pending: bool = False
    reason: str = ""
    domains: tuple[FailureDomain, ...] = ()
    families: tuple[Family, ...] = ()
