"""Steps of an attempt to repair."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from faultbridge.events.base import Model, Sha256, Text
from faultbridge.events.case import CaseMetadata
from faultbridge.events.envelope import Event
from faultbridge.events.parts import Facts
from faultbridge.events.words import FailureReason, RepairAction


class ReplacementStepData(Model):
    """What one step of an attempt came to."""

    step: Text = Field(description="The step, named as in the state machine; `intent` is the point of no return.")
    outcome: Text = Field(description="What it came to; the state machine chooses by it.")
    attempt: Annotated[int, Field(ge=0)] = Field(description="Which attempt of the case, counted from 1.")
    repair_action: RepairAction
    reason: str | None = Field(description="The provider's or verifier's own words, or ours.")
    failure: FailureReason | None = Field(default=None, description="Why it failed, as one word to act upon.")
    operation: str | None = Field(description="The provider's own id of the operation.")
    old_instance: str | None = Field(description="The EC2 instance id that is given up.")
    new_instance: str | None = Field(description="The EC2 instance id that takes its place.")
    facts: Facts
    evidence: str | None = Field(default=None, description="Raw output behind the outcome, at most 4 KB.")
    evidence_sha256: Sha256 | None = Field(default=None, description="SHA-256 of the evidence before any cut.")
    evidence_uri: Text | None = Field(default=None, description="Where the whole output is kept, if it is.")


class NodeReplacementStep(Event):
    """A step of an attempt is over: drain, intent, reset, reboot or replace, await, verify, return."""

    event_type: ClassVar[str] = "Node Replacement Step"
    metadata: CaseMetadata
    data: ReplacementStepData
