"""`faultbridge job`: what the commands show of a job from its start until it may resume."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from faultbridge.model.nodes import Instance
from faultbridge.model.times import to_text
from faultbridge.repair.registry.replacement_detection import ReplacementDetection
from faultbridge.serve.entrypoints.ingest import wire_ingest
from faultbridge.serve.entrypoints.sweep import wire_sweep
from tests.cli.builders import CLUSTER, NODE, PYTHON_ERROR, explain, start
from tests.cli.desk import Desk
from tests.e2e.harness.records import healthy_smi
from tests.explain.traces import generate
from tests.world import XID_79


def test_a_running_job_is_listed_and_one_that_succeeded_is_not(desk: Desk) -> None:
    start(desk)
    (listed,) = desk.json("job", "list")
    assert (listed["job_id"], listed["state"], listed["nodes"]) == ("88213", "running", [NODE])
    desk("job", "end", "88213", "--cluster", CLUSTER, "--outcome", "succeeded")
    assert desk.json("job", "list", "--cluster", CLUSTER) == []
    assert desk.json("job", "show", "88213", "--cluster", CLUSTER)["state"] == "ended"


def test_a_job_that_failed_by_a_fault_waits_for_its_node(desk: Desk) -> None:
    start(desk)
    wire_ingest(desk.world.app).ingest([desk.world.message()])
    wire_sweep(desk.world.app).run()
    desk("job", "end", "88213", "--cluster", CLUSTER, "--outcome", "failed")
    shown = desk.json("job", "show", "88213", "--cluster", CLUSTER)
    assert (shown["state"], shown["affected_nodes"], shown["resumable_at"]) == ("waiting", [NODE], None)


@pytest.mark.parametrize("wide", [(), ("--wide",)])
def test_the_tables_fit_eighty_columns_or_name_what_is_missing(desk: Desk, wide: tuple[str, ...]) -> None:
    start(desk)
    out = desk("job", "list", *wide).out
    assert "running" in out
    assert wide or max(map(len, out.splitlines())) <= 80


def test_an_unknown_job_is_refused_with_the_command_that_lists_jobs(desk: Desk) -> None:
    for command in (("job", "show", "1"), ("explain", "--job", "1")):
        ran = desk(*command, "--cluster", CLUSTER)
        assert (ran.code, "unknown job in cluster" in ran.err, "faultbridge job list" in ran.err) == (2, True, True)


def fail(desk: Desk, *texts: str) -> None:
    """Let a job of one node fail after 47 hours, with these lines in the kernel's log of the node."""
    start(desk)
    desk.world.ports.clock.advance(timedelta(hours=47))
    beat = json.dumps({"heartbeat": 1, "at": to_text(desk.world.now)})
    wire_ingest(desk.world.app).ingest([desk.world.message(beat, source="heartbeat"), *map(desk.world.message, texts)])
    wire_sweep(desk.world.app).run()
    desk("job", "end", "88213", "--cluster", CLUSTER, "--outcome", "failed")


def test_explain_names_the_node_the_device_and_the_case_of_a_recorded_fault(desk: Desk) -> None:
    fail(desk, XID_79)
    document = explain(desk)
    assert (document["verdict"], document["nodes"], document["domain"]) == ("RESTART_WITHOUT", [NODE], "hardware")
    assert "0000:c1:00" in document["causes"][0]["for"][0]["signal"]["text"]
    (repair,) = document["repairs"]
    assert (repair["node"], repair["case_id"]) == (NODE, desk.world.node().case.id)  # type: ignore[union-attr]  # it has one
    assert document["job"]["state"] == "waiting"
    out = desk("explain", "--job", "88213", "--cluster", CLUSTER).out
    assert f"REPAIR    {NODE}: " in out
    assert "JOB       88213 is waiting" in out


def test_explain_acquits_the_hardware_when_the_program_failed_and_no_fault_was_recorded(
    desk: Desk, tmp_path: Path
) -> None:
    fail(desk)
    (tmp_path / "job.err").write_text(PYTHON_ERROR)
    document = explain(desk, tmp_path / "job.err")
    assert (document["domain"], document["nodes"], document["repairs"]) == ("software", [], [])
    assert document["hardware"] == {"state": "acquitted", "checked": [NODE], "not_checked": []}


