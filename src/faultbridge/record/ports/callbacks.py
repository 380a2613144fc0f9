"""Callbacks: notify the owner of a job, or its scheduler, that the job may resume."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.record.ports.compute import CallResult


@dataclass(frozen=True, slots=True)
class JobNotice:
    """A job that may resume, or that is asked for a checkpoint: its cluster and id, and the published event as JSON.

    `is_checkpoint` is True for a request, and `signal` is the signal that the job named for it.
    """

    cluster: ClusterConfig
    job_id: str
    event_id: str
    event: str
    is_checkpoint: bool = False
    signal: str | None = None


class JobCallback(Protocol):
    """Delivers notices of jobs that may resume.

    The same notice may be delivered again if the response to its delivery was lost.
    """

    @property
    def ordered(self) -> bool:
        """Return whether a failed notice delays the later notices of its cluster, to keep their order."""

    def deliver(self, notice: JobNotice) -> CallResult:
        """Deliver one notice.

        If the result is a failure that can be retried, Faultbridge delivers the notice again later.
        """
