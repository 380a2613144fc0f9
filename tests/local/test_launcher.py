"""`up` and `down`: quick when there is nothing to do, and never leaving anything behind."""

from __future__ import annotations

import os
import signal
import socket
import time
from pathlib import Path

import pytest

from faultbridge import local
from faultbridge.errors import Misconfigured, Transient
from faultbridge.local import emulators, fingerprint, ports, processes, state
from faultbridge.local.deploy import Deployment
from faultbridge.local.paths import stack_folder
from faultbridge.local.ports import Ports
from tests.local.stack import PrivateStack, at_home, tiny_deployment
from tests.local.trials import LOOPBACK, failure, listening_addresses, processes_of, up
from tests.local.waiting import eventually

pytestmark = pytest.mark.embedded


def test_up_when_all_is_up_does_nothing_and_is_quick(tiny_stack: PrivateStack) -> None:
    began = time.monotonic()
    with at_home(tiny_stack.home):
        info, said = up(tiny_deployment())
    assert time.monotonic() - began < 2.0
    assert info == tiny_stack.info
    assert said == ["nothing changed since the last deployment"]


def test_nothing_listens_but_on_loopback(tiny_stack: PrivateStack) -> None:
    for pid in tiny_stack.info.pids.values():
        assert list(listening_addresses(pid)) == [LOOPBACK]


def test_a_client_finds_the_stack_that_is_up(tiny_stack: PrivateStack, tmp_path: Path) -> None:
    with at_home(tiny_stack.home):
        assert local.endpoint_environment() == tiny_stack.info.environment
        assert local.stack_info() == tiny_stack.info
    with at_home(tmp_path):
        assert local.endpoint_environment() == {}
        assert local.stack_info() is None


def test_status_says_what_runs_where(tiny_stack: PrivateStack) -> None:
    with at_home(tiny_stack.home):
        status = local.status(count_stuck=lambda: 7)
    assert status.up
    assert [(one.name, one.serving) for one in status.emulators] == [("event-plane", True), ("compute-plane", True)]
    assert {(queue.logical_id, queue.dead_letters) for queue in status.queues} == {
        ("Queue", False),
        ("DeadLetters", True),
    }
    assert (status.executions_running, status.stuck) == (0, 7)
    assert status.as_json()["emulators"][0]["endpoint"] == tiny_stack.info.endpoint


def test_status_of_what_is_not_up_says_so(home: Path) -> None:
    assert not local.status().up
    assert not local.down()
    assert not home.exists() or processes_of(home) == []


@pytest.mark.usefixtures("nothing_to_deploy")
def test_fresh_starts_over_with_nothing(home: Path) -> None:
    info, _ = up(tiny_deployment())
    PrivateStack(home, info).client("sqs").create_queue(QueueName="lost")
    again, said = up(tiny_deployment(), fresh=True)
    assert set(again.pids.values()).isdisjoint(info.pids.values())
    assert said[0] == "starting over: as asked"
    assert not PrivateStack(home, again).client("sqs").list_queues().get("QueueUrls")


@pytest.mark.usefixtures("nothing_to_deploy")
@pytest.mark.parametrize("gone", ["event-plane", "compute-plane"])
def test_a_stack_that_lost_an_emulator_is_started_over(home: Path, gone: str) -> None:
    info, _ = up(tiny_deployment())
    os.kill(info.pids[gone], signal.SIGKILL)
    eventually(lambda: not local.status().up)
    again, said = up(tiny_deployment())
    assert said[0] == f"starting over: the {gone} is gone, and with it what it held"
    assert set(again.pids.values()).isdisjoint(info.pids.values())
    assert len(processes_of(home)) == 2


@pytest.mark.usefixtures("nothing_to_deploy")
def test_emulators_that_run_older_code_of_ours_are_started_over(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info, _ = up(tiny_deployment())
    monkeypatch.setattr(fingerprint, "of_emulators", lambda: "newer")
    again, said = up(tiny_deployment())
    assert said[0] == "starting over: the emulators run older code of ours"
    assert set(again.pids.values()).isdisjoint(info.pids.values())


@pytest.mark.usefixtures("nothing_to_deploy")
def test_two_stacks_live_side_by_side(home: Path) -> None:
    one = local.up(usual_ports=False, stack="one", deployment=tiny_deployment())
    other = local.up(usual_ports=False, stack="other", deployment=tiny_deployment())
    assert one.endpoint != other.endpoint
    assert local.down(stack="one")
    assert local.stack_info(stack="one") is None
    assert PrivateStack(home, other).workers() == {}  # it answers
    assert local.down(stack="other")
    assert processes_of(home) == []


@pytest.mark.usefixtures("nothing_to_deploy", "home")
def test_taken_ports_are_replaced_by_free_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as first, socket.socket() as second:
        for one in (first, second):
            one.bind((ports.LOOPBACK, 0))
            one.listen()
        taken = Ports(first.getsockname()[1], second.getsockname()[1])
        monkeypatch.setattr(ports, "USUAL", taken)
        info = local.up(deployment=tiny_deployment())
    chosen = {int(address.rpartition(":")[2]) for address in (info.endpoint, info.compute_endpoint)}
    assert chosen.isdisjoint({taken.event_plane, taken.compute_plane})


def test_an_emulator_that_ends_at_its_start_is_named_with_its_last_words(
    home: Path, project: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(emulators, "compute_plane_environment", lambda *_: {"PATH": os.environ["PATH"]})
    error = failure(project)
    assert isinstance(error, Transient)
    assert "the compute-plane ended at its start: KeyError: 'FAULTBRIDGE_LOCAL_FOLDER'" in str(error)
    assert processes_of(home) == []


def test_another_version_of_an_emulator_is_refused_before_anything_starts(
    home: Path, project: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(emulators, "PINNED", {"ministack": "0.0.1"})
    error = failure(project)
    assert isinstance(error, Misconfigured)
    assert "needs ministack 0.0.1, found" in str(error)
    assert processes_of(home) == []


def test_down_finds_what_a_killed_up_left(home: Path) -> None:
    folder = stack_folder("faultbridge")
    left = emulators.start(folder, "faultbridge", usual_ports=False)
    state.write(folder, left)
    assert not local.status().up
    assert local.down()
    assert not any(processes.is_running(emulator.process) for emulator in left.emulators)
