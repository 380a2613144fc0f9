"""Jobs that run on the cluster."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from faultbridge.events.base import Instant, Model, Text
from faultbridge.events.cluster_words import JobChange as What
from faultbridge.events.cluster_words import JobOutcome
from faultbridge.events.envelope import ClusterMetadata, Event
from faultbridge.events.parts import Nodes, Subject


class Hit(Model):
    """What hit a job, and on which of its nodes."""

    node: Text
    about: Subject | None = Field(description="The fault, where one is known.")


class JobData(Model):
    """A job as it is after the change."""

    job_id: Text = Field(description="The scheduler's id of the job.")
    name: str | None
    change: What
    reason: str
    nodes: Nodes = Field(description="Where it runs or ran.")
    started_at: Instant | None
    ended_at: Instant | None = Field(description="Null while it runs.")
    outcome: JobOutcome | None = Field(description="How it ended; null while it runs.")
    hit: Hit | None = Field(description="What hit it; given when `change` is `hit`.")


class JobChange(Event):
    """A job starts, is hit by a fault of one of its nodes, or ends."""

    event_type: ClassVar[str] = "Job Change"
    metadata: ClusterMetadata
    data: JobData
