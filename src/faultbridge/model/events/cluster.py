"""Events about a cluster: its status, its incidents, and its safety controls."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from faultbridge.model.enums import (
    BreakerScope,
    ClusterStatus,
    ConditionKind,
    DomainKind,
    EntryType,
    IncidentChangeKind,
    IncidentStatus,
    ProviderHealth,
    ProviderStage,
    SafetyKind,
    SafetyState,
)
from faultbridge.model.events.enums import Count, Instant, Milliseconds, Model, Open, Text
from faultbridge.model.events.envelope import ClusterMetadata, Event
from faultbridge.model.events.parts import Component, NodeList
from faultbridge.model.fault_enums import Family

Counts = Annotated[dict[str, Count], Field(description="Counts by name.")]


class ProviderCondition(Model):
    """A condition that the provider reports about the whole cluster, or about one of its groups."""

    kind: Open[ConditionKind]
    group: Text | None = Field(description="The group; null if the condition concerns the whole cluster.")
    message: str = Field(description="The provider's text, shortened and without secrets.")
    since: Instant | None = Field(description="When it was first recorded.")


class ClusterStatusData(Model):
    """The status of a cluster after a change, and the number of its nodes by status."""

    from_: Open[ClusterStatus] | None = Field(
        alias="from", description="Null for the first event; equal to `to` if only counts changed."
    )
    to: Open[ClusterStatus]
    reason: str
    counts: Counts = Field(description="Number of nodes by status; a status without nodes may be absent.")
    expected: Count = Field(
        description="Number of nodes that the cluster should have: registered ones, and those its groups lack."
    )
    in_service: Count | None = Field(
        default=None,
        description="Number of nodes that jobs may run on: verified, or imported while they served.",
    )
    verified: Count | None = Field(
        default=None,
        description="Number of nodes in service whose instance was verified. The others were imported while they "
        "served, or another controller replaced their instance where Faultbridge only observes.",
    )
    incidents: tuple[Text, ...] = Field(default=(), description="Ids of the open incidents that cause the status.")
    provider_health: Open[ProviderHealth] | None = Field(
        default=None, description="Whether the provider reports conditions, and whether an operator must act on them."
    )
    provider_stage: Open[ProviderStage] | None = Field(
        default=None, description="Set if this change is the one by which an operator is needed, or no longer needed."
    )
    provider_conditions: tuple[ProviderCondition, ...] = Field(
        default=(), description="The open conditions that the provider reports."
    )


class ClusterStatusChange(Event):
    """Published when a cluster's status, node counts, incidents or provider conditions change."""

    event_type: ClassVar[str] = EntryType.CLUSTER_STATUS.value
    metadata: ClusterMetadata
    data: ClusterStatusData


class Domain(Model):
    """A failure domain that the nodes of an incident share."""

    type: Open[DomainKind]
    name: Text


class IncidentCause(Model):
    """The suspected cause of a cluster incident."""

    code: Text | None = Field(description="Fault code of most of its nodes.")
    component: Component | None = Field(description="Shared component, if one was found.")
    text: str = Field(description="One line of text for readers.")


class ClusterIncidentData(Model):
    """The state of a cluster incident after a change."""

    incident_id: Text
    change: Open[IncidentChangeKind]
    from_: Open[IncidentStatus] | None = Field(alias="from", description="Null when the incident opens.")
    to: Open[IncidentStatus]
    reason: str
    family: Open[Family]
    cause: IncidentCause
    domain: Domain
    domain_nodes: Count = Field(description="Number of nodes of the failure domain.")
    nodes: NodeList = Field(description="Nodes that are affected now.")
    doubled: bool = Field(
        default=False, description="True if its nodes doubled since its last page or notice, so that a notice follows."
    )
    added: NodeList = Field(description="Nodes that this change added.")
    removed: NodeList = Field(description="Nodes that this change removed.")
    absorbed_cases: Count = Field(description="Number of cases that wait for the incident instead of a repair.")
    opened_at: Instant
    operator: Text | None = Field(default=None, description="ARN of the operator who closed it.")
    phases: dict[str, Milliseconds] = Field(
        default_factory=dict, description="Duration of each phase; set when the incident closes."
    )


class ClusterIncidentChange(Event):
    """Published when a cluster incident opens, grows, shrinks, expires or closes.

    An open incident delays the repairs of the nodes in its failure domain whose faults belong to its fault family.
    """

    event_type: ClassVar[str] = EntryType.CLUSTER_INCIDENT.value
    metadata: ClusterMetadata
    data: ClusterIncidentData


class ClusterSafetyData(Model):
    """The state of a safety control of a cluster after a change."""

    kind: Open[SafetyKind]
    from_: Open[SafetyState] | None = Field(alias="from", description="Null for the first event of the control.")
    to: Open[SafetyState]
    reason: str
    scope: Open[BreakerScope]
    domain: Text | None = Field(description="Failure domain, if the scope is `domain`.")
    counts: Counts = Field(description="Counts behind the decision, such as `failing`, `of`, `limit`, `holders`.")
    until: Instant | None = Field(description="When it ends or is checked again; null if only an event ends it.")
    waiting_cases: Count | None = Field(default=None, description="Number of cases that it holds.")
    incident_id: Text | None = Field(
        default=None,
        description="Cluster incident behind a hold, or expired incident behind a breaker or a used-up budget.",
    )
    operator: Text | None = Field(default=None, description="ARN of the operator who gave the order.")
    source: Text | None = Field(default=None, description="Source whose claims are accepted or damped.")
    code: Text | None = Field(default=None, description="Fault code whose drains are limited.")
    covered_by: Text | None = Field(
        default=None, description="Control whose page covers this change: `breaker` or `evictions`; else null."
    )


class ClusterSafetyChange(Event):
    """Published when a safety control, which can stop repairs, changes its state.

    This happens when a breaker changes its state, the hourly budget is used up or available again, repairs are paused
    or resumed, or a failure domain is held or released.
    """

    event_type: ClassVar[str] = EntryType.CLUSTER_SAFETY.value
    metadata: ClusterMetadata
    data: ClusterSafetyData
