"""Events about cases and the steps of their repair attempts."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from faultbridge.model.enums import CaseStatus, EntryType, ProviderFailure, RepairAction, Resolution, WaitingFor
from faultbridge.model.events.enums import CaseId, Count, Instant, Milliseconds, Model, Open, Text
from faultbridge.model.events.envelope import Event, NodeMetadata
from faultbridge.model.events.parts import (
    Component,
    Detail,
    Evidence,
    EvidenceHash,
    EvidenceUri,
    Facts,
    Failure,
    Incarnation,
    Placement,
)
from faultbridge.model.fault_enums import Action, Severity


class CaseMetadata(NodeMetadata):
    """Metadata of an event about a case."""

    case_id: CaseId = Field(description="The case.")


class Cause(Model):
    """The fault for which a case was opened."""

    code: Text = Field(description="Canonical fault code, such as `xid.79`.")
    component: Component
    message: str | None = Field(default=None, description="The condition's message, while the condition is active.")


class CaseStatusData(Model):
    """The data of a case event: the status of a case before and after a change, and the cause of the case."""

    from_: Open[CaseStatus] | None = Field(alias="from", description="Null when the case opens.")
    to: Open[CaseStatus]
    reason: str = Field(description="One line of text for readers.")
    failure: Failure = None
    detail: Detail = None
    waiting_for: Open[WaitingFor] | None = Field(
        description="The reason for waiting; `approval` means that an operator must answer."
    )
    resolution: Open[Resolution] | None = Field(description="The result; null until the case closes.")
    cause: Cause
    severity: Open[Severity]
    action: Open[Action]
    repair_action: Open[RepairAction] = Field(description="The current repair action.")
    attempt: Count = Field(description="Number of attempts admitted so far.")
    opened_at: Instant
    detected_at: Instant | None = Field(default=None, description="When the condition behind the case started.")
    not_before: Instant | None = Field(default=None, description="Earliest time at which a waiting case continues.")
    answer_by: Instant | None = Field(default=None, description="When an open approval request expires.")
    phases: dict[str, Milliseconds] = Field(
        description="Duration of each phase by its name; empty until the case closes."
    )
    previous_case: CaseId | None = Field(description="The node's previous case.")
    rule: Text = Field(description="Policy rule that opened the case.")
    policy: Text = Field(description="Policy version.")
    incarnation: Incarnation | None = Field(default=None, description="Current instance and boot of the node.")
    placement: Placement | None = Field(default=None, description="Place of the node in its cluster.")
    incident_id: Text | None = Field(default=None, description="Cluster incident that absorbed the case.")
    relapse_of: CaseId | None = Field(
        default=None, description="Case after whose repair the fault came back while the node was on probation."
    )
    gpus: Count | None = Field(default=None, description="Number of GPUs of the node, if known.")
    gpu_time_lost: Milliseconds | None = Field(
        default=None, description="Number of GPUs times the time out of service; set after the case closed."
    )


class CaseStatusChange(Event):
    """Published when a case opens or closes, or changes its status, its incident or its reason to wait."""

    event_type: ClassVar[str] = EntryType.CASE_STATUS.value
    metadata: CaseMetadata
    data: CaseStatusData


class ReplacementStepData(Model):
    """An outcome of one step of a repair attempt."""

    step: Text = Field(description="Step name, as in the state machine; `intent` is the point of no return.")
    outcome: Text = Field(description="Result of the step. The state machine selects the next step by it.")
    attempt: Annotated[int, Field(ge=0)] = Field(description="Number of the attempt within the case, from 1.")
    repair_action: Open[RepairAction]
    reason: str | None = Field(description="Text from the provider, the verifier or Faultbridge.")
    failure: Open[ProviderFailure] | None = Field(
        default=None, description="Failure reason; null if the step succeeded."
    )
    operation: str | None = Field(description="The provider's id of the operation.")
    old_instance: str | None = Field(description="EC2 instance id of the released instance.")
    new_instance: str | None = Field(description="EC2 instance id of its successor.")
    facts: Facts
    evidence: Evidence = None
    evidence_sha256: EvidenceHash = None
    evidence_uri: EvidenceUri = None


class NodeReplacementStep(Event):
    """Published when an outcome of a step of a repair attempt is recorded.

    The steps include drain, intent, reset, reboot, replacement, wait for the successor, verification and return.
    """

    event_type: ClassVar[str] = EntryType.REPLACEMENT_STEP.value
    metadata: CaseMetadata
    data: ReplacementStepData
