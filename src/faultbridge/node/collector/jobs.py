"""Stores reports of training jobs: a job starts when all of its active pods are running.

A job ends when its leading pod (the master of a Kubeflow job) succeeds, when all pods have succeeded, when a pod fails,
or when a pod is deleted before it has finished.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from faultbridge.decode.frames.values import members, number, objects_in, text
from faultbridge.model import names
from faultbridge.model.cluster.jobs import ranks_in_order
from faultbridge.model.records import JOB_REPORT
from faultbridge.model.times import from_text
from faultbridge.node.collector.handlers import CollectedRecord, Handler, RecordStore

# A pod is read for its job, node, number of GPUs, position in the job, and state. Users write the labels of their pods,
# so every field is untrusted.

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
    """A pod of a training job with GPUs; `order` sorts it in its `group`, a JobSet's replicated job.

    The success of a pod that `leads` is the success of the job. `disruption` is why Kubernetes ends the pod, such as
    `PreemptionByScheduler`.
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


def pod_of(pod: Mapping[str, object]) -> JobPod | None:
    """Parse a training job's pod with 1 to 64 GPUs and valid names; returns None for any other pod."""
    metadata, spec, status = (members(pod.get(part)) for part in ("metadata", "spec", "status"))
    labels = members(metadata.get("labels"))
    job_label = next((one for one in JOB_LABELS if text(labels.get(one), _MAX_NAME)), None)
    fields = (metadata.get("uid"), metadata.get("name"), metadata.get("namespace"))
    uid, name, namespace = (text(value, _MAX_NAME) for value in fields)
    limits = (members(members(one.get("resources")).get("limits")) for one in objects_in(spec.get("containers")))
    gpus = sum(number(one.get(GPU)) or 0 for one in limits)
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


def _order(job_label: str, labels: Mapping[str, object]) -> tuple[int, int] | None:
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


def _time(value: object) -> datetime | None:
    try:
        return from_text(str(value)) if value else None
    except (ValueError, OverflowError):
        return None


def _reason(status: Mapping[str, object], ends: Iterable[Mapping[str, object]]) -> str:
    """Return why a pod ended, without messages, because these contain data of users."""
    parts = [text(status.get("reason"), _MAX_REASON), _disruption(status)]
    failed = next((one for one in ends if number(one.get("exitCode")) != 0 and one), None)
    if failed is not None:
        parts += [text(failed.get("reason"), _MAX_REASON), f"exit code {number(failed.get('exitCode'))}"]
    found = ", ".join(one for one in dict.fromkeys(parts) if one and one.isprintable())
    return found or str(text(status.get("phase"), 16))


def _disruption(status: Mapping[str, object]) -> str | None:
    for one in objects_in(status.get("conditions")):
        if one.get("type") == "DisruptionTarget" and one.get("status") == "True":
            reason = text(one.get("reason"), _MAX_REASON)
            return reason if reason and reason.isprintable() else None
    return None


@dataclass(slots=True)
class JobHandler(Handler):
    """Reports the start and the end of job runs, derived from the pods of each job.

    - Ingest ignores a repeated report, so all jobs may be reported again after the follower has listed all pods.
    - `_runs` maps a job id to the pods of the run whose start was reported.
    - `_ended` maps a job id to the pods of the last run that ended. These pods start no new run.
    """

    store: RecordStore
    _pods: dict[str, dict[str, JobPod]] = field(default_factory=dict)
    _runs: dict[str, frozenset[str]] = field(default_factory=dict)
    _ended: dict[str, frozenset[str]] = field(default_factory=dict)
    _listed: set[str] | None = None

    def handle(self, pod: Mapping[str, object], /) -> None:
        """Store the state of a pod, and report its job if this state starts or ends a run."""
        found = pod_of(pod)
        if found is None:
            return
        self._pods.setdefault(found.job_id, {})[found.uid] = found
        if self._listed is None:
            self._report(found.job_id)
        else:
            self._listed.add(found.uid)

    def remove(self, pod: Mapping[str, object], /) -> None:
        """Remove a deleted pod. If it was active in the current run of its job, the run ends."""
        found = pod_of(pod)
        if found is not None:
            self._remove([found])

    def begin_list(self) -> None:
        """Prepare to receive all pods. No job is reported until `end_list` is called."""
        self._listed = set()

    def end_list(self) -> None:
        """Report the jobs of the listed pods. Stored pods that were not listed count as deleted."""
        listed, self._listed = self._listed or set(), None
        known = [pod for pods in self._pods.values() for pod in pods.values()]
        self._remove([pod for pod in known if pod.uid not in listed])
        for job_id in list(self._pods):
            self._report(job_id)
            self._report_finished(job_id)

    def _remove(self, pods: Collection[JobPod]) -> None:
        for one in pods:
            self._pods.setdefault(one.job_id, {})[one.uid] = replace(one, phase=DELETED) if one.is_active else one
        for job_id in sorted({one.job_id for one in pods}):
            self._report(job_id)
        for one in pods:
            left = self._pods[one.job_id]
            del left[one.uid]
            if not left:
                for known in (self._pods, self._runs, self._ended):
                    known.pop(one.job_id, None)

    def _report(self, job_id: str) -> None:
        """Report the end of the current run, then a new run: all active pods run, and one is new."""
        pods, run = self._pods[job_id], self._runs.get(job_id)
        end = end_of(pods[uid] for uid in run if uid in pods) if run is not None else None
        if run is not None and end is not None:
            self._store({"change": "end", "job_id": job_id, **end})
            self._ended[job_id] = self._runs.pop(job_id)
        active = [one for one in pods.values() if one.is_active]
        is_new = not {one.uid for one in active} <= self._ended.get(job_id, frozenset())
        if job_id not in self._runs and is_new and all(one.phase == RUNNING and one.node for one in active):
            self._store_start(job_id, active)

    def _report_finished(self, job_id: str) -> None:
        """Report a job that started and ended while the collector was stopped."""
        pods = list(self._pods[job_id].values())
        if job_id in self._runs or job_id in self._ended or any(one.is_active or not one.node for one in pods):
            return
        latest: dict[object, JobPod] = {}
        for one in sorted(pods, key=lambda pod: pod.started_at.timestamp() if pod.started_at else 0.0):
            latest[(one.group, one.order) if one.order else one.uid] = one
        self._store_start(job_id, list(latest.values()))
        self._report(job_id)

    def _store_start(self, job_id: str, pods: Collection[JobPod]) -> None:
        times = [one.started_at.isoformat() for one in pods if one.started_at]
        nodes = sorted({str(one.node) for one in pods})
        report = {"change": "start", "job_id": job_id, "nodes": nodes, "ranks": ranks_of_pods(pods)}
        self._store(report | ({"at": max(times)} if times else {}))
        self._runs[job_id] = frozenset(one.uid for one in pods)

    def _store(self, report: Mapping[str, object]) -> None:
        body = json.dumps(report, sort_keys=True).encode()
        record_id = f"k8s-job-{hashlib.sha256(body).hexdigest()[:32]}"
        self.store.store(CollectedRecord(JOB_REPORT, None, body, record_id=record_id))
