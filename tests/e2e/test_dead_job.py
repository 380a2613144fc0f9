"""Why did my job die at hour 47, and may it resume: one job that hardware ended, and one that its program ended."""

from __future__ import annotations

import json

import pytest

from faultbridge.model.enums import CaseStatus
from tests.e2e.harness.installation import Installation
from tests.e2e.scenarios.dead_job import DIED_OF_PYTHON, LOST_BY_GPU, DeadJobs

pytestmark = [pytest.mark.embedded, pytest.mark.nightly]


def test_explain_names_the_device_the_case_and_the_repair(installation: Installation, dead_jobs: DeadJobs) -> None:
    verdict = dead_jobs.by_gpu
    assert (verdict["verdict"], verdict["nodes"]) == ("RESTART_WITHOUT", [dead_jobs.node])
    assert (verdict["mechanism"], verdict["hardware"]["state"]) == ("gpu_lost", "blamed")
    lead = verdict["causes"][0]["for"][0]["signal"]
    assert (lead["name"], lead["node"]) == ("xid.79", dead_jobs.node)
    (device,) = verdict["devices"]
    assert (device["node"], device["pci"], device["index"], device["rank"]) == (dead_jobs.node, "0000:51:00", 5, 21)
    (case,) = installation.cases(dead_jobs.cluster)
    (repair,) = verdict["repairs"]
    assert (repair["node"], repair["case_id"], repair["case_status"]) == (dead_jobs.node, case.id, CaseStatus.RESOLVED)
    assert (repair["repair_action"], repair["resolution"]) == ("replace_node", "replaced")


def test_exactly_one_callback_arrives_after_the_verified_repair(
    installation: Installation, dead_jobs: DeadJobs
) -> None:
    assert len(dead_jobs.callbacks) == 1
    (event,) = dead_jobs.resumable
    assert (event["data"]["job_id"], event["data"]["change"]) == (LOST_BY_GPU, "resumable")
    assert event["data"]["resume"]["replaced"]["listed"] == [dead_jobs.node]
    (move,) = event["data"]["resume"]["moves"]
    new_instance = installation.instance_of(dead_jobs.cluster, dead_jobs.node)
    assert (move["node"], move["ranks"]) == (dead_jobs.node, "16-23")
    assert (move["from_instance_id"], move["to_instance_id"]) == (dead_jobs.old_instance, new_instance)
    state = installation.states(dead_jobs.cluster)[dead_jobs.node]
    assert (state.unverified, state.incarnation is not None) == (False, True)
    assert installation.instance_of(dead_jobs.cluster, dead_jobs.node) != dead_jobs.old_instance
    assert dead_jobs.jobs[LOST_BY_GPU]["state"] == "resumable"


def test_the_topic_for_jobs_receives_the_same_event_once(dead_jobs: DeadJobs) -> None:
    (message,) = dead_jobs.published
    event = json.loads(message["Body"])
    assert event == dead_jobs.resumable[0]
    attributes = {name: one["StringValue"] for name, one in message["MessageAttributes"].items()}
    expected = {"event_id": dead_jobs.callbacks[0], "cluster": dead_jobs.cluster, "job_id": LOST_BY_GPU}
    assert attributes == expected


def test_a_job_that_only_events_on_the_bus_report_is_known_with_its_nodes_ranks_and_end(dead_jobs: DeadJobs) -> None:
    job = dead_jobs.jobs[DIED_OF_PYTHON]
    assert (job["nodes"], job["ranks"]["node-003"]) == ([f"node-{number:03}" for number in range(4)], "24-31")
    assert (job["outcome"], job["state"]) == ("failed", "ended")
    assert job["started_at"] <= job["ended_at"]


def test_a_job_that_died_of_a_python_error_on_the_same_nodes_acquits_the_hardware(dead_jobs: DeadJobs) -> None:
    verdict = dead_jobs.by_python
    assert (verdict["verdict"], verdict["nodes"], verdict["domain"]) == ("STOP", [], "software")
    assert verdict["hardware"]["state"] == "acquitted"
    assert verdict["repairs"] == []
    assert dead_jobs.jobs[DIED_OF_PYTHON]["affected_nodes"] == []
    assert dead_jobs.jobs[DIED_OF_PYTHON]["verdict"]["outlook"] == "STOP"


def test_the_published_events_of_the_nodes_name_the_job_that_runs_there(
    installation: Installation, dead_jobs: DeadJobs
) -> None:
    delivered = [seen[0]["detail"] for seen in installation.events.deliveries(dead_jobs.cluster).values()]
    in_order = sorted(delivered, key=lambda one: one["metadata"]["recorded_at"])
    start, end = (
        next(
            one["metadata"]["recorded_at"]
            for one in in_order
            if one["data"].get("job_id") == LOST_BY_GPU and one["data"].get("change") == change
        )
        for change in ("started", "ended")
    )
    of_nodes = [one["metadata"] for one in in_order if one["metadata"]["node"] is not None]
    before = [one["job_ids"] for one in of_nodes if one["recorded_at"] < start]
    fault = next(one["metadata"] for one in in_order if one["metadata"]["event_type"] == "Node Fault Detected")
    assert start < fault["recorded_at"] < end
    assert fault["job_ids"] == [LOST_BY_GPU]
    assert before == [[]] * len(before)
    assert {tuple(one["job_ids"]) for one in of_nodes} <= {(), (LOST_BY_GPU,), (DIED_OF_PYTHON,)}


def test_the_timeline_of_the_job_contains_its_fault_its_repair_and_its_verdict(dead_jobs: DeadJobs) -> None:
    types = [entry["metadata"]["event_type"] for entry in dead_jobs.timeline]
    assert {"Node Fault Detected", "Case Status Change", "Node Replacement Step", "Job Explained"} <= set(types)
    changes = [one["data"]["change"] for one in dead_jobs.timeline if one["metadata"]["event_type"] == "Job Change"]
    assert changes == ["started", "hit", "ended", "resumable", "notified", "notified"]
