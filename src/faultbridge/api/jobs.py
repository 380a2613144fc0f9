"""Handlers for the routes of jobs, one method per route."""

from __future__ import annotations

from faultbridge.api.paging import Paging
from faultbridge.api.requests import MAX_LENGTH, Request
from faultbridge.dataclass import dataclass
from faultbridge.domain.cluster.jobs import Job
from faultbridge.errors import UnknownName
from faultbridge.jobs.reports import MAX_REPORT, RecordReport
from faultbridge.ports import Clock
from faultbridge.registry.documents import Document
from faultbridge.registry.job_views import JobViews, job_document
from faultbridge.registry.views import Views


@dataclass(frozen=True, slots=True)
class JobHandlers:
    """Handles requests about the jobs of one cluster."""

    directory: Views
    jobs: JobViews
    record_report: RecordReport
    paging: Paging
    clock: Clock

    def list(self, request: Request) -> Document:
        """List the followed jobs one page at a time; with `id`, list only this job.

        A followed job runs, or it ended and may still be reported as resumable. `id` also finds any other ended job.
        """
        request.check_parameters("id", "limit", "token")
        self.directory.cluster(request.cluster)
        job_id = request.text("id")
        if job_id is not None:
            return self.paging.page(request, "jobs", [self._document(self.jobs.job(request.cluster, job_id))], None)
        limit, last_id = self.paging.read(request, "jobs")
        found, more = self.jobs.page(request.cluster, last_id, limit)
        return self.paging.page(request, "jobs", [self._document(one) for one in found], more)

    def report(self, request: Request) -> Document:
        """Record that a job started, ended or reached a step."""
        request.check_parameters()
        report = request.json_body(MAX_REPORT)
        self.directory.cluster(request.cluster)
        return self._document(self.record_report(request.cluster, report))

    def show(self, request: Request) -> Document:
        """Show one job by its id. For an id that contains `/` or `%`, use `listJobs` with `id`."""
        request.check_parameters()
        job_id = request.path["job"]
        if not job_id.isprintable() or len(job_id) > MAX_LENGTH:
            raise UnknownName("job", job_id[:MAX_LENGTH])
        return self._document(self.jobs.job(request.cluster, job_id))

    def _document(self, job: Job) -> Document:
        return job_document(job, self.clock.now())
