"""Annotate the Kubernetes Job of a job that may resume, so that a controller can restart the job."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from faultbridge.adapters.call_results import result_of
from faultbridge.adapters.kubernetes.connection import connections, failure_of
from faultbridge.ports import CallResult, JobNotice, ProviderFailure

if TYPE_CHECKING:
    from faultbridge.adapters.aws.clients import Clients

ANNOTATION = "faultbridge/resumable"
"""The value of the annotation is the id of the event, so that a repeated notice changes nothing."""

_NAME = r"[a-z0-9](?:[-a-z0-9.]{0,61}[a-z0-9])?"
JOB_ID = re.compile(rf"({_NAME})/({_NAME})")


class JobAnnotation:
    """A JobCallback that sets an annotation on Kubernetes Jobs (`batch/v1`) and changes nothing else.

    The job id has the form `NAMESPACE/NAME`.
    """

    def __init__(self, clients: Clients) -> None:
        self._connect = connections(clients)

    @property
    def ordered(self) -> bool:
        """Return False: notices may be delivered in any order, so a failed notice delays no other notice."""
        return False

    def deliver(self, notice: JobNotice) -> CallResult:
        """Set the annotation `faultbridge/resumable` of the Job to the id of the event in the notice.

        Returns a failed result if the annotation could not be set. The failure is NOT_FOUND if the job id does not have
        the form `NAMESPACE/NAME`, or if the Kubernetes cluster has no Job with this name.
        """
        named = JOB_ID.fullmatch(notice.job_id)
        if named is None:
            return CallResult(ProviderFailure.NOT_FOUND, f"not NAMESPACE/NAME of a Job: {notice.job_id}")
        return result_of(lambda: self._annotate(notice, *named.groups()), failure_of)

    def _annotate(self, notice: JobNotice, namespace: str, name: str) -> CallResult:
        from faultbridge.adapters.kubernetes.job_client import annotate_job

        annotate_job(self._connect(notice.cluster), namespace, name, {ANNOTATION: notice.event_id})
        return CallResult(reason=f"Job {notice.job_id} is annotated with {ANNOTATION}")
