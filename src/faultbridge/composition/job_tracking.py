"""Job tracking: builds the services that record training jobs and whether they may resume."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from faultbridge.dataclass import dataclass

if TYPE_CHECKING:
    from faultbridge.composition.installation import Installation
    from faultbridge.jobs.callbacks import DeliverCallbacks
    from faultbridge.jobs.job_impact import JobImpact
    from faultbridge.jobs.jobs import Jobs
    from faultbridge.jobs.progress import JobProgress
    from faultbridge.jobs.report_records import RecordReportRecord
    from faultbridge.jobs.reports import RecordReport
    from faultbridge.jobs.resume import ResumeJobs
    from faultbridge.jobs.verdicts import RecordVerdict


@dataclass(frozen=True)
class JobTracking:
    """Builds the services that record training jobs and the faults that affect them."""

    installation: Installation

    @cached_property
    def jobs(self) -> Jobs:
        """Return the service that records the starts and ends of training jobs."""
        from faultbridge.jobs.jobs import Jobs

        return Jobs(self.installation.ledger.append)

    @cached_property
    def report(self) -> RecordReport:
        """Return the service that records job reports, such as those from the HTTP API."""
        from faultbridge.jobs.jobs import Jobs
        from faultbridge.jobs.reports import RecordReport

        return RecordReport(Jobs(self.installation.ledger.append, marks_nodes=False))

    @cached_property
    def record_report(self) -> RecordReportRecord:
        """Return the service that records the job reports in raw records from the queue."""
        from faultbridge.jobs.report_records import RecordReportRecord

        return RecordReportRecord(self.report)

    @cached_property
    def progress(self) -> JobProgress:
        """Return the service that stores heartbeats of jobs, and records stalls and abnormal training losses."""
        from faultbridge.jobs.progress import JobProgress

        return JobProgress(self.jobs)

    @cached_property
    def deliver_callbacks(self) -> DeliverCallbacks:
        """Return the service that notifies other systems, such as schedulers, that a job may resume."""
        from faultbridge.jobs.callbacks import DeliverCallbacks

        return DeliverCallbacks(self.jobs, self.installation.ports.job_callbacks)

    @cached_property
    def verdict(self) -> RecordVerdict:
        """Return the service that records verdicts on jobs: why a job failed, and whether it may restart."""
        from faultbridge.jobs.verdicts import RecordVerdict

        return RecordVerdict(self.jobs.writer)

    @cached_property
    def impact(self) -> JobImpact:
        """Return the service that adds the faults of a node to the records of its jobs."""
        from faultbridge.jobs.job_impact import JobImpact

        return JobImpact(self.installation.ledger.append, self.jobs)

    @cached_property
    def resume(self) -> ResumeJobs:
        """Return the service that reports which ended jobs may resume."""
        from faultbridge.jobs.resume import ResumeJobs

        return ResumeJobs(self.installation.ledger.append, self.jobs)
