"""Stores reports of training jobs: a job starts when all of its active pods are running.

A job ends when its leading pod (the master of a Kubeflow job) succeeds, when all pods have succeeded, when a pod fails,
or when a pod is deleted before it has finished.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from faultbridge.collector.handlers import RecordStore
from faultbridge.collector.job_pods import DELETED, RUNNING, JobPod, end_of, pod_of, ranks_of_pods
from faultbridge.collector.node_records import CollectedRecord
from faultbridge.domain.records import JOB_REPORT


@dataclass(slots=True)
class JobHandler:
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

    def handle(self, pod: Mapping[str, Any]) -> None:
        """Store the state of a pod, and report its job if this state starts or ends a run."""
        found = pod_of(pod)
        if found is None:
            return
        self._pods.setdefault(found.job_id, {})[found.uid] = found
        if self._listed is None:
            self._report(found.job_id)
        else:
            self._listed.add(found.uid)

    def remove(self, pod: Mapping[str, Any]) -> None:
        """Remove a deleted pod. If the pod was active in the current run of its job, the run ends."""
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
        """Report the end of a job's current run, and the start of a new run, if they have happened.

        A new run has started when all active pods are running, and one of them was not in the last run that ended.
        """
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
        """Report the start and the end of a job that had ended before the collector listed its pods.

        This happens if the job ended while the collector was stopped.
        """
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

    def _store(self, report: Mapping[str, Any]) -> None:
        body = json.dumps(report, sort_keys=True).encode()
        record_id = f"k8s-job-{hashlib.sha256(body).hexdigest()[:32]}"
        self.store.store(CollectedRecord(JOB_REPORT, None, body, record_id=record_id))
