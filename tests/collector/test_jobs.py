"""Jobs of a Kubernetes cluster: their pods on the fake API become starts and ends, with nodes, ranks and reasons."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from faultbridge.model.errors import Transient
from faultbridge.model.records import JOB_REPORT
from faultbridge.node.collector.jobs import pod_of
from tests.collector.builders import pod
from tests.collector.cluster import Collected, collected
from tests.waiting import eventually


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Collected]:
    with collected(tmp_path) as made:
        yield made


def kubeflow(name: str, node: str, kind: str, index: int, phase: str = "Running") -> dict[str, Any]:
    prefix = "training.kubeflow.org/"
    labels = {"job-name": "llm", "replica-type": kind, "replica-index": str(index)}
    return pod(name, node, phase, **{prefix + key: value for key, value in labels.items()})


def jobset(name: str, node: str, job: int, index: int, group: str = "workers") -> dict[str, Any]:
    labels = {
        "jobset.sigs.k8s.io/jobset-name": "llm",
        "jobset.sigs.k8s.io/replicatedjob-name": group,
        "jobset.sigs.k8s.io/job-index": str(job),
        "batch.kubernetes.io/job-name": f"llm-workers-{job}",
        "batch.kubernetes.io/job-completion-index": str(index),
    }
    return pod(name, node, **labels)


def reports(world: Collected) -> list[dict[str, Any]]:
    return [json.loads(message.body or b"") for message in world.messages(JOB_REPORT)]


def until(world: Collected, count: int) -> list[dict[str, Any]]:
    return eventually(lambda: found if len(found := reports(world)) >= count else None, 20)


def once(world: Collected, *pods: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the reports of one list of all pods."""
    for one in pods:
        world.cluster.apply_pod(one)
    assert world.collector(jobs=True).run_once(5) is None
    return reports(world)


def test_a_job_starts_when_all_of_its_pods_run_and_ends_with_the_reason_of_the_pod_that_failed(
    world: Collected,
) -> None:
    with world.running(jobs=True):
        for number in (0, 1):
            world.cluster.apply_pod(pod(f"llm-{number}", phase="Pending"))
        world.cluster.apply_pod(pod("llm-0", "gpu-b"))
        world.cluster.apply_pod(pod("llm-1", "gpu-a"))
        (start,) = until(world, 1)
        world.cluster.apply_pod(pod("llm-1", "gpu-a", "Failed"))
        _, end = until(world, 2)
    assert start == {
        "change": "start",
        "job_id": "ml/llm",
        "nodes": ["gpu-a", "gpu-b"],
        "ranks": {"gpu-b": "0-7", "gpu-a": "8-15"},
        "at": "2026-02-03T01:00:00+00:00",
    }
    assert end == {
        "change": "end",
        "job_id": "ml/llm",
        "outcome": "failed",
        "reason": "pod llm-1 on gpu-a: OOMKilled, exit code 137",
        "at": "2026-02-05T00:05:06+00:00",
    }


def test_a_job_whose_pods_are_replaced_runs_again(world: Collected) -> None:
    with world.running(jobs=True):
        world.cluster.apply_pod(pod("llm-0", "gpu-a"))
        until(world, 1)
        world.cluster.apply_pod(pod("llm-0", "gpu-a", "Failed"))
        until(world, 2)
        world.cluster.apply_pod({**(again := pod("llm-0", "gpu-c")), "metadata": {**again["metadata"], "uid": "new"}})
        found = until(world, 3)
    assert [(one["change"], one.get("nodes")) for one in found] == [
        ("start", ["gpu-a"]),
        ("end", None),
        ("start", ["gpu-c"]),
    ]


def test_a_job_succeeds_when_all_of_its_pods_did(world: Collected) -> None:
    with world.running(jobs=True):
        for number in (0, 1):
            world.cluster.apply_pod(pod(f"llm-{number}", f"gpu-{number}"))
        until(world, 1)
        world.cluster.apply_pod(pod("llm-0", "gpu-0", "Succeeded"))
        world.cluster.apply_pod(pod("llm-1", "gpu-1", "Succeeded"))
        assert until(world, 2)[1]["outcome"] == "succeeded"


@pytest.mark.parametrize(("disruption", "outcome"), [("DeletionByTaintManager", "failed"), (None, "unreported")])
def test_a_deleted_pod_ends_its_job_and_a_disruption_is_its_reason(
    world: Collected, disruption: str | None, outcome: str
) -> None:
    with world.running(jobs=True):
        running = pod("llm-0", "gpu-a")
        world.cluster.apply_pod(running)
        until(world, 1)
        if disruption is not None:
            condition = {"type": "DisruptionTarget", "status": "True", "reason": disruption}
            world.cluster.apply_pod({**running, "status": {**running["status"], "conditions": [condition]}})
        world.cluster.delete_pod("uid-llm-0")
        end = until(world, 2)[1]
    assert (end["outcome"], end["reason"]) == (outcome, f"pod llm-0 on gpu-a: {disruption or 'deleted'}")


def test_the_pods_that_kubeflow_deletes_after_its_master_succeeded_do_not_fail_the_job(world: Collected) -> None:
    with world.running(jobs=True):
        world.cluster.apply_pod(kubeflow("llm-master-0", "gpu-a", "master", 0))
        until(world, 1)
        world.cluster.apply_pod(kubeflow("llm-master-0", "gpu-a", "master", 0, "Succeeded"))
        assert until(world, 2)[1]["outcome"] == "succeeded"


