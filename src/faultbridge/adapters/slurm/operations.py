"""The operations on Slurm that the orchestrator needs, for both the head node and slurmrestd."""

from __future__ import annotations

from typing import Protocol

from faultbridge.dataclass import dataclass
from faultbridge.decoders.slurm.node_listing import SlurmNode


@dataclass(frozen=True, slots=True)
class SlurmJob:
    """One job or array task of Slurm.

    `reason` is Slurm's reason for the state of the job, such as the reason why the job waits. `reason` is empty if the
    operation that returned the job does not read reasons.
    """

    id: str
    state: str
    reason: str = ""


class SlurmOperations(Protocol):
    """Operations on one Slurm cluster.

    Each operation raises Transient if Slurm gives no usable answer, because the state of the node or job is then
    unknown. Each operation raises Misconfigured if the permission is missing.
    """

    def node(self, name: str) -> SlurmNode | None:
        """Return a node by its exact name, or None if Slurm reports that it has no such node."""

    def jobs(self, name: str) -> tuple[SlurmJob, ...]:
        """Return the jobs that use resources of a node."""

    def drain(self, name: str, reason: str) -> None:
        """Drain a node, and store the reason in Slurm."""

    def resume(self, name: str) -> None:
        """Resume a drained node, so that it runs jobs again."""

    def requeue(self, job: SlurmJob) -> bool:
        """Requeue a job; returns False, and changes nothing, if the job cannot be requeued."""
