"""`up` and `down`: quick without changes, and no process remains after a failure."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import pytest

from faultbridge import local
from faultbridge.local import environment
from faultbridge.local.environment import Ports
from faultbridge.local.stack import files, lifecycle
from faultbridge.local.stack import files as fingerprint
from faultbridge.local.stack import files as processes
from faultbridge.local.stack.deployment import Deployment
from faultbridge.local.stack.files import stack_folder
from faultbridge.model.errors import Misconfigured, Transient
from tests.local.stack import (
    LOOPBACK,
    PrivateStack,
    failure,
    listening_addresses,
    processes_of,
    stack_home,
    tiny_deployment,
    up,
)
from tests.waiting import eventually

pytestmark = pytest.mark.embedded


def test_up_does_nothing_for_a_running_stack_without_changes(tiny_stack: PrivateStack) -> None:
    with stack_home(tiny_stack.home):
        info, progress = up(tiny_deployment())
    assert info == tiny_stack.info
    assert progress == ["nothing changed since the last deployment"]


def test_the_emulators_listen_on_loopback_only(tiny_stack: PrivateStack) -> None:
    for pid in tiny_stack.info.pids.values():
        assert list(listening_addresses(pid)) == [LOOPBACK]


def test_a_client_finds_the_running_stack(tiny_stack: PrivateStack, tmp_path: Path) -> None:
    with stack_home(tiny_stack.home):
        assert local.endpoint_environment() == tiny_stack.info.environment
        assert local.stack_info() == tiny_stack.info
    with stack_home(tmp_path):
        assert local.endpoint_environment() == {}
        assert local.stack_info() is None


def test_status_lists_emulators_queues_and_executions(tiny_stack: PrivateStack) -> None:
    with stack_home(tiny_stack.home):
        status = local.status(count_overdue=lambda: 7)
    assert status.up
    assert [(one.name, one.serving) for one in status.emulators] == [("event-plane", True), ("compute-plane", True)]
    assert {(queue.logical_id, queue.dead_letters) for queue in status.queues} == {
        ("Queue", False),
        ("DeadLetters", True),
    }
    assert (status.executions_running, status.stuck) == (0, 7)
    assert status.as_json()["emulators"][0]["endpoint"] == tiny_stack.info.endpoint


def test_status_reports_a_stack_that_is_not_running(home: Path) -> None:
    assert not local.status().up
    assert not local.down()
    assert not home.exists() or processes_of(home) == []


@pytest.mark.usefixtures("without_deployment")
def test_fresh_restarts_with_empty_emulators(kept_home: Path) -> None:
    info, _ = up(tiny_deployment())
    PrivateStack(kept_home, info).client("sqs").create_queue(QueueName="lost")
    again, progress = up(tiny_deployment(), fresh=True)
    assert set(again.pids.values()).isdisjoint(info.pids.values())
    assert progress[0] == "restarting: a fresh start was requested"
    assert not PrivateStack(kept_home, again).client("sqs").list_queues().get("QueueUrls")


@pytest.mark.usefixtures("without_deployment")
@pytest.mark.parametrize("killed", ["event-plane", pytest.param("compute-plane", marks=pytest.mark.nightly)])
def test_a_stack_without_one_emulator_is_restarted(kept_home: Path, killed: str) -> None:
    info, _ = up(tiny_deployment())
    os.kill(info.pids[killed], signal.SIGKILL)
    eventually(lambda: not local.status().up)
    again, progress = up(tiny_deployment())
    assert progress[0] == f"restarting: the {killed} is not running and its data is lost"
    assert set(again.pids.values()).isdisjoint(info.pids.values())
    assert len(processes_of(kept_home)) == 2


@pytest.mark.usefixtures("kept_home", "without_deployment")
def test_emulators_with_older_patches_are_restarted(monkeypatch: pytest.MonkeyPatch) -> None:
    info, _ = up(tiny_deployment())
    monkeypatch.setattr(fingerprint, "of_emulators", lambda: "newer")
    again, progress = up(tiny_deployment())
    assert progress[0] == "restarting: the code of the emulators changed"
    assert set(again.pids.values()).isdisjoint(info.pids.values())


@pytest.mark.usefixtures("without_deployment")
def test_two_stacks_run_side_by_side(home: Path) -> None:
    one = local.up(default_ports=False, stack="one", deployment=tiny_deployment())
    other = local.up(default_ports=False, stack="other", deployment=tiny_deployment())
    assert one.endpoint != other.endpoint
    assert local.down(stack="one")
    assert local.stack_info(stack="one") is None
    assert PrivateStack(home, other).workers() == {}  # it answers
    assert local.down(stack="other")
    assert processes_of(home) == []


@pytest.mark.usefixtures("without_deployment", "home")
def test_occupied_default_ports_are_replaced_by_free_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as first, socket.socket() as second:
        for one in (first, second):
            one.bind((environment.LOOPBACK, 0))
            one.listen()
        taken = Ports(first.getsockname()[1], second.getsockname()[1])
        monkeypatch.setattr(environment, "DEFAULT_PORTS", taken)
        info = local.up(deployment=tiny_deployment())
    chosen = {int(address.rpartition(":")[2]) for address in (info.endpoint, info.compute_endpoint)}
    assert chosen.isdisjoint({taken.event_plane, taken.compute_plane})


def test_the_error_names_an_emulator_that_ends_at_its_start_and_its_last_log_line(
    home: Path, project: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifecycle.environment, "compute_plane_environment", lambda *_: {"PATH": os.environ["PATH"]})
    error = failure(project)
    assert isinstance(error, Transient)
    assert "the compute-plane ended at its start: KeyError: 'FAULTBRIDGE_LOCAL_FOLDER'" in str(error)
    assert processes_of(home) == []


def test_another_version_of_an_emulator_is_refused_before_anything_starts(
    home: Path, project: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifecycle, "PINNED", {"ministack": "0.0.1"})
    error = failure(project)
    assert isinstance(error, Misconfigured)
    assert "needs ministack 0.0.1, found" in str(error)
    assert processes_of(home) == []


def test_down_stops_the_processes_of_a_killed_up(home: Path) -> None:
    folder = stack_folder("faultbridge")
    started = lifecycle.start(folder, "faultbridge", default_ports=False)
    files.write_state(folder, started)
    assert not local.status().up
    assert local.down()
    assert not any(processes.is_running(emulator.process) for emulator in started.emulators)