def test_explain_says_unknown_when_nothing_was_recorded(desk: Desk) -> None:
    fail(desk)
    document = explain(desk)
    assert (document["verdict"], document["mechanism"], document["domain"]) == ("RESTART", None, "unknown")


def test_explain_takes_a_time_without_a_job(desk: Desk) -> None:
    fail(desk, XID_79)
    at = ("--cluster", CLUSTER, "--at", "1m")
    assert desk.json("explain", *at)["nodes"] == [NODE]
    assert desk.json("explain", *at, "--node", NODE)["nodes"] == [NODE]
    assert desk.json("explain", "--cluster", CLUSTER, "--at", "2h")["nodes"] == []


def test_a_recorded_verdict_is_shown_with_the_job_and_in_its_timeline(desk: Desk) -> None:
    fail(desk, XID_79)
    ran = desk("explain", "--job", "88213", "--cluster", CLUSTER, "--record")
    assert (ran.code, ran.err) == (0, "")
    verdict = desk.json("job", "show", "88213", "--cluster", CLUSTER)["verdict"]
    assert (verdict["outlook"], verdict["nodes"], verdict["hardware"]) == ("RESTART_WITHOUT", [NODE], "blamed")
    out = desk("timeline", "--job", "88213", "--cluster", CLUSTER).out
    assert f"job 88213 explained: RESTART_WITHOUT {NODE}" in out
    assert "fatal xid.79" in out
    assert "case " in out


