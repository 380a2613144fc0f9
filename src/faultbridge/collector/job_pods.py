"""Parses the Kubernetes pods of training jobs; finds the ranks of nodes and the end of a run.

A pod is read for its job, node, number of GPUs, position in the job, and state. Users write the labels of their pods,
so every field is untrusted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from faultbridge.decoders.common.fields import members, number, objects_in, text
from faultbridge.domain import names
from faultbridge.domain.cluster.ranks import ranks_in_order
from faultbridge.domain.times import from_text

JOBSET, KUBEFLOW, BATCH = "jobset.sigs.k8s.io/", "training.kubeflow.org/", "batch.kubernetes.io/"
JOB_LABELS = (f"{JOBSET}jobset-name", f"{KUBEFLOW}job-name", f"{BATCH}job-name", "job-name")
"""The labels that name the job of a pod, outermost first."""

GPU = "nvidia.com/gpu"
PENDING, RUNNING, SUCCEEDED, FAILED, DELETED = "Pending", "Running", "Succeeded", "Failed", "Deleted"
MAX_GPUS = 64
_MAX_NAME = 253
_MAX_REASON = 64


@dataclass(frozen=True, slots=True)
class JobPod:
    """A pod of a training job that has GPUs.

    - `group`: the name of the pod's replicated job in a JobSet, "" in any other job
    - `order`: the position of the pod in its group, as two numbers that sort the pods; None if no label states it
    - `leads`: whether the success of this pod is the success of the job
    - `disruption`: the reason why Kubernetes ends the pod, such as `PreemptionByScheduler`; None without a disruption
    """

    uid: str
    name: str
    job_id: str
    node: str | None
    phase: str
    gpus: int
    order: tuple[int, int] | None
    group: str
    leads: bool
    started_at: datetime | None
    finished_at: datetime | None
    reason: str
    disruption: str | None

    @property
    def is_active(self) -> bool:
        """Return whether the pod runs or has not started yet."""
        return self.phase not in {SUCCEEDED, FAILED, DELETED}


def pod_of(pod: Mapping[str, Any]) -> JobPod | None:
    """Parse a pod of a training job that has GPUs; returns None for any other pod.

    The result is also None if the pod has more than 64 GPUs, or no valid uid, name or namespace.
    """
    metadata, spec, status = (members(pod.get(part)) for part in ("metadata", "spec", "status"))
    labels = members(metadata.get("labels"))
    job_label = next((one for one in JOB_LABELS if text(labels.get(one), _MAX_NAME)), None)
    fields = (metadata.get("uid"), metadata.get("name"), metadata.get("namespace"))
    uid, name, namespace = (text(value, _MAX_NAME) for value in fields)
    gpus = sum(_gpus(one) for one in objects_in(spec.get("containers")))
    if job_label is None or uid is None or name is None or namespace is None or not 0 < gpus <= MAX_GPUS:
        return None
    node = text(spec.get("nodeName"), _MAX_NAME)
    ends = [members(members(one.get("state")).get("terminated")) for one in objects_in(status.get("containerStatuses"))]
    finished = [at for one in ends if (at := _time(one.get("finishedAt"))) is not None]
    return JobPod(
        uid=uid,
        name=name,
        job_id=f"{namespace}/{text(labels[job_label], _MAX_NAME)}",
        node=node if node and names.NODE_NAME.fullmatch(node) else None,
        phase=text(status.get("phase"), 16) or PENDING,
        gpus=gpus,
        order=_order(job_label, labels),
        group=text(labels.get(f"{JOBSET}replicatedjob-name"), _MAX_NAME) or "",
        leads=labels.get(f"{KUBEFLOW}replica-type") == "master",
        started_at=_time(status.get("startTime")),
        finished_at=max(finished, default=None),
        reason=_reason(status, ends),
        disruption=_disruption(status),
    )


def ranks_of_pods(pods: Collection[JobPod]) -> dict[str, str]:
    """Return the training ranks of each node: one rank for each GPU, in the order of the pods.

    The ranks of a node are a text such as `0-7`. The result is empty if the ranks are ambiguous:

    - a pod has no node, or its labels do not state its position (`JobPod.order`)
    - the positions of the pods have a gap, or two pods have the same position
    - pods differ in their number of GPUs or in their group
    - two pods run on one node
    """
    placed = sorted((one.order, one.node) for one in pods if one.order is not None and one.node is not None)
    firsts = dict.fromkeys(order[0] for order, _ in placed)
    expected = [(first, second) for first in firsts for second in range(sum(order[0] == first for order, _ in placed))]
    is_complete = len(placed) == len(pods) and [order for order, _ in placed] == expected
    if not is_complete or len({one.gpus for one in pods}) != 1 or len({one.group for one in pods}) != 1:
        return {}
    nodes = [node for _, node in placed]
    return ranks_in_order(nodes, next(iter(pods)).gpus) if len(set(nodes)) == len(nodes) else {}


def end_of(pods: Iterable[JobPod]) -> dict[str, str] | None:
    """Return how the run of these pods ended, or None while the run continues.

    The result has the fields of a job report: `outcome` (`succeeded`, `failed` or `unreported`), `reason`, and the time
    `at`. `at` is the end of the pod that the reason names; the field is missing if this pod states no end.
    """
    found = list(pods)
    failed = sorted((one for one in found if one.phase == FAILED), key=_finished)
    deleted = [one for one in found if one.phase == DELETED]
    if any(one.leads and one.phase == SUCCEEDED for one in found):
        return _end("succeeded", max((one for one in found if one.leads), key=_finished), "succeeded")
    if failed:
        return _end("failed", failed[0], failed[0].reason)
    if deleted:
        disrupted = next((one for one in deleted if one.disruption), None)
        if disrupted is not None:
            return _end("failed", disrupted, str(disrupted.disruption))
        return _end("unreported", deleted[0], "deleted")
    if found and all(one.phase == SUCCEEDED for one in found):
        return _end("succeeded", max(found, key=_finished), "succeeded")
    return None


def _end(outcome: str, pod: JobPod, reason: str) -> dict[str, str]:
    at = {"at": pod.finished_at.isoformat()} if pod.finished_at else {}
    return {"outcome": outcome, "reason": f"pod {pod.name} on {pod.node}: {reason}"[:512], **at}


def _finished(pod: JobPod) -> tuple[bool, float]:
    return pod.finished_at is None, pod.finished_at.timestamp() if pod.finished_at else 0.0


def _order(job_label: str, labels: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return the position of a pod among the pods of its group, or None if the labels do not state it.

    The group is the replicated job in a JobSet, or the whole job. A position is two numbers that sort the pods. The
    first number depends on the kind of job:

    - Kubeflow: 0 for the master pod, 1 for worker pods
    - JobSet: the index of the child job
    - single Job: 0

    The second number is the index of the pod among the pods with the same first number.
    """
    completion = number(labels.get(f"{BATCH}job-completion-index"))
    if job_label.startswith(KUBEFLOW):
        first = {"master": 0, "worker": 1}.get(str(labels.get(f"{KUBEFLOW}replica-type")))
        second = number(labels.get(f"{KUBEFLOW}replica-index"))
    elif job_label.startswith(JOBSET):
        first, second = number(labels.get(f"{JOBSET}job-index")), completion
    else:
        first, second = 0, completion
    return (first, second) if first is not None and second is not None else None


