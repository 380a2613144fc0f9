"""Jobs: starts, ends and impacts on the cluster's stream, each recorded once."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.cluster.jobs import Job
from faultbridge.model.errors import Conflict, Rejected
from faultbridge.model.fault_enums import ComponentType, Severity
from faultbridge.model.faults import Component
from faultbridge.model.nodes import NodeKey
from faultbridge.model.values import replace
from faultbridge.record.timeline import Timeline, TimelineQuery
from faultbridge.repair.jobs.changes import Impact
from faultbridge.repair.jobs.job_impact import JobImpact
from faultbridge.repair.jobs.jobs import MAX_NODES, Jobs
from faultbridge.repair.registry.registration import NewNode
from faultbridge.serve.entrypoints.ingest import wire_ingest
from faultbridge.serve.entrypoints.react import wire_react
from faultbridge.serve.entrypoints.sweep import wire_sweep
from faultbridge.serve.ops import react
from tests.builders import arrival, fault, folded, node
from tests.events.validate import assert_valid_event
from tests.ingest.world import LedgerFixture
from tests.world import World as Installation


@pytest.fixture
def world() -> LedgerFixture:
    world = LedgerFixture()
    for number in (1, 2, 3):
        world.register_node(f"n-{number}")
    return world


def jobs(world: LedgerFixture) -> Jobs:
    return Jobs(world.append)


def stream(world: LedgerFixture) -> list[dict[str, Any]]:
    page = world.table.query("CLUSTER#train-a")
    return [json.loads(str(item["body"])) for item in page.items if str(item["sk"]).startswith("ENTRY#")]


def job_events(world: LedgerFixture) -> list[dict[str, Any]]:
    return [body for body in stream(world) if body["metadata"]["event_type"] == "Job Change"]


def test_start_and_end_are_two_valid_events_of_the_clusters_stream(world: LedgerFixture) -> None:
    started = jobs(world).start("train-a", "88213", ["n-2", "n-1"], name="llama")
    world.pass_time(minutes=5)
    ended = jobs(world).end("train-a", "88213", outcome="failed", reason="exit code 1")
    assert (started.nodes, ended.outcome) == (("n-1", "n-2"), "failed")
    started_event, ended_event = job_events(world)
    for event in (started_event, ended_event):
        assert_valid_event(event)
        assert event["metadata"]["stream"] == "train-a"
    assert (started_event["data"]["change"], started_event["data"]["nodes"]) == (
        "started",
        {"count": 2, "listed": ["n-1", "n-2"]},
    )
    assert (ended_event["data"]["change"], ended_event["data"]["outcome"], ended_event["data"]["reason"]) == (
        "ended",
        "failed",
        "exit code 1",
    )


def test_of_more_than_64_conditions_of_a_job_only_the_first_of_each_further_node_is_recorded(
    world: LedgerFixture,
) -> None:
    (condition,) = folded(node(), arrival(fault())).state.active()
    later = [replace(condition, since=condition.since + timedelta(minutes=minute)) for minute in range(66)]
    job = jobs(world).start("train-a", "1", ["n-1", "n-2"], at=condition.since)
    of_first = [Impact("n-1", one, instance_id="i-1") for one in later]
    for _ in range(2):
        for impact in (*of_first, Impact("n-2", condition, instance_id="i-2"), Impact("n-2", later[1])):
            jobs(world).record_impact("train-a", [job.id], impact)
    hits = [event["data"]["hit"]["about"] for event in job_events(world) if event["data"]["change"] == "hit"]
    assert len(hits) == 65
    found = jobs(world).show("train-a", "1")
    assert (len(found.hits), found.affected) == (64, {"n-1": "i-1", "n-2": "i-2"})


def test_a_start_with_microseconds_that_is_reported_again_is_recorded_once(world: LedgerFixture) -> None:
    at = world.clock.now() + timedelta(microseconds=123_456)
    first, again = (jobs(world).start("train-a", "1", ["n-1"], at=at) for _ in range(2))
    assert first == again
    assert [event["data"]["change"] for event in job_events(world)] == ["started"]


def test_a_repeated_start_or_end_is_recorded_once(world: LedgerFixture) -> None:
    for _ in range(2):
        jobs(world).start("train-a", "1", ["n-1"])
    for _ in range(2):
        jobs(world).end("train-a", "1")
    assert [event["data"]["change"] for event in job_events(world)] == ["started", "ended"]


def test_a_repeated_start_adds_what_the_first_did_not_say(world: LedgerFixture) -> None:
    jobs(world).start("train-a", "1", ["n-1", "n-2"])
    jobs(world).start("train-a", "1", ["n-1", "n-2"], name="llama", ranks={"n-1": "0-7", "n-2": "8-15"})
    known = jobs(world).start("train-a", "1", ["n-2", "n-1"], stall_after=timedelta(minutes=5))
    assert (known.name, known.ranks, known.stall_after) == (
        "llama",
        {"n-1": "0-7", "n-2": "8-15"},
        timedelta(minutes=5),
    )
    assert known == jobs(world).find("train-a", "1")
    assert [event["data"]["change"] for event in job_events(world)] == ["started"]


def test_a_job_that_was_read_before_its_end_does_not_overwrite_the_end(world: LedgerFixture) -> None:
    started = jobs(world).start("train-a", "1", ["n-1"])
    ended = jobs(world).end("train-a", "1")
    with pytest.raises(Conflict):
        jobs(world).writer.store(started, replace(started, name="llama"))
    assert jobs(world).show("train-a", "1") == ended


def test_a_requeued_job_starts_again_with_the_same_id(world: LedgerFixture) -> None:
    jobs(world).start("train-a", "1", ["n-1"])
    jobs(world).end("train-a", "1")
    again = jobs(world).start("train-a", "1", ["n-3"])
    assert (again.nodes, again.ended_at) == (("n-3",), None)
    assert jobs(world).find("train-a", "1") == again


def test_the_clusters_stream_has_no_gap_when_a_rollup_happens_in_between(world: LedgerFixture) -> None:
    jobs(world).start("train-a", "1", ["n-1"])
    world.rollup.update("train-a")
    jobs(world).end("train-a", "1")
    sequences = [body["metadata"]["sequence"] for body in stream(world)]
    assert sequences == list(range(1, len(sequences) + 1))


@pytest.mark.parametrize(
    ("reason", "call"),
    [
        ("unknown_cluster", lambda service: service.start("other", "1", ["n-1"])),
        ("unknown_node", lambda service: service.start("train-a", "1", ["n-9"])),
        ("bad_nodes", lambda service: service.start("train-a", "1", [])),
        ("bad_job", lambda service: service.start("train-a", "", ["n-1"])),
        ("unknown_job", lambda service: service.end("train-a", "1")),
        ("bad_outcome", lambda service: service.end("train-a", "1", outcome="unknown")),
    ],
)
def test_invalid_input_is_rejected_with_a_reason(world: LedgerFixture, reason: str, call: Any) -> None:
    with pytest.raises(Rejected) as rejected:
        call(jobs(world))
    assert rejected.value.reason == reason


def test_an_instance_of_another_cluster_is_an_unknown_node(world: LedgerFixture) -> None:
    world.registration.add_cluster(ClusterConfig("train-b"))
    world.registration.add_node("train-b", NewNode("n-1", "i-00000000000000b01"))
    with pytest.raises(Rejected, match="unknown_node"):
        jobs(world).start("train-a", "1", ["i-00000000000000b01"])


def test_a_job_with_the_longest_id_and_the_most_nodes_is_recorded(world: LedgerFixture) -> None:
    job = jobs(world).start("train-a", "x" * 128, ["n-1"] * MAX_NODES)
    assert (job.nodes, [event["data"]["change"] for event in job_events(world)]) == (("n-1",), ["started"])


def test_a_running_job_cannot_start_again_or_end_before_its_start(world: LedgerFixture) -> None:
    started: Job = jobs(world).start("train-a", "1", ["n-1"])
    with pytest.raises(Rejected, match="job_runs"):
        jobs(world).start("train-a", "1", ["n-2"])
    with pytest.raises(Rejected, match="job_runs"):  # another run, the end of which was not reported
        jobs(world).start("train-a", "1", ["n-1"], at=started.started_at + timedelta(minutes=1))
    with pytest.raises(Rejected, match="bad_time"):
        jobs(world).end("train-a", "1", at=started.started_at - timedelta(seconds=1))


def record_impact(world: LedgerFixture, name: str) -> tuple[str, ...]:
    return JobImpact(jobs(world)).record(NodeKey("train-a", name))


def test_a_fault_of_a_node_is_recorded_on_its_jobs_and_on_no_other(world: LedgerFixture) -> None:
    jobs(world).start("train-a", "1", ["n-1", "n-2"])
    jobs(world).start("train-a", "2", ["n-3"])
    world.pass_time(minutes=5)
    world.observe_faults(NodeKey("train-a", "n-2"))
    assert record_impact(world, "n-2") == ("1",)
    hit = job_events(world)[-1]
    assert_valid_event(hit)
    assert (hit["data"]["job_id"], hit["data"]["change"], hit["data"]["ended_at"]) == ("1", "hit", None)
    assert (hit["data"]["hit"]["node"], hit["data"]["hit"]["about"]["code"]) == ("n-2", "xid.79")
    assert (hit["metadata"]["case_id"], hit["metadata"]["severity"]) == (
        world.append.read(NodeKey("train-a", "n-2")).case.id,  # type: ignore[union-attr]  # the fault opened one
        "fatal",
    )


def test_one_fault_is_recorded_once_for_each_job(world: LedgerFixture) -> None:
    jobs(world).start("train-a", "1", ["n-1"])
    world.observe_faults(NodeKey("train-a", "n-1"))
    for _ in range(3):
        record_impact(world, "n-1")
    assert [event["data"]["change"] for event in job_events(world)] == ["started", "hit"]


def test_a_condition_of_the_job_does_not_hide_the_worst_fault_of_its_node(world: LedgerFixture) -> None:
    jobs(world).start("train-a", "1", ["n-1"])
    of_job = fault("train.loss_not_finite", Component(ComponentType.JOB), severity=Severity.FATAL)
    of_node = fault("host.disk_failing", Component(ComponentType.DISK), severity=Severity.ERROR)
    world.observe_faults(NodeKey("train-a", "n-1"), of_job, of_node, fault("xid.63"))
    record_impact(world, "n-1")
    hits = [event["data"]["hit"]["about"]["code"] for event in job_events(world)[1:]]
    assert sorted(hits) == ["host.disk_failing", "train.loss_not_finite"]


def test_a_job_that_ended_or_started_after_the_fault_is_not_affected(world: LedgerFixture) -> None:
    jobs(world).start("train-a", "1", ["n-1"])
    jobs(world).end("train-a", "1")
    world.pass_time(minutes=6)
    world.observe_faults(NodeKey("train-a", "n-1"))
    world.pass_time(minutes=5)
    jobs(world).start("train-a", "2", ["n-1"])
    record_impact(world, "n-1")
    assert [event["data"]["change"] for event in job_events(world)] == ["started", "ended", "started"]


def test_a_fault_that_is_older_than_the_job_and_still_reported_affects_it(world: LedgerFixture) -> None:
    key = NodeKey("train-a", "n-1")
    world.observe_faults(key)
    world.pass_time(minutes=5)
    jobs(world).start("train-a", "1", ["n-1"])
    record_impact(world, "n-1")
    assert [event["data"]["change"] for event in job_events(world)] == ["started"]
    world.pass_time(minutes=5)
    world.observe_faults(key)
    record_impact(world, "n-1")
    assert [event["data"]["change"] for event in job_events(world)] == ["started", "hit"]


def test_the_timeline_of_a_job_contains_its_start_its_impacts_and_its_end(world: LedgerFixture) -> None:
    jobs(world).start("train-a", "1", ["n-1"])
    jobs(world).start("train-a", "2", ["n-2"])
    world.observe_faults(NodeKey("train-a", "n-1"))
    record_impact(world, "n-1")
    world.pass_time(minutes=5)
    jobs(world).end("train-a", "1", outcome="failed")
    lines = list(Timeline(world.table).entries(TimelineQuery("train-a", job="1", types=("Job Change",))))
    assert [json.loads(line.body)["data"]["change"] for line in lines] == ["started", "hit", "ended"]


def test_the_sweep_records_an_impact_that_react_missed() -> None:
    installation = Installation(mode="observe", repair_owner="observe")
    ports, key = installation.ports, installation.node().key
    Jobs(installation.app.append).start(key.cluster, "1", [key.node])
    wire_ingest(installation.app).ingest([installation.message()])
    for _ in range(2):
        assert wire_sweep(installation.app).run().failures == []
    lines = list(Timeline(ports.table).entries(TimelineQuery(key.cluster, job="1", types=("Job Change",))))
    assert [json.loads(line.body)["data"]["change"] for line in lines] == ["started", "hit"]


def test_react_leaves_impacts_to_the_sweep_if_they_take_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    installation = Installation(mode="observe", repair_owner="observe")
    ports, key = installation.ports, installation.node().key
    Jobs(installation.app.append).start(key.cluster, "1", [key.node])
    wire_ingest(installation.app).ingest([installation.message()])
    monkeypatch.setattr(react, "MAX_RECORDING_IMPACT", timedelta(0))
    for update in (
        lambda: wire_react(installation.app).run([(key.cluster, key.node)]),
        wire_sweep(installation.app).run,
    ):
        lines = list(Timeline(ports.table).entries(TimelineQuery(key.cluster, job="1", types=("Job Change",))))
        assert [json.loads(line.body)["data"]["change"] for line in lines] == ["started"]
        update()
    lines = list(Timeline(ports.table).entries(TimelineQuery(key.cluster, job="1", types=("Job Change",))))
    assert [json.loads(line.body)["data"]["change"] for line in lines] == ["started", "hit"]