def test_the_timeline_of_a_case_is_filtered_by_a_job(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    fail(desk, XID_79)
    case = desk.world.node().case
    assert case is not None
    monkeypatch.setenv("FAULTBRIDGE_CLUSTER", CLUSTER)
    of_case = desk.json("timeline", "--case", case.id)
    assert desk.json("timeline", "--case", case.id, "--job", "88213") == of_case
    assert desk.json("timeline", "--case", case.id, "--job", "88214") == []


def test_explain_takes_a_case_and_explains_the_job_that_it_affected(desk: Desk) -> None:
    fail(desk, XID_79)
    case = desk.world.node().case
    assert case is not None
    document = desk.json("explain", "--case", case.id)
    assert (document["verdict"], document["nodes"], document["job"]["job_id"]) == ("RESTART_WITHOUT", [NODE], "88213")


def test_explain_takes_a_case_of_a_node_without_a_job(desk: Desk) -> None:
    wire_ingest(desk.world.app).ingest([desk.world.message(XID_79)])
    case = desk.world.node().case
    assert case is not None
    document = desk.json("explain", "--case", case.id)
    assert (document["verdict"], document["nodes"], document["job"]) == ("RESTART_WITHOUT", [NODE], None)


@pytest.mark.parametrize(
    "options",
    [
        ("--case", "c-1", "--job", "1", "--cluster", CLUSTER),
        ("--case", "c-1", "--cluster", CLUSTER),
        ("--record",),
        ("--record", "--at", "1h", "--cluster", CLUSTER),
        ("--job", "1"),
        ("--cluster", CLUSTER),
        ("--at", "1h"),
        ("--job", "1", "--at", "1h", "--cluster", CLUSTER),
        (),
    ],
    ids=" ".join,
)
def test_options_of_explain_that_do_not_fit_are_wrong_usage(desk: Desk, options: tuple[str, ...]) -> None:
    ran = desk("explain", *options)
    assert (ran.code, len(ran.err.splitlines())) == (2, 1)


def start_ranks(desk: Desk, *options: str) -> Any:
    return desk("job", "start", "88213", "--cluster", CLUSTER, "--node", NODE, *options)


def test_the_ranks_of_a_job_are_listed_with_the_gpus_of_its_nodes(desk: Desk) -> None:
    start_ranks(desk, "--ranks-per-node", "8")
    wire_ingest(desk.world.app).ingest([desk.world.message(healthy_smi(), source="nvidia-smi-xml")])
    assert desk.json("job", "show", "88213", "--cluster", CLUSTER)["ranks"] == {NODE: "0-7"}
    rows = desk.json("job", "ranks", "88213", "--cluster", CLUSTER)
    assert [(one["rank"], one["node"], one["local_rank"]) for one in rows] == [(n, NODE, n) for n in range(8)]
    (row,) = desk.json("job", "ranks", "88213", "--cluster", CLUSTER, "--rank", "5")
    assert (row["pci"], bool(row["serial"])) == ("0000:51:00", True)
    assert desk.json("job", "ranks", "88213", "--cluster", CLUSTER, "--node", "another") == []


def test_a_rank_of_an_ended_job_is_not_shown_on_the_gpu_of_a_later_instance(desk: Desk) -> None:
    start_ranks(desk, "--ranks-per-node", "8")
    desk("job", "end", "88213", "--cluster", CLUSTER)
    desk.world.ports.clock.advance(timedelta(minutes=5))
    app, instance = desk.world.app, Instance(desk.world.ports.fleet.launch("gpu-workers"), launched_at=desk.world.now)
    detection = ReplacementDetection(desk.world.ports.table, app.append, app.rulebook)
    assert detection.attach_replacement(desk.world.config, NODE, instance)
    desk.world.ports.clock.advance(timedelta(minutes=5))
    wire_ingest(app).ingest([desk.world.message(healthy_smi(), source="nvidia-smi-xml")])
    rows = desk.json("job", "ranks", "88213", "--cluster", CLUSTER)
    assert [(one["rank"], one["serial"]) for one in rows] == [(rank, None) for rank in range(8)]


def test_explain_names_the_rank_of_a_faulty_gpu(desk: Desk) -> None:
    start_ranks(desk, "--ranks-per-node", "8")
    ingest = wire_ingest(desk.world.app)
    ingest.ingest([desk.world.message(healthy_smi(), source="nvidia-smi-xml")])
    desk.world.ports.clock.advance(timedelta(minutes=5))
    ingest.ingest([desk.world.message(XID_79.replace("c1", "51"))])
    wire_sweep(desk.world.app).run()
    desk("job", "end", "88213", "--cluster", CLUSTER, "--outcome", "failed")
    (device,) = explain(desk)["devices"]
    assert (device["node"], device["index"], device["rank"], device["signal"]) == (NODE, 5, 5, "xid.79")
    text = desk("explain", "--job", "88213", "--cluster", CLUSTER).out
    assert "rank 5 (xid.79)" in " ".join(text.split())


def test_explain_names_the_gpu_of_a_rank_that_the_others_wait_for(desk: Desk, tmp_path: Path) -> None:
    trace = generate(4)
    (rank,) = trace.injected
    ranks = tmp_path / "ranks.json"
    ranks.write_text(json.dumps({NODE: list(range(8))}))
    start_ranks(desk, "--ranks", str(ranks))
    wire_ingest(desk.world.app).ingest([desk.world.message(healthy_smi(), source="nvidia-smi-xml")])
    desk("job", "end", "88213", "--cluster", CLUSTER, "--outcome", "failed")
    for name, body in trace.files.items():
        (tmp_path / name).write_bytes(body)
    (device,) = explain(desk, *(tmp_path / name for name in trace.files))["devices"]
    assert (device["rank"], device["index"], device["pci"]) == (rank, rank, f"0000:{rank}1:00")


@pytest.mark.parametrize(
    ("text", "named"),
    [('{"another": [0]}', "another"), (f'{{"{NODE}": [0, 0]}}', "two nodes"), ("[]", "not an object")],
)
def test_ranks_that_no_job_can_have_are_refused(desk: Desk, tmp_path: Path, text: str, named: str) -> None:
    file = tmp_path / "ranks.json"
    file.write_text(text)
    refused = start_ranks(desk, "--ranks", str(file))
    assert refused.code != 0
    assert named in refused.err
