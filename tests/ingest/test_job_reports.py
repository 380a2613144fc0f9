"""Reports of jobs on the queues: from the event bus and from collectors, and never from a node."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from faultbridge.decide.normalize.trust import EVENT_BUS
from faultbridge.model.cluster.jobs import Job
from faultbridge.model.event_data import JobData
from faultbridge.model.nodes import NodeKey
from faultbridge.model.records import JOB_REPORT, Outcome
from faultbridge.model.storage.wire.message import Message, encode_message
from faultbridge.model.times import to_text
from faultbridge.record.timeline import Timeline, TimelineQuery
from faultbridge.repair.jobs.reports import WAIT_FOR_START, read_report
from faultbridge.serve.entrypoints.ingest import wire_ingest
from faultbridge.serve.entrypoints.sweep import wire_sweep
from faultbridge.serve.ingest.record_reader import Delivery
from faultbridge.serve.wiring.services import wire_jobs, wire_registration
from tests.architecture.project import ROOT
from tests.world import World

CLUSTER = "train-a"
START: dict[str, Any] = {"change": "start", "job_id": "88213", "nodes": ["n-[1-2]"], "ranks_per_node": 8}
END: dict[str, Any] = {"change": "end", "job_id": "88213", "outcome": "failed", "reason": "NODE_FAIL"}
SCHEMA = json.loads((ROOT / "schemas/job-report/v1.json").read_text(encoding="utf-8"))
PROOF = {
    "FAULTBRIDGE_SENDER_PROOF": "required",
    "FAULTBRIDGE_OWN_SENDERS": "AROASWEEP",
    "FAULTBRIDGE_EVENTS_QUEUE": "arn:events",
}


@pytest.fixture
def world() -> World:
    return World(nodes=("n-1", "n-2"))


def event(world: World, report: dict[str, Any], number: int = 1, **fields: Any) -> Delivery:
    """Return an event that a scheduler put on the bus, as the queue delivers it."""
    detail = {"cluster": CLUSTER, **report}
    Draft202012Validator(SCHEMA).validate(detail)
    body = {
        "version": "0",
        "id": f"6c1f0a5e-0000-4a4a-9d11-{number:012}",
        "detail-type": "Faultbridge Job Report",
        "source": "example.slurm",
        "time": to_text(world.now),
        "detail": detail,
        **fields,
    }
    return Delivery(f"event-{number}", json.dumps(body), world.now, EVENT_BUS)


def record(world: World, report: dict[str, Any], sender: str | None = None, **fields: Any) -> Delivery:
    """Return a record as a collector sends it."""
    message = Message("r-1", JOB_REPORT, CLUSTER, world.now, body=json.dumps(report).encode(), **fields)
    return Delivery("m-1", encode_message(message), world.now, sender)


def job(world: World) -> Job | None:
    return wire_jobs(world.app).find(CLUSTER, "88213")


def reasons(world: World, *deliveries: Delivery) -> Sequence[str]:
    return list(wire_ingest(world.app).ingest(deliveries).reasons.values())


def test_a_job_starts_and_ends_by_events_at_the_times_of_the_events(world: World) -> None:
    started_at = world.now
    assert world.outcomes(event(world, START)) == [Outcome.RECORDED]
    world.ports.clock.advance(timedelta(hours=47))
    ended_at, late = world.now, event(world, END, 2)
    world.ports.clock.advance(timedelta(minutes=3))
    assert world.outcomes(late) == [Outcome.RECORDED]
    found = job(world)
    assert found is not None
    assert (found.started_at, found.ended_at, found.outcome) == (started_at, ended_at, "failed")
    assert found.ranks == {"n-1": "0-7", "n-2": "8-15"}


def test_events_that_are_delivered_twice_and_late_change_nothing(world: World) -> None:
    start = event(world, START)
    world.outcomes(start)
    world.ports.clock.advance(timedelta(hours=1))
    end = event(world, END, 2)
    world.outcomes(end)
    ended = job(world)
    assert world.outcomes(start, end) == [Outcome.DUPLICATE, Outcome.DUPLICATE]
    assert job(world) == ended


def test_a_later_start_that_a_collector_observes_ends_the_run_whose_end_was_not_observed(world: World) -> None:
    first = START | {"at": to_text(world.now)}
    world.outcomes(record(world, first))
    world.ports.clock.advance(timedelta(hours=2))
    again = START | {"at": to_text(world.now), "nodes": ["n-1"]}
    assert reasons(world, event(world, again)) == ["job_runs"]
    assert reasons(world, record(world, again)) == []
    found = job(world)
    assert found is not None
    assert (found.nodes, found.started_at, found.runs) == (("n-1",), world.now, True)
    assert changes(world) == [("started", None), ("ended", "unreported"), ("started", None)]
    assert reasons(world, record(world, first)) == ["job_runs"]  # the earlier start, delivered again
    assert job(world) == found


def changes(world: World) -> list[tuple[str, str | None]]:
    """Return what the entries of the job state, with the outcome of each end."""
    lines = Timeline(world.ports.table).entries(TimelineQuery(CLUSTER, job="88213"))
    data = [one.event.data for one in lines]
    return [(one.change, one.outcome) for one in data if isinstance(one, JobData)]


def test_a_heartbeat_arrives_by_the_bus(world: World) -> None:
    world.outcomes(event(world, START))
    beat = event(world, {"change": "heartbeat", "job_id": "88213", "step": 7, "loss": "nan"}, 2)
    assert world.outcomes(beat) == [Outcome.FOLDED]
    found = job(world)
    assert found is not None
    assert found.alarm == "not_finite"


def test_the_sweep_makes_the_nodes_name_a_job_that_the_bus_reported(world: World) -> None:
    world.outcomes(event(world, START))
    wire_sweep(world.app).run()
    assert [world.node(NodeKey(CLUSTER, name)).jobs for name in ("n-1", "n-2")] == [("88213",), ("88213",)]


def test_every_sample_of_the_schema_is_valid_and_is_read() -> None:
    samples = sorted((ROOT / "schemas/job-report/samples/1.0").glob("*.json"))
    assert len(samples) == 3
    for path in samples:
        sample = json.loads(path.read_text(encoding="utf-8"))
        Draft202012Validator(SCHEMA).validate(sample)
        del sample["cluster"]
        assert read_report(sample).change == path.stem


def test_an_end_that_overtakes_its_start_is_retried_for_two_minutes(world: World) -> None:
    start, end = event(world, START), event(world, END, 2)
    assert list(wire_ingest(world.app).ingest([end]).failed) == ["event-2"]
    assert world.outcomes(start, end) == [Outcome.RECORDED, Outcome.RECORDED]
    found = job(world)
    assert found is not None
    assert found.outcome == "failed"


@pytest.mark.parametrize(
    ("report", "reason"),
    [
        (END, "unknown_job"),
        (START | {"nodes": ["n-9"]}, "unknown_node"),
        (START | {"cluster": "none"}, "unknown_cluster"),
    ],
)
def test_a_report_about_something_unknown_is_a_reject_that_can_be_retried(
    world: World, report: dict[str, Any], reason: str
) -> None:
    made = event(world, report)
    world.ports.clock.advance(WAIT_FOR_START)
    assert reasons(world, made) == [reason]
    assert job(world) is None


LONG_ID = b'{"change": "end", "job_id": "' + b"x" * 4_000 + b'"}'
"""No key of the table may be as long."""


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"\xff", b'{"change": "start"}', b"[" * 100_000, b'{"change": 1}', LONG_ID]
)
def test_a_record_that_is_no_report_is_rejected(world: World, body: bytes) -> None:
    message = Message("r-1", JOB_REPORT, CLUSTER, world.now, body=body)
    assert reasons(world, Delivery("m-1", encode_message(message), world.now)) == ["bad_report"]


def test_an_event_without_a_valid_cluster_is_rejected(world: World) -> None:
    for detail in ({}, {"cluster": "a/b"}, {"cluster": 7}):
        bad = event(world, START, detail={**START, **detail})
        assert len(reasons(world, bad)) == 1
    assert job(world) is None


def test_a_node_may_not_report_jobs_even_its_own_and_a_listed_collector_may() -> None:
    world = World(nodes=("n-1", "n-2"), settings=PROOF)
    state = world.node(NodeKey(CLUSTER, "n-1"))
    assert state.incarnation is not None
    node = f"AROANODE:{state.incarnation.instance_id}"
    for sender in (node, "AROAOTHER:somebody", None):
        assert reasons(world, record(world, START, sender)) == ["untrusted"]
    assert job(world) is None
    wire_registration(world.app).set_cluster(CLUSTER, {"trusted_senders": ("AROACOLLECTOR:*",)})
    world.ports.clock.advance(timedelta(minutes=5))  # registrations are cached for a while
    assert reasons(world, record(world, START, "AROACOLLECTOR:pod")) == []
    assert reasons(world, event(world, END)) == []
    found = job(world)
    assert found is not None
    assert found.outcome == "failed"
