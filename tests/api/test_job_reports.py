"""Reports of jobs over HTTP: start, end and heartbeat, what is refused, and what the role of the API may write."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.nodes import NodeKey
from faultbridge.model.storage.jobs import progress_key, read_progress
from faultbridge.model.storage.writes import Delete, Put, Update
from faultbridge.model.times import to_text
from faultbridge.repair.jobs.reports import FIELDS, JobReport
from faultbridge.serve.entrypoints.sweep import wire_sweep
from faultbridge.serve.wiring.services import wire_registration
from infra.docs.api_models import models
from tests.api.builders import START
from tests.api.gateway import Gateway, Response
from tests.architecture.roles import statements
from tests.builders import KEY
from tests.world import World

JOBS = "/clusters/train-a/jobs"


@pytest.fixture
def gateway() -> Gateway:
    return Gateway(World(nodes=("n-1", "n-2")))


def shown(gateway: Gateway) -> Any:
    return gateway.get(f"{JOBS}/88213").json


def reason(answer: Response) -> tuple[int, str]:
    return answer.status, answer.json["type"].removeprefix("urn:faultbridge:")


def test_a_job_starts_reports_its_step_and_ends_over_http(gateway: Gateway) -> None:
    started = gateway.post(JOBS, START)
    models()["Job"].model_validate_json(started.text)
    assert (started.status, started.json["nodes"]) == (200, ["n-1", "n-2"])
    assert started.json["ranks"] == {"n-1": "0-7", "n-2": "8-15"}
    assert gateway.post(JOBS, {"change": "heartbeat", "job_id": "88213", "step": 7, "loss": "nan"}).status == 200
    assert shown(gateway)["loss_alarm"] == "not_finite"
    ended = gateway.post(JOBS, {"change": "end", "job_id": "88213", "outcome": "failed", "reason": "exit code 1"})
    assert (ended.json["outcome"], ended.json["state"]) == ("failed", "ended")


def test_a_heartbeat_states_how_long_each_rank_worked(gateway: Gateway) -> None:
    gateway.post(JOBS, START)
    beat = {"change": "heartbeat", "job_id": "88213", "step": 7, "step_seconds": [1.2345, 2]}
    assert gateway.post(JOBS, beat).status == 200
    row = gateway.world.ports.table.get(progress_key(KEY.cluster, "88213"))
    assert row is not None
    assert read_progress(row).step_ms == (1234, 2000)


def test_a_stall_is_noticed_after_the_reported_limit(gateway: Gateway) -> None:
    gateway.post(JOBS, {**START, "stall_after_seconds": 600})
    gateway.post(JOBS, {"change": "heartbeat", "job_id": "88213", "step": 7})
    gateway.world.ports.clock.advance(timedelta(seconds=601))
    wire_sweep(gateway.world.app).run()
    assert shown(gateway)["state"] == "stalled"


def test_the_sweep_makes_the_nodes_name_the_job(gateway: Gateway) -> None:
    gateway.post(JOBS, START)
    wire_sweep(gateway.world.app).run()
    state = gateway.world.app.append.read(NodeKey("train-a", "n-1"))
    assert state.jobs == ("88213",)


def test_the_same_report_twice_is_recorded_once_also_after_the_end(gateway: Gateway) -> None:
    at = to_text(gateway.world.now - timedelta(minutes=5))
    for report in (START | {"at": at}, {"change": "end", "job_id": "88213"}):
        first = gateway.post(JOBS, report).json
        assert gateway.post(JOBS, report).json == first
    gateway.post(JOBS, START | {"at": at})
    assert shown(gateway)["state"] == "ended"
    entries = gateway.get("/clusters/train-a/entries", type="Job Change").json["items"]
    assert [one["data"]["change"] for one in entries] == ["started", "ended"]


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"change": "stop", "job_id": "1"},
        {"change": ["start"], "job_id": "1"},
        {"change": "start", "job_id": "1"},
        {"change": "start", "job_id": "1", "nodes": []},
        {"change": "start", "job_id": "1", "nodes": "n-1"},
        {"change": "start", "job_id": "1", "nodes": ["n-[0-999999999]"]},
        {"change": "start", "job_id": "", "nodes": ["n-1"]},
        {"change": "start", "job_id": "x" * 129, "nodes": ["n-1"]},
        {"change": "start", "job_id": "a\nb", "nodes": ["n-1"]},
        {"change": "start", "job_id": "1", "nodes": ["n-1"], "at": "yesterday"},
        {"change": "start", "job_id": "1", "nodes": ["n-1"], "ranks_per_node": True},
        {"change": "start", "job_id": "1", "nodes": ["n-1"], "ranks_per_node": 8, "ranks": {"n-1": "0-7"}},
        {"change": "start", "job_id": "1", "nodes": ["n-1"], "stall_after_seconds": 1},
        {"change": "start", "job_id": "1", "nodes": ["n-1"], "outcome": "failed"},
        {"change": "end", "job_id": "1", "outcome": "exploded"},
        {"change": "heartbeat", "job_id": "1"},
        {"change": "heartbeat", "job_id": "1", "step": -1},
        {"change": "heartbeat", "job_id": "1", "step": 1, "step_seconds": [1.5, -1]},
        {"change": "heartbeat", "job_id": "1", "step": 1, "step_seconds": [1.5, "nan"]},
        {"change": "heartbeat", "job_id": "1", "step": 1, "loss": "low"},
    ],
    ids=repr,
)
def test_a_report_of_another_shape_is_refused(gateway: Gateway, wrong: dict[str, Any]) -> None:
    assert reason(gateway.post(JOBS, wrong)) == (400, "bad_report")
    assert gateway.get(JOBS).json["items"] == []


def test_what_the_commands_refuse_is_refused(gateway: Gateway) -> None:
    in_an_hour = to_text(gateway.world.now + timedelta(hours=1))
    assert reason(gateway.post(JOBS, START | {"nodes": ["n-9"]})) == (404, "unknown_node")
    assert reason(gateway.post(JOBS, START | {"at": in_an_hour})) == (400, "bad_time")
    assert reason(gateway.post(JOBS, {"change": "end", "job_id": "88213"})) == (404, "unknown_job")
    gateway.post(JOBS, START)
    assert reason(gateway.post(JOBS, START | {"nodes": ["n-1"], "ranks_per_node": 1})) == (409, "job_runs")
    gateway.post(JOBS, {"change": "end", "job_id": "88213"})
    heartbeat = {"change": "heartbeat", "job_id": "88213", "step": 1}
    assert reason(gateway.post(JOBS, heartbeat)) == (409, "job_ended")


def test_a_job_of_five_thousand_nodes_fits_and_a_larger_body_is_refused(gateway: Gateway) -> None:
    nodes = [f"gpu-{number:05}.{'x' * 30}" for number in range(5000)]
    assert reason(gateway.post(JOBS, START | {"nodes": nodes})) == (404, "unknown_node")
    assert reason(gateway.post(JOBS, START | {"name": "x" * 300_000})) == (400, "bad_body")


def test_only_a_caller_of_the_cluster_reports_its_jobs(gateway: Gateway) -> None:
    wire_registration(gateway.world.app).add_cluster(ClusterConfig("secret-b"))
    assert gateway.post(JOBS, START, operated=("secret-b",)).status == 403
    assert reason(gateway.post("/clusters/secret-b/jobs", START)) == (404, "unknown_node")
    assert gateway.get(JOBS).json["items"] == []


def test_the_documented_model_has_the_fields_that_are_read() -> None:
    assert set(JobReport.__struct_fields__) == {"change"}.union(*FIELDS.values())


def test_the_role_permits_what_reports_write(gateway: Gateway) -> None:
    calls = gateway.world.ports.seam.calls
    calls.clear()
    for report in (START, {"change": "heartbeat", "job_id": "88213", "step": 7}, {"change": "end", "job_id": "88213"}):
        assert gateway.post(JOBS, report).status == 200
    grants = {one["Sid"]: one for one in statements("TimelineRole")}
    keys = set(grants["Answers"]["Condition"]["ForAllValues:StringLike"]["dynamodb:LeadingKeys"])
    assert "JOB#*" in keys
    cluster_rows = set()
    for call in calls:
        writes = call.argument if call.name == "table.transact" else [call.argument] if "write" in call.name else []
        for write in writes:
            assert isinstance(write, Put | Update | Delete), write
            pk = write.item["pk"] if isinstance(write, Put) else write.key.pk
            if not pk.startswith("JOB#") and pk.count("#") < 2:
                cluster_rows |= {pk}
                names = set(write.item) if isinstance(write, Put) else {path[0] for path in (*write.set, *write.remove)}
                allowed = grants["Incidents"]["Condition"]["ForAllValues:StringLike"]["dynamodb:Attributes"]
                assert names <= set(allowed), names
    assert cluster_rows == {"CLUSTER#train-a"}
