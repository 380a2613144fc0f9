"""Annotate Jobs of a Kubernetes cluster."""

from __future__ import annotations

from collections.abc import Mapping

from lightkube import Client
from lightkube.resources.batch_v1 import Job
from lightkube.types import PatchType

from faultbridge.adapters.kubernetes.client import Kubernetes


def annotate_job(api: Kubernetes, namespace: str, name: str, annotations: Mapping[str, str]) -> None:
    """Set annotations of a Kubernetes Job (`batch/v1`); other fields do not change.

    Raises ApiRejection with status 404 if the Job does not exist.
    """

    def apply(client: Client) -> None:
        patch = {"metadata": {"annotations": dict(annotations)}}
        client.patch(Job, name, patch, namespace=namespace, patch_type=PatchType.MERGE)

    api.call(f"annotating the Job {namespace}/{name}", apply)
