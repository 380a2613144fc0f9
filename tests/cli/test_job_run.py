"""`faultbridge job run`: the launcher runs in any case, and its end is recorded."""

from __future__ import annotations

import os
import signal
import sys

import pytest

from faultbridge.cli.commands.fleet.job_run import run_recorded
from faultbridge.errors import Rejected, Transient
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


def test_an_unknown_node_is_refused_before_the_launcher_runs(desk: Desk) -> None:
    ran = desk("job", "run", "7", "--cluster", CLUSTER, "--node", "n-9", "--", sys.executable, "-c", "print('ran')")
    assert ran.code != 0
    assert "ran" not in ran.out


def test_a_program_that_does_not_exist_is_a_failed_job(desk: Desk) -> None:
    ran = desk("job", "run", "7", "--cluster", CLUSTER, "--node", NODE, "--", "/no/such/launcher")
    assert (ran.code, outcome(desk)) == (2, "failed")


def test_a_stack_that_cannot_be_reached_does_not_stop_the_job(capsys: pytest.CaptureFixture[str]) -> None:
    def fail(*_: str) -> None:
        raise Transient("no answer")

    assert run_recorded([sys.executable, "-c", "raise SystemExit(4)"], fail, fail) == 4
    assert capsys.readouterr().err.count("was not recorded: no answer") == 2


def test_a_start_that_was_refused_stops_the_job() -> None:
    def refuse() -> None:
        raise Rejected("job_runs", "the job runs elsewhere")

    with pytest.raises(Rejected):
        run_recorded([sys.executable, "-c", ""], refuse, lambda *_: None)
