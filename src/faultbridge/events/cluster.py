"""A cluster's status, its incidents and its safety controls."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from faultbridge.events.base import Count, Instant, Milliseconds, Model, Text
from faultbridge.events.cluster_words import (
    DomainType,
    IncidentChange,
    IncidentStatus,
    SafetyKind,
    SafetyScope,
    SafetyState,
)
from faultbridge.events.envelope import ClusterMetadata, Event
from faultbridge.events.parts import Component, Nodes
from faultbridge.events.words import ClusterStatus

Counts = Annotated[dict[str, Count], Field(description="How many of each.")]


class ClusterStatusData(Model):
    """A cluster's move to another status, or a change of how many nodes are in which."""

    from_: ClusterStatus | None = Field(alias="from", description="Null the first time; equal to `to` for counts only.")
    to: ClusterStatus
    reason: str
    counts: Counts = Field(description="Nodes by status; a status without nodes may be absent.")
    expected: Count = Field(description="How many nodes the cluster is registered with.")


class ClusterStatusChange(Event):
    """A cluster's status changes, or the number of its nodes in any status."""

    event_type: ClassVar[str] = "Cluster Status Change"
    metadata: ClusterMetadata
    data: ClusterStatusData


class Domain(Model):
    """A failure domain: what the nodes of an incident have in common."""

    type: DomainType
    name: Text


class IncidentCause(Model):
    """What a cluster incident is put down to, as far as that is known."""

    code: Text | None = Field(description="The fault code that most of its nodes share.")
    component: Component | None = Field(description="The shared component, where one was found.")
    text: str = Field(description="One line for people.")


class ClusterIncidentData(Model):
    """One trouble of many nodes as it is after the change."""

    incident_id: Text
    change: IncidentChange
    from_: IncidentStatus | None = Field(alias="from", description="Null when it opens.")
    to: IncidentStatus
    reason: str
    cause: IncidentCause
    domain: Domain
    nodes: Nodes = Field(description="Its members now.")
    absorbed_cases: Count = Field(description="Cases that wait for it instead of being repaired one by one.")
    opened_at: Instant
    phases: dict[str, Milliseconds] = Field(
        default_factory=dict, description="How long it spent in each phase; given when it closes."
    )


class ClusterIncidentChange(Event):
    """A cluster incident opens, grows, shrinks or closes; while it is open it holds its domain's repairs back."""

    event_type: ClassVar[str] = "Cluster Incident Change"
    metadata: ClusterMetadata
    data: ClusterIncidentData


class ClusterSafetyData(Model):
    """A control that bounds what Faultbridge may do, as it is after the change."""

    kind: SafetyKind
    from_: SafetyState | None = Field(alias="from", description="Null the first time.")
    to: SafetyState
    reason: str
    scope: SafetyScope
    domain: Text | None = Field(description="The failure domain, for the scope `domain`.")
    counts: Counts = Field(description="What it was judged by, such as `failing`, `of`, `limit`, `holders`.")
    until: Instant | None = Field(description="When it ends or is looked at again; null when only an event ends it.")
    waiting_cases: Count | None = Field(default=None, description="Cases that it holds back now.")
    incident_id: Text | None = Field(default=None, description="The cluster incident behind a hold.")
    operator: Text | None = Field(default=None, description="The caller's ARN where a person gave the order.")


class ClusterSafetyChange(Event):
    """A breaker trips or closes, a budget is used up, repairs are paused or resumed, a domain is held or released."""

    event_type: ClassVar[str] = "Cluster Safety Change"
    metadata: ClusterMetadata
    data: ClusterSafetyData
