"""The models of jobs, for the OpenAPI document."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field

from faultbridge.api.node_models import Instant, ResponseModel
from faultbridge.domain.names import CLUSTER_NAME
from faultbridge.jobs.jobs import MAX_ID_LENGTH, MAX_REASON
from faultbridge.jobs.placement import MAX_NODES
from faultbridge.jobs.progress import MAX_STEP
from faultbridge.jobs.reports import MAX_NAME, MAX_RANKS_PER_NODE, MAX_STALL, MIN_STALL


class JobVerdict(ResponseModel):
    """The recorded verdict on a job: whether it may restart, and the cause of its failure."""

    outlook: str = Field(description="`RESTART`, `RESTART_WITHOUT` some nodes, or `STOP`.")
    nodes: list[str] = Field(description="Nodes that a restart leaves out.")
    mechanism: str | None = Field(description="The cause; null if it is unknown.")
    hardware: str = Field(description="`blamed`, `acquitted` or `not_shown`.")


class Job(ResponseModel):
    """A job: its nodes, the nodes whose faults affected it, and whether it may resume."""

    job_id: str
    cluster: str
    name: str | None
    nodes: list[str]
    ranks: dict[str, str] = Field(description="Global ranks by node, such as `0-7`, as far as they are known.")
    started_at: Instant
    ended_at: Instant | None
    outcome: str | None
    state: Literal["running", "stalled", "ended", "waiting", "resumable"] = Field(
        description="`waiting`: it ended less than seven days ago, its affected nodes are not back, and its verdict "
        "is not STOP. `stalled`: its step does not advance."
    )
    affected_nodes: list[str]
    stalled_at: Instant | None
    loss_alarm: str | None = Field(
        description="What is wrong with the last loss: `not_finite` or `spike`; null if nothing is."
    )
    resumable_at: Instant | None
    verdict: JobVerdict | None


class Jobs(ResponseModel):
    """A page of jobs in the order of their ids. `next` is the token of the next page, or null."""

    items: list[Job]
    next: str | None


class JobReport(ResponseModel):
    """A report that a job started, ended or reached a step.

    `start` needs `nodes`, and `heartbeat` needs `step`. The report may contain only the fields of its kind of change.
    """

    model_config = ConfigDict(json_schema_extra={"additionalProperties": False})

    change: Literal["start", "end", "heartbeat"]
    job_id: str = Field(min_length=1, max_length=MAX_ID_LENGTH, description="The scheduler's id of the job.")
    at: Instant | None = Field(default=None, description="`start`, `end`: when it happened. Default: now.")
    nodes: list[str] = Field(
        default=[],
        max_length=MAX_NODES,
        description="`start`: names of nodes, instance ids, or host lists such as `gpu-[001-004]`.",
    )
    name: str | None = Field(default=None, max_length=MAX_NAME, description="`start`: name of the job for people.")
    ranks: dict[str, str] | None = Field(default=None, description='`start`: global ranks by node, such as `"0-7"`.')
    ranks_per_node: int | None = Field(
        default=None, ge=1, le=MAX_RANKS_PER_NODE, description="`start`: equally many ranks, in the order of `nodes`."
    )
    stall_after_seconds: int | None = Field(
        default=None, ge=MIN_STALL, le=MAX_STALL, description="`start`: how long a step may take. Default: 1800."
    )
    outcome: Literal["succeeded", "failed", "cancelled", "unreported"] = Field(
        default="unreported", description="`end`: how the job ended."
    )
    reason: str = Field(default="", max_length=MAX_REASON, description="`end`: a few words.")
    step: int | None = Field(default=None, ge=0, le=MAX_STEP, description="`heartbeat`: last step that was completed.")
    loss: float | Literal["nan", "inf", "-inf"] | None = Field(
        default=None, description="`heartbeat`: loss of the step."
    )


class JobReportDetail(JobReport):
    """The detail of the bus event `Faultbridge Job Report`: a report, and the cluster of the job."""

    cluster: str = Field(pattern=f"^{CLUSTER_NAME.pattern}$")


JOB_MODELS = (Job, JobReport, Jobs)
