"""The operations that the orchestrator needs from Slurm, over the head node or slurmrestd."""

from __future__ import annotations

from typing import Protocol

from faultbridge.dataclass import dataclass
from faultbridge.decoders.slurm.node_listing import SlurmNode


@dataclass(frozen=True, slots=True)
class SlurmJob:
    """One job or array task; `reason` is Slurm's reason for its state, empty unless it was read."""

    id: str
    state: str
    reason: str = ""


class SlurmOperations(Protocol):
    """Operations on one Slurm cluster.

    Each raises Transient without a usable answer, because nothing is known then, and Misconfigured without permission.
    """

    def node(self, name: str) -> SlurmNode | None:
        """Return a node by its exact name, or None when Slurm reports that it has no such node."""

    def jobs(self, name: str) -> tuple[SlurmJob, ...]:
        """Return the jobs that hold resources of a node."""

    def drain(self, name: str, reason: str) -> None:
        """Drain a node with a reason."""

    def resume(self, name: str) -> None:
        """Let a drained node run jobs again."""

    def requeue(self, job: SlurmJob) -> bool:
        """Put a job back into the queue; returns False, and changes nothing, if the job does not allow it."""
