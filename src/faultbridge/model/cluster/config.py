"""Cluster configuration: the registration of a cluster, its systems, and who repairs its nodes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple
from zlib import crc32

from msgspec import Struct

from faultbridge.model.enums import DomainKind
from faultbridge.model.errors import Rejected
from faultbridge.model.names import expand_host_list
from faultbridge.model.stored import Stored
from faultbridge.model.values import replace

_KINDS = tuple(DomainKind)
DECLARABLE = tuple(kind for kind in DomainKind if kind not in {DomainKind.CLUSTER, DomainKind.INTAKE})
"""The kinds of failure domains that an operator may declare."""


class FailureDomain(NamedTuple):
    """A resource, such as a switch or a rack, whose loss affects several nodes: its kind and its name."""

    kind: DomainKind
    name: str

    @property
    def text(self) -> str:
        """Return the kind and the name of the failure domain as text: `rack r-7`."""
        return f"{self.kind.value} {self.name}"


class DeclaredDomain(Stored, frozen=True):
    """A failure domain that an operator declared for a cluster; `nodes` is a Slurm host list."""

    kind: DomainKind
    name: str
    nodes: str

    def lists(self, node: str) -> bool:
        """Return whether the host list names the node."""
        return node in _expanded(self.nodes)


def failure_domains(
    cluster: str,
    node: str,
    domain: str | None,
    domains: Mapping[str, str],
    declared: tuple[DeclaredDomain, ...] = (),
) -> tuple[FailureDomain, ...]:
    """Return the failure domains of a node, narrowest kind first. The last is the cluster.

    `domains` maps kinds of failure domains to names, as the inventory reports them. `domain` is the name of the
    narrowest failure domain. If `domains` does not contain this name, a rack of this name is added. `declared` are the
    failure domains that operators declared for the cluster. A declared domain is added if it lists the node.
    """
    found = _of_inventory(cluster, domain, tuple(domains.items()))
    if not declared:
        return found
    return _ordered({*found, *(FailureDomain(one.kind, one.name) for one in declared if one.lists(node))})


@lru_cache(maxsize=1024)
def _of_inventory(cluster: str, domain: str | None, domains: tuple[tuple[str, str], ...]) -> tuple[FailureDomain, ...]:
    names = dict(domains)
    found = {FailureDomain(kind, names[kind]) for kind in _KINDS if names.get(kind)}
    if domain and domain not in names.values():
        found.add(FailureDomain(DomainKind.RACK, domain))
    return _ordered({*found, FailureDomain(DomainKind.CLUSTER, cluster)})


def _ordered(found: set[FailureDomain]) -> tuple[FailureDomain, ...]:
    return tuple(sorted(found, key=lambda one: (_KINDS.index(one.kind), one.name)))


def is_placed(domains: Collection[FailureDomain]) -> bool:
    """Return whether the failure domains of a node include a domain other than its cluster."""
    return any(one.kind is not DomainKind.CLUSTER for one in domains)


@lru_cache(maxsize=256)
def _expanded(nodes: str) -> frozenset[str]:
    return frozenset(expand_host_list(nodes))


class CapacitySource(StrEnum):
    """A source of EC2 capacity for a successor, the instance that replaces a faulty one.

    - `spare_pool`: a spare, which is a verified instance that waits to become a successor.
    - `own_reservation`: the capacity reservation (ODCR) of the old instance.
    - `open_reservation`: another reservation, for the type and the zone of the old instance.
    - `capacity_block`: the capacity block of the old instance.
    - `training_plan`: the training plan of the old instance's HyperPod group.
    - `on_demand`: on-demand capacity for the preferred instance type of the successor.
    - `fallback_types`: the further types in the cluster's registration with as many GPUs as the old instance.
    """

    SPARE_POOL = "spare_pool"
    OWN_RESERVATION = "own_reservation"
    OPEN_RESERVATION = "open_reservation"
    CAPACITY_BLOCK = "capacity_block"
    TRAINING_PLAN = "training_plan"
    ON_DEMAND = "on_demand"
    FALLBACK_TYPES = "fallback_types"


DEFAULT_SOURCES = (
    CapacitySource.SPARE_POOL,
    CapacitySource.OWN_RESERVATION,
    CapacitySource.CAPACITY_BLOCK,
    CapacitySource.TRAINING_PLAN,
    CapacitySource.ON_DEMAND,
    CapacitySource.FALLBACK_TYPES,
)
"""The order if the policy states none. Open reservations are left out, because other workloads may use them."""


class GroupUpdate(Stored, frozen=True):
    """A running update of one group of instances, as the provider reports it.

    `text` describes the update. `since` is when the update started, or None if that time is unknown.
    """

    text: str
    since: datetime | None = None


class UpdateHold(Struct, frozen=True):
    """A pause of the repairs of a group while its owner updates it, until `until` at the latest.

    `since` is when the update started. After the update ends, `running` is False and `until` is the end of the grace
    period. An ended hold delays no repair, even while it is still stored.
    """

    group: str
    since: datetime
    until: datetime
    running: bool = True


EKS = "eks"
"""The orchestrator name of clusters that run on Amazon EKS."""

SLURM = "slurm"
"""The orchestrator name of clusters that Slurm schedules."""

SLURM_REQUEUE = "slurm-requeue"
SLURM_SIGNAL = "slurm-signal"
"""The callback that signals a Slurm job which named a signal. No registration names it: each job opts in."""

ANNOTATION = "kubernetes-annotation"
JOB_CALLBACKS = frozenset({"webhook", "sns", SLURM_REQUEUE, ANNOTATION})
"""The names of the callbacks that a cluster may use for jobs that may resume."""

HYPERPOD = "hyperpod"
"""The name of the provider, verifier and restarter of SageMaker HyperPod clusters."""

KARPENTER = "karpenter"
"""The name of the provider of nodes that Karpenter, also that of EKS Auto Mode, launches in EKS clusters."""

PARALLEL_CLUSTER = "parallelcluster"
"""The provider name of AWS ParallelCluster, whose own daemon launches another instance for a node without one."""

PCS = "pcs"
"""The provider name of AWS PCS, which repairs nodes itself: none of its calls replaces or restarts one node."""

NO_VERIFIER = "none"
"""The verifier name of clusters whose nodes no diagnostics reach, as in EKS Auto Mode; the provider repairs them."""

OWN_PARTS: Mapping[str, Mapping[str, str]] = {
    HYPERPOD: {"verifier": HYPERPOD, "restarter": HYPERPOD},
    KARPENTER: {"orchestrator": EKS},
    PARALLEL_CLUSTER: {"orchestrator": SLURM, "restarter": SLURM},
    PCS: {"orchestrator": SLURM},
}
"""The adapters that belong to a provider: its clusters get them by default, and can use no others."""


MAX_SHARDS = 64
"""The maximum number of shards of a cluster: readers of a whole cluster query each of them."""


class Mode(StrEnum):
    """What Faultbridge does in a cluster: only observe, only report its decisions, or act on them."""

    OBSERVE = "observe"
    DRY_RUN = "dry_run"
    ACT = "act"


class RepairOwner(StrEnum):
    """The owner of a cluster's repairs: Faultbridge, the provider's automation, or no automation."""

    FAULTBRIDGE = "faultbridge"
    PROVIDER = "provider"
    OBSERVE = "observe"


class ProviderRole(Stored, frozen=True):
    """The IAM role through which Faultbridge accesses a cluster in another AWS account.

    The external id is set if the trust policy of the role requires one.
    """

    arn: str
    external_id: str | None = None


class DampedSource(Struct, frozen=True):
    """A source whose claims are ignored until `until`; `over` is True once this end was recorded.

    A claim is a report whose sender did not prove to be the node. If `cluster` is False, claims of the source are
    ignored only about the nodes and codes of its false claims (`NodeState.damped`).
    """

    source: str
    since: datetime
    until: datetime
    cluster: bool = True
    over: bool = False


class ClusterConfig(Stored, frozen=True):
    """The registration of a cluster: its size, senders, systems and spare instances.

    Size: `expected` is the number of nodes. Nodes fill one index shard after the other, `nodes_per_shard` in each, and
    then all in turn. `shards` is the number of shards in use; it never decreases. Shards keep the writes to each key
    within DynamoDB's limits.

    Senders: `trusted_senders` may send records about every node of the cluster. Each is `<role id>:<session>`, or
    `<role id>:*`. `node_roles` are the ids of the IAM roles of the cluster's instances. A session of another role does
    not prove that an instance sent a record. Without `node_roles`, a session of any role proves it, except in HyperPod
    clusters.

    Services: `eks_cluster` and `hyperpod_cluster` are the names of the cluster in EKS and HyperPod. `provider_role` is
    set if the cluster is in another account. `karpenter_repairs` states whether Karpenter itself repairs nodes, for a
    cluster whose setting cannot be read.

    Slurm: `slurm_head_node` is the id of the instance on which Slurm's commands run. `slurm_rest` is the address of
    slurmrestd. If both are set, Faultbridge uses slurmrestd, and runs commands on the head node only to requeue jobs.
    With `slurm_requeue`, jobs that may be requeued are requeued when their node is drained.

    Launches: `instance_types` are launched in this order, in any of the `subnets`: the next type is used if the
    previous one has no capacity. Without `instance_types`, the launch template determines the type. `spares` is the
    number of spare instances to keep, launched from the launch template `spare_group`.

    Others: Faultbridge repairs no node before `maintenance_until`. `domains` are failure domains that no inventory
    reports. `job_callbacks` are called, in this order, when a job may resume. `update_holds`, set by the inventory
    sync, are the holds of groups that their owner updates; `update_hold` returns the hold that delays repairs now.
    """

    cluster: str
    provider: str = "ec2-auto-scaling"
    orchestrator: str = "none"
    verifier: str = "ssm-dcgm"
    restarter: str = "ssm"
    repair_owner: RepairOwner = RepairOwner.OBSERVE
    mode: Mode = Mode.OBSERVE
    shards: int = 1
    nodes_per_shard: int = 800
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
    slurm_head_node: str | None = None
    slurm_rest: str | None = None
    slurm_requeue: bool = False
    karpenter_repairs: bool | None = None
    job_callbacks: tuple[str, ...] = ()
    update_holds: tuple[UpdateHold, ...] = ()
    damped_sources: tuple[DampedSource, ...] = ()

    def validated(self) -> ClusterConfig:
        """Check the settings of EKS, Slurm, HyperPod and job callbacks, and return this registration.

        Raises Rejected if such a setting is missing although it is required, is unknown, or cannot be used.
        """
        unknown = [name for name in self.job_callbacks if name not in JOB_CALLBACKS]
        if unknown:
            allowed = ", ".join(sorted(JOB_CALLBACKS))
            raise Rejected("bad_callback", f"unknown job callback: {unknown[0]}; allowed: {allowed}")
        if (self.orchestrator == EKS or ANNOTATION in self.job_callbacks) and not self.eks_cluster:
            user = f"orchestrator {EKS}" if self.orchestrator == EKS else f"job callback {ANNOTATION}"
            raise Rejected("no_eks_cluster", f"the EKS cluster name is missing: {self.cluster}; {user} requires it")
        self._check_slurm()
        self._check_own_parts()
        return self

    def _check_slurm(self) -> None:
        if self.orchestrator == SLURM and not (self.slurm_head_node or self.slurm_rest):
            raise Rejected(
                "no_slurm_head_node",
                f"head node and slurmrestd are missing: {self.cluster}; orchestrator {SLURM} requires one of them",
            )
        if self.provider == HYPERPOD and self.slurm_head_node:
            text = f"SSM Run Command does not reach the controller of a HyperPod cluster: {self.cluster}"
            raise Rejected("hyperpod_head_node", f"{text}; use slurmrestd, or no orchestrator")
        requeues = SLURM_REQUEUE in self.job_callbacks or (self.slurm_requeue and self.orchestrator == SLURM)
        if requeues and not self.slurm_head_node:
            user = "slurm_requeue" if self.slurm_requeue else f"job callback {SLURM_REQUEUE}"
            raise Rejected("no_requeue_head_node", f"the head node is missing: {self.cluster}; {user} requires it")

    def _check_own_parts(self) -> None:
        if self.verifier == NO_VERIFIER and self.repair_owner is RepairOwner.FAULTBRIDGE:
            text = f"verifier none cannot be used with repair owner faultbridge: {self.cluster}"
            raise Rejected("no_verifier", f"{text}; it returns no node to service without diagnostics")
        for part, allowed in OWN_PARTS.get(self.provider, {}).items():
            given = getattr(self, part)
            if given != allowed:
                text = f"{part} cannot be used with provider {self.provider}: {given}; allowed: {allowed}"
                raise Rejected("foreign_part", text)

    def declared_of(self, node: str) -> dict[str, str]:
        """Return the failure domains that an operator declared for a node, by kind."""
        return {one.kind: one.name for one in self.domains if one.lists(node)}

    @property
    def acts(self) -> bool:
        """Return whether Faultbridge owns the repairs of this cluster, and the mode is `act` or `dry_run`.

        In both modes, Faultbridge decides on repairs. In `dry_run`, it only records these decisions.
        """
        return self.repair_owner is RepairOwner.FAULTBRIDGE and self.mode is not Mode.OBSERVE

    @property
    def repairs(self) -> bool:
        """Return whether Faultbridge owns the repairs of this cluster, and the mode is `act`."""
        return self.acts and self.mode is Mode.ACT

    @property
    def follows_provider(self) -> bool:
        """Return whether the provider's automation owns the repairs of this cluster, and the mode is `act`.

        Faultbridge then waits for each repair by the provider, and verifies the node after the repair.
        """
        return self.repair_owner is RepairOwner.PROVIDER and self.mode is Mode.ACT

    @property
    def provider_isolates(self) -> bool:
        """Return whether the provider that Faultbridge follows keeps new work off faulty nodes; AWS PCS may not."""
        return self.follows_provider and self.provider != PCS

    @property
    def isolates(self) -> bool:
        """Return whether Faultbridge keeps new work off the faulty nodes of this cluster."""
        return self.repairs or (self.follows_provider and not self.provider_isolates)

    @property
    def opens_cases(self) -> bool:
        """Return whether faults in this cluster can open cases: `acts` or `follows_provider` is True."""
        return self.acts or self.follows_provider

    @property
    def permits_repairs(self) -> bool:
        """Return whether Faultbridge, or the provider that it follows, may repair the nodes of this cluster."""
        return self.opens_cases and self.mode is Mode.ACT

    def damped(self, now: datetime) -> frozenset[str]:
        """Return the sources whose claims are only notes now, because earlier ones were refuted or expired."""
        return frozenset(one.source for one in self.damped_sources if one.cluster and one.until > now)

    def update_hold(self, group: str | None, now: datetime) -> UpdateHold | None:
        """Return the update hold that delays the repairs of a group now, or None if there is none."""
        return next((one for one in self.update_holds if one.group == group and one.until > now), None)

    def is_maintained(self, now: datetime) -> bool:
        """Return whether the whole cluster is under maintenance at the time `now`."""
        return self.maintenance_until is not None and self.maintenance_until > now

    @property
    def next_shard(self) -> int:
        """Return the number of the index shard for the next registered node; full shards are filled in turn."""
        filled = self.expected // self.nodes_per_shard
        return filled if filled < MAX_SHARDS else self.expected % MAX_SHARDS

    def with_next_node(self) -> ClusterConfig:
        """Return the configuration with one more expected node and, if all shards are full, one more shard.

        A cluster has at most `MAX_SHARDS` shards.
        """
        used = min(self.expected // self.nodes_per_shard + 1, MAX_SHARDS)
        return replace(self, expected=self.expected + 1, shards=max(self.shards, used))


def shard_of(name: str, shards: int) -> int:
    """Return the shard of a name, as a number from 0 to `shards - 1`.

    The number is the CRC-32 of the name modulo `shards`, which spreads names evenly over the shards.
    """
    return crc32(name.encode()) % shards