def _gpus(container: Mapping[str, Any]) -> int:
    return number(members(members(container.get("resources")).get("limits")).get(GPU)) or 0


def _time(value: object) -> datetime | None:
    try:
        return from_text(str(value)) if value else None
    except (ValueError, OverflowError):
        return None


def _reason(status: Mapping[str, Any], ends: Iterable[Mapping[str, Any]]) -> str:
    """Return why a pod ended, without messages, because messages contain data of users.

    `ends` contains the end of each container. Without a reason, the result is the phase of the pod.
    """
    parts = [text(status.get("reason"), _MAX_REASON), _disruption(status)]
    failed = next((one for one in ends if number(one.get("exitCode")) != 0 and one), None)
    if failed is not None:
        parts += [text(failed.get("reason"), _MAX_REASON), f"exit code {number(failed.get('exitCode'))}"]
    found = ", ".join(one for one in dict.fromkeys(parts) if one and one.isprintable())
    return found or str(text(status.get("phase"), 16))


def _disruption(status: Mapping[str, Any]) -> str | None:
    for one in objects_in(status.get("conditions")):
        if one.get("type") == "DisruptionTarget" and one.get("status") == "True":
            reason = text(one.get("reason"), _MAX_REASON)
            return reason if reason and reason.isprintable() else None
    return None
