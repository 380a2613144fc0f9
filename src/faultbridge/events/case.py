"""Cases."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from faultbridge.events.base import CaseId, Count, Instant, Milliseconds, Model, Text
from faultbridge.events.envelope import Event, NodeMetadata
from faultbridge.events.parts import Component, Incarnation, Placement
from faultbridge.events.words import Action, CaseStatus, RepairAction, Resolution, Severity, WaitingFor


class CaseMetadata(NodeMetadata):
    """Metadata of an event about a case."""

    case_id: CaseId = Field(description="The case.")


class Cause(Model):
    """The fault for which a case was opened."""

    code: Text = Field(description="The canonical fault code, such as `xid.79`.")
    component: Component
    message: str | None = Field(default=None, description="The condition's line for people, while it is active.")


class CaseStatusData(Model):
    """A move of a case from one status to another."""

    from_: CaseStatus | None = Field(alias="from", description="Null when the case opens.")
    to: CaseStatus
    reason: str = Field(description="One line for people.")
    waiting_for: WaitingFor | None = Field(description="What it waits for; `approval` waits for a person.")
    resolution: Resolution | None = Field(description="How it ended; null while it is live.")
    cause: Cause
    severity: Severity
    action: Action
    repair_action: RepairAction = Field(
        description="The step of the repair list of repair actions that the case is at."
    )
    attempt: Count = Field(description="Attempts admitted so far.")
    opened_at: Instant
    detected_at: Instant | None = Field(default=None, description="When the condition behind the case began.")
    not_before: Instant | None = Field(default=None, description="When a case that waits may go on at the earliest.")
    answer_by: Instant | None = Field(default=None, description="When an approval that is asked for expires.")
    phases: dict[str, Milliseconds] = Field(
        description="How long the case spent in each phase, by its name; given once it has ended, else empty."
    )
    previous_case: CaseId | None = Field(description="The node's case before this one.")
    rule: Text = Field(description="The policy rule that opened it.")
    policy: Text = Field(description="The version of the policy.")
    incarnation: Incarnation | None = Field(default=None, description="Who sits in the node now.")
    placement: Placement | None = Field(default=None, description="The place that the node fills.")
    incident_id: Text | None = Field(default=None, description="The cluster incident that absorbed it.")
    jobs: tuple[Text, ...] = Field(default=(), description="Jobs that the trouble hit, where they are registered.")
    gpus: Count | None = Field(default=None, description="How many GPUs the node has, where that is known.")
    gpu_time_lost: Annotated[int, Field(ge=0, json_schema_extra={"x-unit": "ms"})] | None = Field(
        default=None, description="GPUs times milliseconds out of service; given once the case has ended."
    )


class CaseStatusChange(Event):
    """A case moves: opened, queued, in progress, escalated to a person, absorbed by an incident, or ended."""

    event_type: ClassVar[str] = "Case Status Change"
    metadata: CaseMetadata
    data: CaseStatusData
