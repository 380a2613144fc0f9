"""The models of clusters, for the OpenAPI document."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from faultbridge.api.node_models import Count, DeclaredDomain, Instant, ResponseModel


class Breaker(ResponseModel):
    """A circuit breaker of repairs. The counts are those when its state last changed by itself.

    `name` is `cluster`, or `domain:` followed by the name of the failure domain.
    """

    name: str
    state: Literal["closed", "half_open", "open"]
    since: Instant
    failing: Count = Field(description="Failing nodes when the state changed.")
    of: Count = Field(description="All nodes that the breaker counts.")
    stays_open: bool = Field(description="It opened too often: it closes only by an operator while any node fails.")


class ProviderCondition(ResponseModel):
    """A condition that the provider reports about the cluster, or about one of its groups."""

    kind: str
    group: str | None
    message: str
    since: Instant | None


class Cluster(ResponseModel):
    """A cluster: its registration, its status, and the cases whose attempts count against its budget."""

    cluster: str
    status: str | None
    counts: dict[str, int]
    incidents: list[str] = Field(description="Ids of the open incidents.")
    provider_conditions: list[ProviderCondition] = Field(description="Open conditions that the provider reports.")
    target: Count = Field(description="How many nodes there should be: `expected`, and those that the groups lack.")
    domains: list[DeclaredDomain] = Field(description="Failure domains that an operator declared.")
    expected: Count
    mode: str
    repair_owner: str
    provider: str
    orchestrator: str
    verifier: str
    restarter: str
    eks_cluster: str | None
    hyperpod_cluster: str | None
    slurm_head_node: str | None
    slurm_rest: str | None = Field(description="Address of slurmrestd.")
    slurm_requeue: bool
    job_callbacks: list[str] = Field(description="Callbacks for jobs that may resume, in their order.")
    instance_types: list[str]
    subnets: list[str]
    spares: Count
    spare_group: str | None
    pool: dict[str, int]
    provider_role: str | None
    node_roles: list[str] = Field(description="Ids of the roles that prove an instance of the cluster.")
    shards: int
    policy: str | None
    version: int
    paused: bool
    maintenance_until: Instant | None
    damped_sources: dict[str, Instant] = Field(description="When the claims of a source count again, by source.")
    breakers: list[Breaker] = Field(description="Every breaker that has opened before.")
    holders: dict[str, Instant]
    no_capacity_until: dict[str, Instant] = Field(description="When a group without capacity is tried again, by group.")
