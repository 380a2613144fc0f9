"""`faultbridge explain --job`: the fault that ended a job counts however long it hung, and so does its recorded end."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from faultbridge.decide.policyfile.parser import read_policy
from faultbridge.decode.data.policies import version_of
from faultbridge.model.enums import CaseStatus, NodeStatus, Resolution
from faultbridge.model.storage.items import state_item
from faultbridge.model.storage.writes import Put
from faultbridge.model.times import to_text
from faultbridge.model.values import replace
from faultbridge.record.policies import PolicyStore
from faultbridge.serve.entrypoints.ingest import wire_ingest
from faultbridge.serve.entrypoints.sweep import wire_sweep
from tests.cli.builders import CLUSTER, NODE, PYTHON_ERROR, explain, start
from tests.cli.desk import Desk
from tests.world import XID_79

OF_JOB = ("explain", "--job", "88213", "--cluster", CLUSTER)


def run(desk: Desk, hours: float) -> None:
    """Let the job run, and its node send a heartbeat."""
    desk.world.ports.clock.advance(timedelta(hours=hours))
    beat = json.dumps({"heartbeat": 1, "at": to_text(desk.world.now)})
    wire_ingest(desk.world.app).ingest([desk.world.message(beat, source="heartbeat")])


def end(desk: Desk, outcome: str = "failed", reason: str = "") -> None:
    assert desk("job", "end", "88213", "--cluster", CLUSTER, "--outcome", outcome, "--reason", reason).code == 0


def hang(desk: Desk, hours: float, *, before_start: bool = False) -> None:
    """Let a job fail that hung for some hours after an Xid 79."""
    if not before_start:
        start(desk)
        run(desk, 46)
    wire_ingest(desk.world.app).ingest([desk.world.message(XID_79)])
    wire_sweep(desk.world.app).run()
    if before_start:
        run(desk, 1)
        start(desk)
    run(desk, hours)
    end(desk)


@pytest.mark.parametrize("hours", [0.1, 0.55, 5.5])
def test_a_job_that_hangs_for_hours_after_a_fault_leaves_the_node_out(desk: Desk, hours: float) -> None:
    hang(desk, hours)
    case = desk.world.node().case
    assert case is not None
    for document in (explain(desk), desk.json("explain", "--case", case.id)):
        assert (document["verdict"], document["nodes"], document["mechanism"]) == (
            "RESTART_WITHOUT",
            [NODE],
            "gpu_lost",
        )
        assert [one["case_id"] for one in document["repairs"]] == [case.id]
    assert desk(*OF_JOB, "--record").code == 0
    assert desk.json("job", "show", "88213", "--cluster", CLUSTER)["verdict"]["nodes"] == [NODE]


def test_a_node_with_a_recorded_fault_is_never_acquitted(desk: Desk, tmp_path: Path) -> None:
    hang(desk, 9)
    (tmp_path / "job.err").write_text(PYTHON_ERROR.replace("2026-02-05T10:59:30", to_text(desk.world.now)[:19]))
    for document in (explain(desk), explain(desk, tmp_path / "job.err"), desk.json(*OF_JOB, "--window", "10m")):
        assert document["hardware"]["state"] != "acquitted"
        assert document["check"] == [NODE]
        assert [one["name"] for one in document["checks"]] == ["xid.79"]


def test_a_fault_that_was_recorded_for_a_job_counts_after_its_node_is_retired(desk: Desk) -> None:
    hang(desk, 9)
    case = desk.world.node().case
    assert case is not None
    assert desk("node", "retire", NODE, "--cluster", CLUSTER, "--yes").code == 0
    assert desk.world.node().live_case is None
    document = explain(desk)
    assert (document["check"], [one["name"] for one in document["checks"]]) == ([NODE], ["xid.79"])


def test_an_open_case_from_before_the_start_of_a_job_counts(desk: Desk) -> None:
    hang(desk, 1, before_start=True)
    assert explain(desk)["nodes"] == [NODE]


@pytest.mark.parametrize(
    ("outcome", "reason", "expected"),
    [
        ("cancelled", "scancel by alice", ("STOP", "canceled")),
        ("failed", "pod w-1 on n-2: OOMKilled, exit code 137", ("STOP", "host_out_of_memory")),
        ("failed", "pod w-1 on n-2: PreemptionByScheduler", ("RESTART", "preempted")),
        ("cancelled", "JOB 1 ON n-1 CANCELLED DUE TO PREEMPTION", ("RESTART", "preempted")),
        ("failed", "DUE TO TIME LIMIT", ("RESTART", "time_limit")),
        ("failed", "NODE_FAIL", ("RESTART", "node_lost")),
        ("failed", "exit code 1", ("RESTART", None)),
    ],
)
def test_the_recorded_end_of_a_job_is_evidence_like_a_line_of_its_log(
    desk: Desk, outcome: str, reason: str, expected: tuple[str, str | None]
) -> None:
    start(desk)
    run(desk, 47)
    end(desk, outcome, reason)
    document = explain(desk)
    assert (document["verdict"], document["mechanism"]) == expected
    assert all(_is_of_job(point) for point in (document["causes"] or [{"for": []}])[0]["for"])


def _is_of_job(point: dict[str, Any]) -> bool:
    return point["signal"] is None or (point["signal"]["trust"], point["signal"]["file"]) == ("job", "job 88213")


ATTEMPT = """\
step 40 loss=2.1
step 41 loss=2.1
[rank21]: RuntimeError: CUDA error: unspecified launch failure
W0203 api.py:900] [default] Worker group FAILED. 2/3 attempts left; will restart worker group
"""


@pytest.mark.parametrize(("limit", "verdict"), [("null", "RESTART"), ("2", "STOP")])
def test_the_policy_of_the_cluster_states_how_many_attempts_that_end_alike_stop_a_job(
    desk: Desk, tmp_path: Path, limit: str, verdict: str
) -> None:
    document, ports = read_policy(f"limits: {{same_attempts: {limit}}}"), desk.world.ports
    PolicyStore(ports.table, ports.clock).put({**document, "version": version_of(document)})
    start(desk)
    run(desk, 1)
    end(desk)
    log = tmp_path / "job.err"
    log.write_text(2 * ATTEMPT)
    assert explain(desk, log)["verdict"] == verdict
    assert desk(*OF_JOB, str(log), "--record").code == 0
    assert desk.json("job", "show", "88213", "--cluster", CLUSTER)["verdict"]["outlook"] == verdict


def test_a_recorded_reason_never_outweighs_a_fault_of_the_node(desk: Desk) -> None:
    start(desk)
    run(desk, 46)
    wire_ingest(desk.world.app).ingest([desk.world.message(XID_79)])
    end(desk, "cancelled", "scancel by alice")
    assert explain(desk)["nodes"] == [NODE]


def test_a_time_is_explained_only_for_a_registered_cluster_and_its_nodes(desk: Desk) -> None:
    at = ("explain", "--at", "1m")
    assert desk(*at, "--cluster", CLUSTER, "--node", NODE).code == 0
    ran = desk(*at, "--cluster", CLUSTER, "--node", f"{NODE}0")
    assert (ran.code, f"unknown node in cluster {CLUSTER}: {NODE}0; did you mean {NODE}?" in ran.err) == (2, True)
    ran = desk(*at, "--cluster", "nowhere", "--node", NODE)
    assert (ran.code, "unknown cluster: nowhere" in ran.err) == (2, True)


def test_the_default_cluster_counts_only_for_a_job_or_a_time(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAULTBRIDGE_CLUSTER", CLUSTER)
    hang(desk, 1)
    case = desk.world.node().case
    assert case is not None
    assert desk.json("explain", "--job", "88213")["nodes"] == [NODE]
    assert desk("explain", "--at", "1m").code == 0
    assert desk("explain", "--case", case.id).code == 0
    ran = desk("explain", "--case", case.id, "--job", "88213")
    assert (ran.code, "give --case alone" in ran.err) == (2, True)


def test_a_job_that_succeeded_is_not_explained(desk: Desk) -> None:
    start(desk)
    run(desk, 47)
    end(desk, "succeeded")
    ran = desk(*OF_JOB)
    assert (ran.code, ran.out, len(ran.err.splitlines())) == (2, "", 1)
    assert "succeeded" in ran.err


def test_the_case_of_a_job_that_succeeded_is_explained_without_it(desk: Desk) -> None:
    start(desk)
    run(desk, 46)
    wire_ingest(desk.world.app).ingest([desk.world.message(XID_79)])
    wire_sweep(desk.world.app).run()
    end(desk, "succeeded")
    case = desk.world.node().case
    assert case is not None
    document = desk.json("explain", "--case", case.id)
    assert (document["nodes"], document["job"]) == ([NODE], None)


def test_a_running_job_is_marked_and_its_verdict_is_not_recorded(desk: Desk) -> None:
    start(desk)
    run(desk, 47)
    assert "it has not ended" in " ".join(desk(*OF_JOB).out.split())
    assert explain(desk)["job"]["ended_at"] is None
    ran = desk(*OF_JOB, "--record")
    assert (ran.code, len(ran.err.splitlines())) == (2, 1)
    assert desk.json("job", "show", "88213", "--cluster", CLUSTER)["verdict"] is None


@pytest.mark.parametrize("at", ["2000-01-01T00:00:00Z", "2199-12-31T23:59:59Z"])
def test_the_earliest_and_the_latest_allowed_time_are_explained_with_any_window(desk: Desk, at: str) -> None:
    assert desk("explain", "--cluster", CLUSTER, "--at", at, "--window", "105000w").code == 0
    assert desk("job", "start", "8", "--cluster", CLUSTER, "--node", NODE, "--at", at).code == 0
    assert desk("job", "end", "8", "--cluster", CLUSTER, "--outcome", "failed", "--at", at).code == 0
    assert desk("explain", "--job", "8", "--cluster", CLUSTER, "--window", "105000w").code == 0


@pytest.mark.parametrize("reason", ["two\nlines", "\x1b[2J", "ok\u202e", "x" * 513, "x" * 500_000])
def test_a_reason_of_an_end_that_the_api_refuses_is_refused(desk: Desk, reason: str) -> None:
    start(desk)
    ran = desk("job", "end", "88213", "--cluster", CLUSTER, "--outcome", "failed", "--reason", reason)
    assert (ran.code, len(ran.err.splitlines())) == (2, 1)
    assert "allowed: 512 printable characters" in ran.err
    assert desk.json("job", "show", "88213", "--cluster", CLUSTER)["state"] == "running"
    end(desk, reason="x" * 512)


@pytest.mark.parametrize("resolution", [Resolution.REPLACED, Resolution.RECOVERED], ids=lambda one: one.value)
def test_a_node_that_was_replaced_and_verified_since_is_not_left_out_of_a_restart(
    desk: Desk, resolution: Resolution
) -> None:
    hang(desk, 1)

    state, now = desk.world.node(), desk.world.now
    assert state.case is not None
    case = replace(state.case, status=CaseStatus.RESOLVED, resolution=resolution, closed_at=now)
    serving = replace(state, case=case, status=NodeStatus.HEALTHY, conditions={})
    desk.world.ports.table.write(Put(state_item(serving, now)))
    document = explain(desk)
    repaired = resolution is Resolution.REPLACED
    assert document["verdict"] == ("RESTART" if repaired else "RESTART_WITHOUT")
    assert (document["nodes"], NODE in document["check"]) == ([] if repaired else [NODE], False)
    assert document["mechanism"] == "gpu_lost"
