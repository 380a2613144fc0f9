"""The models of clusters, for the OpenAPI document."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from faultbridge.api.node_models import Count, DeclaredDomain, Instant, ResponseModel


class Breaker(ResponseModel):
    """A circuit breaker: `cluster`, or `domain:` and the failure domain; its state, and since when."""

    name: str
    state: Literal["closed", "half_open", "open"]
    since: Instant


class Cluster(ResponseModel):
    """A cluster: its registration, its status, and the cases that hold its repair slots."""

    cluster: str
    status: str | None
    counts: dict[str, int]
    incidents: list[str] = Field(description="Ids of the open incidents.")
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
    breakers: list[Breaker] = Field(description="Every breaker that has opened before.")
    holders: dict[str, Instant]
