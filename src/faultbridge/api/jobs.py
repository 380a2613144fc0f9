"""Job handlers: the routes of jobs, one method per route."""

from __future__ import annotations

from dataclasses import dataclass

from faultbridge.api.requests import MAX_LENGTH, Request
from faultbridge.errors import UnknownName
from faultbridge.jobs.reports import MAX_REPORT, RecordReport
from faultbridge.registry.documents import Document
from faultbridge.registry.job_views import JobViews, job_document
from faultbridge.registry.views import Views


@dataclass(frozen=True, slots=True)
class JobHandlers:
    """Handles requests about the jobs of one cluster."""

    directory: Views
    jobs: JobViews
    record_report: RecordReport

    def list(self, request: Request) -> Document:
        """List the jobs that run, and the failed ones whose faulty nodes are not back yet, at most 100."""
        request.check_parameters()
        self.directory.cluster(request.cluster)
        return {"items": [job_document(one) for one in self.jobs.followed(request.cluster)]}

    def report(self, request: Request) -> Document:
        """Record that a job started, ended or reached a step. The same report again changes nothing."""
        request.check_parameters()
        report = request.json_body(MAX_REPORT)
        self.directory.cluster(request.cluster)
        return job_document(self.record_report(request.cluster, report))

    def show(self, request: Request) -> Document:
        """Show a job."""
        request.check_parameters()
        return job_document(self.jobs.job(request.cluster, job_id_of(request)))


def job_id_of(request: Request) -> str:
    """Return the job id of a path, which a scheduler chose."""
    job_id = request.path["job"]
    if not job_id.isprintable() or len(job_id) > MAX_LENGTH:
        raise UnknownName("job", job_id[:MAX_LENGTH])
    return job_id
