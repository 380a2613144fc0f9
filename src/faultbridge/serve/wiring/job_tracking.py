"""Job tracking: builds the services that record training jobs and whether they may resume."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from faultbridge.model.dataclass import dataclass

if TYPE_CHECKING:
    from faultbridge.repair.jobs.callbacks import DeliverCallbacks
    from faultbridge.repair.jobs.job_impact import JobImpact
    from faultbridge.repair.jobs.jobs import Jobs
    from faultbridge.repair.jobs.progress import JobProgress
    from faultbridge.serve.wiring.installation import Installation


@dataclass(frozen=True)
class JobTracking:
    """Builds the services that record training jobs and the faults that affect them."""

    installation: Installation

    @cached_property
    def jobs(self) -> Jobs:
        """Return the service that records the starts and ends of training jobs."""
        from faultbridge.repair.jobs.jobs import Jobs

        return Jobs(self.installation.append)

    @cached_property
    def api_jobs(self) -> Jobs:
        """Return the service that records job reports; the sweep stores the job ids in the states of nodes."""
        from faultbridge.repair.jobs.jobs import Jobs

        return Jobs(self.installation.append, marks_nodes=False)

    @cached_property
    def progress(self) -> JobProgress:
        """Return the service that stores heartbeats of jobs, and records stalls and abnormal training losses."""
        from faultbridge.repair.jobs.progress import JobProgress

        return JobProgress(self.jobs)

    @cached_property
    def deliver_callbacks(self) -> DeliverCallbacks:
        """Return the service that notifies other systems, such as schedulers, that a job may resume."""
        from faultbridge.repair.jobs.callbacks import DeliverCallbacks

        return DeliverCallbacks(self.jobs, self.installation.ports.job_callbacks)

    @cached_property
    def impact(self) -> JobImpact:
        """Return the service that adds the faults of a node to the records of its jobs."""
        from faultbridge.repair.jobs.job_impact import JobImpact

        return JobImpact(self.jobs)
