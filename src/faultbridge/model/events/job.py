"""Events about a job: changes of the job, and the verdict on why it failed."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from faultbridge.model.enums import (
    MAX_JOB_EVIDENCE,
    MAX_LISTED,
    CauseDomain,
    EntryType,
    HardwareVerdict,
    JobChangeKind,
    JobOutcome,
    Outlook,
)
from faultbridge.model.events.enums import CaseId, Count, Instant, Model, Open, Text
from faultbridge.model.events.envelope import ClusterMetadata, Event
from faultbridge.model.events.parts import FaultReference, NodeList


class JobImpact(Model):
    """A fault that affects a job, and the node that has this fault."""

    node: Text
    about: FaultReference | None = Field(description="The fault, if known.")
    message: str | None = Field(default=None, description="The message of the fault.")


class RankMove(Model):
    """The ranks of a node whose instance was replaced or is gone.

    The local state of these ranks is lost, so they must move to another instance.
    """

    node: Text
    ranks: str | None = Field(
        description="Global ranks on the node, such as `0-7`; null if they are unknown or too many."
    )
    from_instance_id: Text | None = Field(description="Instance at the first fault that affected the job.")
    to_instance_id: Text | None = Field(description="Instance of the node now; null if the node left the cluster.")


class JobResume(Model):
    """The nodes whose faults affected a job that may resume, by what happened to their instances."""

    returned: NodeList = Field(description="Nodes that are in service again with the same instance.")
    replaced: NodeList = Field(description="Nodes that are in service with another instance.")
    retired: NodeList = Field(description="Nodes that left the cluster.")
    moves: Annotated[tuple[RankMove, ...], Field(max_length=MAX_LISTED)] = Field(
        description="The replaced and retired nodes with their ranks. All other ranks keep their node and instance."
    )


class JobCallback(Model):
    """The result of the delivery of a callback about a job that may resume."""

    name: Text = Field(description="`webhook`, `sns`, `slurm-requeue` or `kubernetes-annotation`.")
    delivered: bool = Field(description="False if it will not be tried again.")


class JobData(Model):
    """The state of a job after a change, and the details of the change."""

    job_id: Text = Field(description="The scheduler's id of the job.")
    name: str | None
    change: Open[JobChangeKind]
    reason: str
    nodes: NodeList = Field(description="Nodes of the job.")
    started_at: Instant | None
    ended_at: Instant | None = Field(description="Null while the job runs.")
    outcome: Open[JobOutcome] | None = Field(description="How the job ended; null while it runs.")
    hit: JobImpact | None = Field(description="The fault and its node; set if `change` is `hit`.")
    resume: JobResume | None = Field(default=None, description="The affected nodes; set if `change` is `resumable`.")
    callback: JobCallback | None = Field(default=None, description="The callback; set if `change` is `notified`.")


class JobChange(Event):
    """Published when a job starts, ends, is affected by a fault of one of its nodes, or may resume.

    Other changes are published too. `notified`: the delivery of a callback about a job that may resume has ended.
    `stalled`: the training step did not advance within the job's limit. `advanced`: the training step advances again.
    `loss`: the training loss is not finite, has risen suddenly, or is normal again.
    """

    event_type: ClassVar[str] = EntryType.JOB.value
    metadata: ClusterMetadata
    data: JobData


class JobEvidence(Model):
    """One piece of evidence for or against the cause of a job's failure. It contains no text of logs."""

    weight: Text = Field(description="Rule that gave the points; `docs/explain.md` lists them.")
    points: int = Field(description="Positive: for the cause. Negative: against it.")
    name: Text | None = Field(description="Fault code, or name of the pattern; null if the points need no line.")
    trust: Text | None = Field(description="Whose source it is: `node`, `job` or `dump`.")
    node: Text | None
    rank: Count | None
    at: Instant | None
    file: Text | None = Field(description="File, or `timeline of CLUSTER/NODE`.")
    line: Count | None = Field(description="Line of the file, or sequence number of the entry.")


class JobDevice(Model):
    """A GPU that is named by the cause of a job's failure or by a Flight Recorder dump.

    Unknown values are null.
    """

    node: Text
    rank: Count | None = Field(description="Global rank.")
    index: Count | None = Field(description="Index of the GPU on its node.")
    pci: Text | None
    uuid: Text | None
    serial: Text | None
    signal: Text = Field(description="Fault code, or the state of the rank in the dumps.")


class JobExplainedData(Model):
    """The recorded verdict on a job: the cause of its failure, and the nodes that a restart leaves out."""

    job_id: Text = Field(description="The scheduler's id of the job.")
    name: str | None
    verdict: Open[Outlook]
    nodes: NodeList = Field(description="Nodes that a restart leaves out; empty unless `RESTART_WITHOUT`.")
    check: NodeList = Field(description="Nodes to be tested before a restart.")
    domain: Open[CauseDomain] | None = Field(description="Null for an unknown cause.")
    mechanism: Text | None = Field(description="The cause; null if it is unknown.")
    summary: str
    settles: str = Field(description="What would confirm or refute the cause, or what to do.")
    hardware: Open[HardwareVerdict]
    checked: NodeList = Field(description="Nodes whose own record covers the failure.")
    not_checked: NodeList
    ranks: Annotated[tuple[Count, ...], Field(max_length=MAX_LISTED)] = Field(
        description="Ranks that the others waited for, from dumps."
    )
    devices: Annotated[tuple[JobDevice, ...], Field(max_length=MAX_LISTED)] = Field(
        description="GPUs that the cause or the dumps name."
    )
    evidence: Annotated[tuple[JobEvidence, ...], Field(max_length=MAX_JOB_EVIDENCE)]
    cases: Annotated[tuple[CaseId, ...], Field(max_length=MAX_LISTED)] = Field(
        description="Latest cases of the nodes with recorded faults."
    )
    started_at: Instant | None
    ended_at: Instant | None = Field(description="Null while the job runs.")
    failed_at: Instant | None = Field(description="The first failure that the job's logs show.")


class JobExplained(Event):
    """Published when a verdict on a job is recorded: why the job failed, and whether it may restart.

    No event is published if the verdict, nodes, mechanism and hardware verdict are unchanged.
    """

    event_type: ClassVar[str] = EntryType.JOB_EXPLAINED.value
    metadata: ClusterMetadata
    data: JobExplainedData
