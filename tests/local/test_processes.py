"""A process is identified by id and start time; no foreign process is stopped."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from faultbridge.local.stack import files
from faultbridge.local.stack.files import Process
from tests.waiting import eventually

SLEEPER = [sys.executable, "-c", "import time; time.sleep(60)"]
IGNORES_SIGTERM = [
    sys.executable,
    "-uc",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready'); time.sleep(60)",
]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "logs" / "process.log"


def test_a_started_process_runs_until_it_is_stopped(log: Path) -> None:
    process = files.start(SLEEPER, environment={}, log=log)
    assert files.is_running(process)
    assert files.stop([process]) == 1
    assert not files.is_running(process)


def test_a_process_that_ignores_sigterm_is_killed(log: Path) -> None:
    process = files.start(IGNORES_SIGTERM, environment={}, log=log)
    assert eventually(lambda: "ready" in log.read_text())
    assert files.stop([process], grace_seconds=0.2) == 1
    assert not files.is_running(process)


def test_an_ended_process_is_not_running(log: Path) -> None:
    process = files.start([sys.executable, "-c", ""], environment={}, log=log)
    assert eventually(lambda: not files.is_running(process))
    assert files.stop([process]) == 0


def test_a_foreign_process_with_a_reused_id_is_not_stopped(log: Path) -> None:
    foreign = files.start(SLEEPER, environment={}, log=log)
    ended = Process(pid=foreign.pid, started="before the last boot")
    assert files.stop([ended]) == 0
    assert files.is_running(foreign)
    files.stop([foreign])


def test_output_and_errors_go_to_the_log(log: Path) -> None:
    command = [sys.executable, "-c", "import sys; print('output'); sys.exit('error')"]
    process = files.start(command, environment={}, log=log)
    assert eventually(lambda: not files.is_running(process))
    assert {"output", "error"} <= set(log.read_text().splitlines())


def test_a_process_gets_only_the_given_environment(log: Path) -> None:
    command = [sys.executable, "-c", "import os; print(sorted(os.environ))"]
    process = files.start(command, environment={"ONLY": "this"}, log=log)
    assert eventually(lambda: not files.is_running(process))
    # Python itself may set LC_CTYPE when no locale is given.
    assert log.read_text().strip() in {"['ONLY']", "['LC_CTYPE', 'ONLY']"}


def test_start_times_are_read_with_ps_without_proc(log: Path) -> None:
    process = files.start(SLEEPER, environment={}, log=log)
    first, second = files._start_time_from_ps(process.pid), files._start_time_from_ps(process.pid)
    assert first is not None
    assert first == second
    files.stop([process])
    assert files._start_time_from_ps(process.pid) is None


BOUND = """
import os, time
from faultbridge.local.stack.files import terminate_with_parent
terminate_with_parent(os.environ["PARENT"])
{then}
"""
PARENT_SCRIPT = """
import os, sys, time
from pathlib import Path
from faultbridge.local.stack import files as processes
environment = {"PARENT": str(os.getpid()), "PYTHONPATH": os.pathsep.join(sys.path)}
command = [sys.executable, "-c", sys.argv[1]]
child = processes.start(command, environment=environment, log=Path(sys.argv[2]))
print(child.pid, child.started, flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux signals a process when its parent ends")
def test_a_test_stack_ends_when_the_test_process_is_killed(log: Path) -> None:
    bound = BOUND.format(then="print('bound', flush=True); time.sleep(60)")
    arguments = [sys.executable, "-c", PARENT_SCRIPT, bound, str(log)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid, started = parent.stdout.readline().split()
        child = Process(int(pid), started)
        assert eventually(lambda: log.exists() and "bound" in log.read_text())
        parent.kill()
    assert eventually(lambda: not files.is_running(child))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux signals a process when its parent ends")
def test_a_process_whose_parent_ended_early_exits_at_once(log: Path) -> None:
    command = [sys.executable, "-c", BOUND.format(then="time.sleep(60)")]
    environment = {"PARENT": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    process = files.start(command, environment=environment, log=log)
    assert eventually(lambda: not files.is_running(process))
    assert "has ended already" in log.read_text()