@pytest.mark.parametrize("worker", ["Running", "Failed"])
def test_a_kubeflow_job_succeeds_once_with_its_master_whatever_its_worker_does(world: Collected, worker: str) -> None:
    world.cluster.apply_pod(kubeflow("llm-master-0", "gpu-a", "master", 0))
    world.cluster.apply_pod(kubeflow("llm-worker-0", "gpu-b", "worker", 0))
    with world.running(jobs=True):
        world.cluster.apply_pod(kubeflow("llm-master-0", "gpu-a", "master", 0, "Succeeded"))
        world.cluster.apply_pod(kubeflow("llm-worker-0", "gpu-b", "worker", 0, worker))
        world.cluster.delete_pod("uid-llm-worker-0")
        world.cluster.apply_pod(pod("other-0", "gpu-c", **{"job-name": "other"}))  # the changes before it were handled
        found = until(world, 3)
    assert [(one["job_id"], one.get("outcome")) for one in found] == [
        ("ml/llm", None),
        ("ml/llm", "succeeded"),
        ("ml/other", None),
    ]


def test_ranks_follow_the_labels_of_kubeflow_and_of_a_job_set(world: Collected) -> None:
    (start,) = once(
        world,
        kubeflow("llm-worker-0", "gpu-b", "worker", 0),
        kubeflow("llm-worker-1", "gpu-c", "worker", 1),
        kubeflow("llm-master-0", "gpu-a", "master", 0),
    )
    assert start["ranks"] == {"gpu-a": "0-7", "gpu-b": "8-15", "gpu-c": "16-23"}


def test_ranks_follow_the_jobs_of_a_job_set(world: Collected) -> None:
    pods = [jobset(f"w-{job}{index}", f"gpu-{job}{index}", job, index) for job in (1, 0) for index in (1, 0)]
    (start,) = once(world, *pods)
    assert (start["job_id"], start["ranks"]) == (
        "ml/llm",
        {"gpu-00": "0-7", "gpu-01": "8-15", "gpu-10": "16-23", "gpu-11": "24-31"},
    )


@pytest.mark.parametrize(
    "pods",
    [
        [pod("llm-0", "gpu-a", **{"job-name": "llm"})],
        [pod("llm-1", "gpu-a")],
        [pod("llm-0", "gpu-a"), pod("llm-2", "gpu-b")],
        [pod("llm-0", "gpu-a"), pod("llm-1", "gpu-a")],
        [pod("llm-0", "gpu-a"), pod("llm-1", "gpu-b", gpus=4)],
        [jobset("l-0", "gpu-a", 0, 0, "leader"), jobset("w-0", "gpu-b", 1, 0)],
    ],
    ids=["no index", "a pod is missing", "a gap", "two pods on one node", "different numbers of GPUs", "two groups"],
)
def test_ranks_that_the_labels_leave_open_are_not_reported(world: Collected, pods: list[dict[str, Any]]) -> None:
    (start,) = once(world, *pods)
    assert start["ranks"] == {}


def test_a_restart_reports_the_same_again_with_the_same_record_ids(world: Collected) -> None:
    once(world, pod("llm-0", "gpu-a"), pod("llm-1", "gpu-b"))
    once(world)
    first, second = world.messages(JOB_REPORT)
    assert (first.record_id, first.body) == (second.record_id, second.body)


def test_a_job_that_ended_before_the_list_is_reported_with_its_last_attempt(world: Collected) -> None:
    retried = pod("llm-0", "gpu-c", "Succeeded")
    retried["metadata"]["uid"], retried["status"]["startTime"] = "new", "2026-02-03T02:00:00Z"
    start, end = once(world, pod("llm-0", "gpu-a", "Failed"), retried)
    assert (start["nodes"], end["outcome"]) == (["gpu-c"], "succeeded")


def test_a_start_and_an_end_that_find_no_room_on_disk_are_reported_when_the_pod_is_handled_again(
    world: Collected,
) -> None:
    collector = world.collector(jobs=True)
    spool, unmounted = world.folder / "spool", world.folder / "unmounted"
    for state in (pod("llm-0", "gpu-a"), pod("llm-0", "gpu-a", "Failed")):
        spool.rename(unmounted)
        with pytest.raises(Transient, match="no room on disk"):
            collector.followers[-1].handler.handle(state)
        unmounted.rename(spool)
        collector.followers[-1].handler.handle(state)
    world.cluster.apply_pod(state)
    assert collector.run_once(5) is None
    assert [one["change"] for one in reports(world)] == ["start", "end"]


def test_pods_without_gpus_or_without_a_job_and_hostile_pods_are_ignored(world: Collected) -> None:
    no_gpus = pod("llm-0", "gpu-a")
    no_gpus["spec"]["containers"] = [{"name": "web"}]
    hostile: list[Any] = [
        {},
        {"metadata": 1, "spec": [], "status": None},
        pod("llm-0", "gpu-a", app="web"),
        {**pod("llm-0"), "metadata": {"labels": {"job-name": ["x"]}}},
        {**pod("llm-0"), "spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "-1"}}}]}},
        {**pod("llm-0"), "spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "9" * 30}}}]}},
    ]
    assert [pod_of(one) for one in (no_gpus, *hostile)] == [None] * 7
    strange = {**pod("llm-0", "a b\n"), "status": {"phase": 7, "startTime": "x", "containerStatuses": {}}}
    found = pod_of(strange)
    assert found is not None
    assert (found.node, found.started_at) == (None, None)
