"""Models of jobs."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from faultbridge.api.node_models import Instant, ResponseModel


class JobVerdict(ResponseModel):
    """The recorded verdict on a job: whether it may restart, and what that rests on."""

    outlook: str = Field(description="`RESTART`, `RESTART_WITHOUT` some nodes, or `STOP`.")
    nodes: list[str] = Field(description="Nodes that a restart leaves out.")
    mechanism: str | None = Field(description="The cause; null if it is unknown.")
    hardware: str = Field(description="`blamed`, `acquitted` or `not_shown`.")


class Job(ResponseModel):
    """A job: its nodes, those whose faults affected it, and whether it may resume."""

    job_id: str
    cluster: str
    name: str | None
    nodes: list[str]
    ranks: dict[str, str] = Field(description="Global ranks by node, such as `0-7`, as far as they are known.")
    started_at: Instant
    ended_at: Instant | None
    outcome: str | None
    state: Literal["running", "stalled", "ended", "waiting", "resumable"] = Field(
        description="`waiting`: it ended, and its affected nodes are not back. `stalled`: its step does not advance."
    )
    affected_nodes: list[str]
    stalled_at: Instant | None
    loss_alarm: str | None = Field(
        description="What is wrong with the last loss: `not_finite` or `spike`; null if nothing is."
    )
    resumable_at: Instant | None
    verdict: JobVerdict | None


class Jobs(ResponseModel):
    """Jobs, by id."""

    items: list[Job]


JOB_MODELS = (Job, Jobs)
