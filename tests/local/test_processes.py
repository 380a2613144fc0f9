"""A process is ours by id and start time; nothing else is ever stopped."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from faultbridge.local import processes
from faultbridge.local.processes import Process
from tests.local.waiting import eventually

SLEEPER = [sys.executable, "-c", "import time; time.sleep(60)"]
DEAF = [
    sys.executable,
    "-uc",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf'); time.sleep(60)",
]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "logs" / "process.log"


def test_a_started_process_runs_until_it_is_stopped(log: Path) -> None:
    process = processes.start(SLEEPER, environment={}, log=log)
    assert processes.is_running(process)
    assert processes.stop([process]) == 1
    assert not processes.is_running(process)


def test_a_process_that_ignores_the_request_to_end_is_made_to_end(log: Path) -> None:
    process = processes.start(DEAF, environment={}, log=log)
    assert eventually(lambda: "deaf" in log.read_text())
    assert processes.stop([process], grace_seconds=0.2) == 1
    assert not processes.is_running(process)


def test_a_process_that_ended_by_itself_does_not_run(log: Path) -> None:
    process = processes.start([sys.executable, "-c", ""], environment={}, log=log)
    assert eventually(lambda: not processes.is_running(process))
    assert processes.stop([process]) == 0


def test_a_process_that_took_over_the_id_of_ours_is_left_alone(log: Path) -> None:
    somebody_else = processes.start(SLEEPER, environment={}, log=log)
    ours_long_gone = Process(pid=somebody_else.pid, started="before the last boot")
    assert processes.stop([ours_long_gone]) == 0
    assert processes.is_running(somebody_else)
    processes.stop([somebody_else])


def test_output_and_errors_go_to_the_log(log: Path) -> None:
    command = [sys.executable, "-c", "import sys; print('said'); sys.exit('and why')"]
    process = processes.start(command, environment={}, log=log)
    assert eventually(lambda: not processes.is_running(process))
    assert {"said", "and why"} <= set(log.read_text().splitlines())


def test_a_process_gets_the_environment_that_is_given_and_no_other(log: Path) -> None:
    command = [sys.executable, "-c", "import os; print(sorted(os.environ))"]
    process = processes.start(command, environment={"ONLY": "this"}, log=log)
    assert eventually(lambda: not processes.is_running(process))
    # Python itself may set LC_CTYPE when no locale is given.
    assert log.read_text().strip() in {"['ONLY']", "['LC_CTYPE', 'ONLY']"}


def test_start_times_are_read_alike_without_proc(log: Path) -> None:
    process = processes.start(SLEEPER, environment={}, log=log)
    first, second = processes._started_by_ps(process.pid), processes._started_by_ps(process.pid)
    assert first is not None
    assert first == second
    processes.stop([process])
    assert processes._started_by_ps(process.pid) is None


BOUND = "import os, time; from faultbridge.local.processes import end_with; end_with(os.environ['ENDS_WITH']); {then}"
STARTER = """
import os, sys, time
from pathlib import Path
from faultbridge.local import processes
environment = {"ENDS_WITH": str(os.getpid()), "PYTHONPATH": os.pathsep.join(sys.path)}
command = [sys.executable, "-c", sys.argv[1]]
child = processes.start(command, environment=environment, log=Path(sys.argv[2]))
print(child.pid, child.started, flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells a process of its parent's end")
def test_a_stack_of_tests_ends_with_the_tests_however_they_end(log: Path) -> None:
    bound = BOUND.format(then="print('bound', flush=True); time.sleep(60)")
    arguments = [sys.executable, "-c", STARTER, bound, str(log)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        pid, started = starter.stdout.readline().split()
        child = Process(int(pid), started)
        assert eventually(lambda: log.exists() and "bound" in log.read_text())
        starter.kill()
    assert eventually(lambda: not processes.is_running(child))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells a process of its parent's end")
def test_a_process_whose_starter_has_gone_before_it_could_ask_does_not_begin(log: Path) -> None:
    command = [sys.executable, "-c", BOUND.format(then="time.sleep(60)")]
    environment = {"ENDS_WITH": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    process = processes.start(command, environment=environment, log=log)
    assert eventually(lambda: not processes.is_running(process))
    assert "has gone already" in log.read_text()
