"""`faultbridge job run`: the launcher runs in any case, and its end is recorded."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from faultbridge.cli.app import run as app_run
from faultbridge.cli.commands.fleet.job import run_recorded
from faultbridge.model.errors import Rejected, Transient
from tests.builders import KEY
from tests.cli.desk import Desk

CLUSTER, NODE = KEY


def run(desk: Desk, code: str) -> int:
    return desk("job", "run", "7", "--cluster", CLUSTER, "--node", NODE, "--", sys.executable, "-c", code).code


def outcome(desk: Desk) -> str:
    return str(desk.json("job", "show", "7", "--cluster", CLUSTER)["outcome"])


@pytest.mark.parametrize(("code", "recorded"), [(0, "succeeded"), (3, "failed")])
def test_the_exit_code_is_the_launchers_and_decides_the_outcome(desk: Desk, code: int, recorded: str) -> None:
    assert run(desk, f"raise SystemExit({code})") == code
    assert outcome(desk) == recorded
    assert f"exit code {code}" in desk("timeline", "--job", "7", "--cluster", CLUSTER).out


def test_a_launcher_that_a_signal_ends_has_failed(desk: Desk) -> None:
    assert run(desk, "import os; os.kill(os.getpid(), 9)") == 137
    assert outcome(desk) == "failed"


def test_a_signal_reaches_the_launcher_and_leaves_the_outcome_open(desk: Desk) -> None:
    code = f"import os, signal; os.kill({os.getpid()}, signal.SIGTERM); signal.pause()"
    before = signal.getsignal(signal.SIGTERM)
    assert run(desk, code) == 128 + signal.SIGTERM
    assert outcome(desk) == "unreported"
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_job_on_an_unknown_node_runs_and_the_user_reads_that_it_was_not_recorded(desk: Desk) -> None:
    ran = desk("job", "run", "7", "--cluster", CLUSTER, "--node", "n-9", "--", sys.executable, "-c", "print('ran')")
    assert (ran.code, ran.out) == (0, "ran\n")
    assert "the start of the job was not recorded: unknown node in cluster train-a: n-9" in ran.err


def test_a_job_that_was_requeued_on_other_nodes_runs_and_its_lost_run_has_ended(desk: Desk) -> None:
    desk("node", "add", "--cluster", CLUSTER, "--node", "n-spare", "--instance-id", "i-0aaaaaaaaaaaaaaaa")
    desk("job", "start", "7", "--cluster", CLUSTER, "--node", "n-spare")  # its launch node dies: no end is recorded
    assert run(desk, "print('ran')") == 0
    assert desk.json("job", "show", "7", "--cluster", CLUSTER)["nodes"] == [NODE]
    assert "its end was not observed" in desk("timeline", "--job", "7", "--cluster", CLUSTER).out


def test_a_prolog_can_report_a_job_that_was_requeued_on_other_nodes(desk: Desk) -> None:
    desk("node", "add", "--cluster", CLUSTER, "--node", "n-spare", "--instance-id", "i-0aaaaaaaaaaaaaaaa")
    start = ("job", "start", "7", "--cluster", CLUSTER, "--node")
    desk(*start, "n-spare")
    assert desk(*start, NODE).code == 2
    assert desk.json(*start, NODE, "--again")["nodes"] == [NODE]


def test_a_program_that_does_not_exist_is_a_failed_job(desk: Desk) -> None:
    ran = desk("job", "run", "7", "--cluster", CLUSTER, "--node", NODE, "--", "/no/such/launcher")
    assert (ran.code, outcome(desk)) == (2, "failed")


def test_a_stack_that_cannot_be_found_does_not_stop_the_job(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    command = ["job", "run", "7", "--cluster", "train-a", "--node", "n-1", "--", sys.executable, "-c", "print('ran')"]
    assert app_run(command) == 0
    out, err = capfd.readouterr()
    assert out == "ran\n"
    assert err.count("was not recorded: ") == 2


@pytest.mark.parametrize("error", [Transient("no answer"), Rejected("job_runs", "no answer"), OSError("no answer")])
def test_no_error_of_the_record_stops_the_job(error: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    def fail(*_: str) -> None:
        raise error

    assert run_recorded([sys.executable, "-c", "raise SystemExit(4)"], fail, fail) == 4
    assert capsys.readouterr().err.count("was not recorded: no answer") == 2
