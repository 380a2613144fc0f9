"""Jobs: their starts and ends on the cluster's stream, once however often they are told."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from faultbridge.domain.jobs import Job
from faultbridge.domain.nodes import NodeKey
from faultbridge.errors import Rejected
from faultbridge.jobs.job_impact import JobImpact
from faultbridge.jobs.jobs import MAX_NODES, Jobs
from faultbridge.ledger.timeline import Timeline, Wanted
from tests.events.validate import assert_valid_event
from tests.ingest.world import World
from tests.world import World as Installation


@pytest.fixture
def world() -> World:
    made = World()
    for number in (1, 2, 3):
        made.register_node(f"n-{number}")
    return made


def jobs(world: World) -> Jobs:
    return Jobs(world.table, world.clock, world.stack)


def stream(world: World) -> list[dict[str, Any]]:
    page = world.table.query("CLUSTER#train-a")
    return [json.loads(str(item["body"])) for item in page.items if str(item["sk"]).startswith("ENTRY#")]


def told(world: World) -> list[dict[str, Any]]:
    return [body for body in stream(world) if body["metadata"]["event_type"] == "Job Change"]


def test_a_start_and_an_end_are_two_valid_events_of_the_clusters_stream(world: World) -> None:
    started = jobs(world).start("train-a", "88213", ["n-2", "n-1"], name="llama")
    world.pass_time(minutes=5)
    ended = jobs(world).end("train-a", "88213", outcome="failed", reason="exit code 1")
    assert (started.nodes, ended.outcome) == (("n-1", "n-2"), "failed")
    begun, over = told(world)
    for event in (begun, over):
        assert_valid_event(event)
        assert event["metadata"]["stream"] == "train-a"
    assert (begun["data"]["change"], begun["data"]["nodes"]) == ("started", {"count": 2, "listed": ["n-1", "n-2"]})
    assert (over["data"]["change"], over["data"]["outcome"], over["data"]["reason"]) == (
        "ended",
        "failed",
        "exit code 1",
    )


def test_telling_it_twice_says_it_once(world: World) -> None:
    for _ in range(2):
        jobs(world).start("train-a", "1", ["n-1"])
    for _ in range(2):
        jobs(world).end("train-a", "1")
    assert [event["data"]["change"] for event in told(world)] == ["started", "ended"]


def test_a_requeued_job_starts_again_under_its_id(world: World) -> None:
    jobs(world).start("train-a", "1", ["n-1"])
    jobs(world).end("train-a", "1")
    again = jobs(world).start("train-a", "1", ["n-3"])
    assert (again.nodes, again.ended_at) == (("n-3",), None)
    assert jobs(world).find("train-a", "1") == again


def test_the_clusters_stream_has_no_gap_when_a_rollup_comes_between(world: World) -> None:
    jobs(world).start("train-a", "1", ["n-1"])
    world.rollup("train-a")
    jobs(world).end("train-a", "1")
    sequences = [body["metadata"]["sequence"] for body in stream(world)]
    assert sequences == list(range(1, len(sequences) + 1))


@pytest.mark.parametrize(
    ("reason", "act"),
    [
        ("unknown_cluster", lambda one: one.start("elsewhere", "1", ["n-1"])),
        ("unknown_node", lambda one: one.start("train-a", "1", ["n-9"])),
        ("bad_nodes", lambda one: one.start("train-a", "1", [])),
        ("bad_job", lambda one: one.start("train-a", "", ["n-1"])),
        ("unknown_job", lambda one: one.end("train-a", "1")),
        ("bad_outcome", lambda one: one.end("train-a", "1", outcome="exploded")),
    ],
)
def test_what_cannot_be_is_refused_with_a_reason(world: World, reason: str, act: Any) -> None:
    with pytest.raises(Rejected) as rejected:
        act(jobs(world))
    assert rejected.value.reason == reason


def test_a_job_with_the_longest_id_and_the_most_nodes_is_noted(world: World) -> None:
    job = jobs(world).start("train-a", "x" * 128, ["n-1"] * MAX_NODES)
    assert (job.nodes, [event["data"]["change"] for event in told(world)]) == (("n-1",), ["started"])


def test_a_running_job_does_not_start_elsewhere_and_ends_not_before_it_began(world: World) -> None:
    started: Job = jobs(world).start("train-a", "1", ["n-1"])
    with pytest.raises(Rejected, match="job_runs"):
        jobs(world).start("train-a", "1", ["n-2"])
    with pytest.raises(Rejected, match="bad_time"):
        jobs(world).end("train-a", "1", at=started.started_at - timedelta(seconds=1))


def strike(world: World, name: str) -> tuple[str, ...]:
    return JobImpact(world.append, jobs(world))(NodeKey("train-a", name))


def test_a_fault_on_a_node_hits_the_jobs_that_run_there_and_no_other(world: World) -> None:
    jobs(world).start("train-a", "1", ["n-1", "n-2"])
    jobs(world).start("train-a", "2", ["n-3"])
    world.pass_time(minutes=5)
    world.happens(NodeKey("train-a", "n-2"))
    assert strike(world, "n-2") == ("1",)
    hit = told(world)[-1]
    assert_valid_event(hit)
    assert (hit["data"]["job_id"], hit["data"]["change"], hit["data"]["ended_at"]) == ("1", "hit", None)
    assert (hit["data"]["hit"]["node"], hit["data"]["hit"]["about"]["code"]) == ("n-2", "xid.79")
    assert (hit["metadata"]["case_id"], hit["metadata"]["severity"]) == (
        world.append.read(NodeKey("train-a", "n-2")).case.id,  # type: ignore[union-attr]  # the fault opened one
        "fatal",
    )


def test_one_trouble_hits_a_job_once(world: World) -> None:
    jobs(world).start("train-a", "1", ["n-1"])
    world.happens(NodeKey("train-a", "n-1"))
    for _ in range(3):
        strike(world, "n-1")
    assert [event["data"]["change"] for event in told(world)] == ["started", "hit"]


def test_neither_a_job_that_ended_nor_one_that_began_behind_the_fault_is_hit(world: World) -> None:
    jobs(world).start("train-a", "1", ["n-1"])
    jobs(world).end("train-a", "1")
    world.happens(NodeKey("train-a", "n-1"))
    world.pass_time(minutes=5)
    jobs(world).start("train-a", "2", ["n-1"])
    strike(world, "n-1")
    assert [event["data"]["change"] for event in told(world)] == ["started", "ended", "started"]


def test_the_timeline_of_a_job_has_its_start_what_hit_it_and_its_end(world: World) -> None:
    jobs(world).start("train-a", "1", ["n-1"])
    jobs(world).start("train-a", "2", ["n-2"])
    world.happens(NodeKey("train-a", "n-1"))
    strike(world, "n-1")
    world.pass_time(minutes=5)
    jobs(world).end("train-a", "1", outcome="failed")
    lines = list(Timeline(world.table).entries(Wanted("train-a", job="1")))
    assert [json.loads(line.body)["data"]["change"] for line in lines] == ["started", "hit", "ended"]


def test_a_doorbell_that_was_lost_is_made_up_for_by_the_sweep() -> None:
    installation = Installation(mode="observe", repair_owner="observe")
    ports, key = installation.ports, installation.node().key
    Jobs(ports.table, ports.clock, installation.app.stack).start(key.cluster, "1", [key.node])
    installation.app.ingestion.ingest([installation.message()])
    for _ in range(2):
        assert installation.app.ops.sweep().failures == []
    lines = list(Timeline(ports.table).entries(Wanted(key.cluster, job="1")))
    assert [json.loads(line.body)["data"]["change"] for line in lines] == ["started", "hit"]
