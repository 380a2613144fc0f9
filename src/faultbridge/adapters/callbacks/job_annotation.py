"""Annotates the Kubernetes Job of a job that may resume, for the controller that restarts it."""

from __future__ import annotations

import re
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING

from faultbridge.errors import FaultbridgeError, Misconfigured, Transient
from faultbridge.ports import CallResult, JobNotice, ProviderFailure

if TYPE_CHECKING:
    from faultbridge.adapters.aws.clients import Clients
    from faultbridge.adapters.kubernetes.client import Kubernetes
    from faultbridge.domain.cluster.config import ClusterConfig

ANNOTATION = "faultbridge/resumable"
"""Its value is the id of the event, so that a repeated notice changes nothing."""

_NAME = r"[a-z0-9](?:[-a-z0-9.]{0,61}[a-z0-9])?"
JOB_ID = re.compile(rf"({_NAME})/({_NAME})")


class JobAnnotation:
    """A JobCallback for `batch/v1` Jobs; the id of the job is `NAMESPACE/NAME`. Only the annotation is changed."""

    def __init__(self, connect: Callable[[ClusterConfig], Kubernetes]) -> None:
        self._connect = connect

    @property
    def ordered(self) -> bool:
        """Return False: a job that cannot be annotated does not delay another."""
        return False

    def deliver(self, notice: JobNotice) -> CallResult:
        """Set the annotation of the Job."""
        named = JOB_ID.fullmatch(notice.job_id)
        if named is None:
            return CallResult(ProviderFailure.NOT_FOUND, f"not NAMESPACE/NAME of a Job: {notice.job_id}")
        try:
            self._annotate(notice, *named.groups())
        except Transient as error:
            return CallResult(ProviderFailure.TIMEOUT, str(error), no_response=True)
        except FaultbridgeError as error:
            return CallResult(_failure(error), str(error))
        return CallResult(reason=f"Job {notice.job_id} is annotated with {ANNOTATION}")

    def _annotate(self, notice: JobNotice, namespace: str, name: str) -> None:
        from faultbridge.adapters.kubernetes.job_client import annotate_job

        annotate_job(self._connect(notice.cluster), namespace, name, {ANNOTATION: notice.event_id})


def _failure(error: FaultbridgeError) -> ProviderFailure:
    status = getattr(error, "status", None)
    if status == HTTPStatus.NOT_FOUND:
        return ProviderFailure.NOT_FOUND
    if status in {HTTPStatus.CONFLICT, HTTPStatus.TOO_MANY_REQUESTS}:
        return ProviderFailure.THROTTLED
    return ProviderFailure.PERMISSION_DENIED


def connect(clients: Clients) -> Callable[[ClusterConfig], Kubernetes]:
    """Return a function that connects to the EKS cluster of a registration, as the orchestrator does."""

    def connected(config: ClusterConfig) -> Kubernetes:
        from faultbridge.adapters.kubernetes.client import eks

        if config.eks_cluster is None:
            raise Misconfigured(f"no EKS cluster is registered for {config.cluster}; set --eks-cluster")
        return eks(clients.for_role(config.provider_role), config.eks_cluster)

    return connected
