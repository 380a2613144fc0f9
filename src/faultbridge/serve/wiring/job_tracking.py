"""Wire the services that record training jobs and whether they may resume."""

from __future__ import annotations

from typing import TYPE_CHECKING

from faultbridge.serve.wiring.installation import once

if TYPE_CHECKING:
    from faultbridge.repair.jobs.callbacks import DeliverCallbacks
    from faultbridge.repair.jobs.job_impact import JobImpact
    from faultbridge.repair.jobs.jobs import Jobs
    from faultbridge.repair.jobs.progress import JobProgress
    from faultbridge.serve.wiring.installation import Installation


@once
def wire_jobs(app: Installation) -> Jobs:
    """Return the service that records the starts and ends of training jobs."""
    from faultbridge.repair.jobs.jobs import Jobs

    return Jobs(app.append)


@once
def wire_api_jobs(app: Installation) -> Jobs:
    """Return the service that records job reports; the sweep stores the job ids in the states of nodes."""
    from faultbridge.repair.jobs.jobs import Jobs

    return Jobs(app.append, marks_nodes=False)


@once
def wire_job_progress(app: Installation) -> JobProgress:
    """Return the service that stores heartbeats of jobs, and records stalls and abnormal training losses."""
    from faultbridge.repair.jobs.progress import JobProgress

    return JobProgress(wire_jobs(app))


@once
def wire_job_callbacks(app: Installation) -> DeliverCallbacks:
    """Return the service that notifies other systems, such as schedulers, that a job may resume."""
    from faultbridge.repair.jobs.callbacks import DeliverCallbacks

    return DeliverCallbacks(wire_jobs(app), app.ports.job_callbacks)


@once
def wire_job_impact(app: Installation) -> JobImpact:
    """Return the service that adds the faults of a node to the records of its jobs."""
    from faultbridge.repair.jobs.callbacks import DeliverCallbacks
    from faultbridge.repair.jobs.checkpoints import JobCheckpoints
    from faultbridge.repair.jobs.job_impact import JobImpact

    callbacks = DeliverCallbacks(wire_jobs(app), app.ports.checkpoint_callbacks)
    checkpoints = JobCheckpoints(wire_jobs(app), app.rulebook, callbacks)
    return JobImpact(wire_jobs(app), checkpoints, wire_job_progress(app))
