"""`up` and `down`: quick when there is nothing to do, and never leaving anything behind."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from faultbridge import local
from faultbridge.errors import FaultbridgeError, Misconfigured, Transient
from faultbridge.local import deploy, emulators, fingerprint, ports, processes, state
from faultbridge.local.deploy import Deployment
from faultbridge.local.paths import stack_folder
from faultbridge.local.ports import Ports
from tests.local.stack import TINY, PrivateStack, at_home, tiny_deployment
from tests.local.waiting import eventually

pytestmark = pytest.mark.embedded


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    with at_home(tmp_path / "home"):
        yield tmp_path / "home"
        local.down()


@pytest.fixture
def project(tmp_path: Path) -> Deployment:
    """A copy of the small project, for tests that change it."""
    root = tmp_path / "project"
    shutil.copytree(TINY, root)
    return Deployment(project=root, template=root / "infra" / "template.yaml", parameters={})


@pytest.fixture
def nothing_to_deploy(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of what happens around a deployment: it is taken as done."""

    def taken_as_done(_folder: object, known: state.StackState, _wanted: object, _say: object) -> state.StackState:
        return known.with_deployment("nothing", {})

    monkeypatch.setattr(deploy, "bring_up_to_date", taken_as_done)


def up(deployment: Deployment, *, fresh: bool = False) -> tuple[local.StackInfo, list[str]]:
    said: list[str] = []
    info = local.up(fresh, said.append, usual_ports=False, deployment=deployment)
    return info, said


def processes_of(home: Path) -> list[str]:
    """Command lines of all processes that have this folder in their environment."""
    found = []
    others = (entry for entry in Path("/proc").glob("[0-9]*") if entry.name != str(os.getpid()))
    for entry in others:
        try:
            if str(home).encode() in (entry / "environ").read_bytes():
                found.append((entry / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


def listening_elsewhere(pids: set[int]) -> list[str]:
    """Sockets of these processes that listen on anything but 127.0.0.1."""
    lines = subprocess.run(["ss", "-ltnpH"], capture_output=True, text=True, check=True).stdout.splitlines()
    ours = [line for line in lines if any(f"pid={pid}," in line for pid in pids)]
    assert len(ours) == 2
    return [line for line in ours if not line.split()[3].startswith("127.0.0.1:")]


def test_up_when_all_is_up_does_nothing_and_is_quick(tiny_stack: PrivateStack) -> None:
    began = time.monotonic()
    with at_home(tiny_stack.home):
        info, said = up(tiny_deployment())
    assert time.monotonic() - began < 2.0
    assert info == tiny_stack.info
    assert said == ["nothing changed since the last deployment"]


@pytest.mark.skipif(shutil.which("ss") is None, reason="looks at sockets with ss, which this system does not have")
def test_nothing_listens_but_on_loopback(tiny_stack: PrivateStack) -> None:
    assert listening_elsewhere(set(tiny_stack.info.pids.values())) == []


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


def test_down_stops_what_up_started_and_forgets_it(home: Path, project: Deployment) -> None:
    info, _ = up(project)
    assert len(processes_of(home)) >= 3  # two emulators and a worker
    assert local.down()
    eventually(lambda: processes_of(home) == [])
    assert ports.is_free(int(info.endpoint.rpartition(":")[2]))
    assert local.stack_info() is None
    assert not local.down()


def test_changed_code_is_deployed_and_data_kept(home: Path, project: Deployment) -> None:
    info, _ = up(project)
    stack = PrivateStack(home, info)
    dynamodb = stack.client("dynamodb")
    dynamodb.put_item(TableName=info.outputs["TableName"], Item={"pk": {"S": "kept"}})
    stack.client("sqs").send_message(QueueUrl=info.outputs["DeadLettersUrl"], MessageBody="kept")
    template = project.template.read_text()
    project.template.write_text(
        template.replace("  DeadLetters:\n    Type: AWS::SQS::Queue\n", CHANGED_QUEUE).replace(
            "AttributeName: !Ref ExpireBy", "AttributeName: gone_at"
        )
    )
    again, said = up(project)
    assert again.pids == info.pids
    assert any("sam deploy" in line for line in said)
    expiry = dynamodb.describe_time_to_live(TableName=info.outputs["TableName"])["TimeToLiveDescription"]
    assert expiry["AttributeName"] == "gone_at"
    assert dynamodb.get_item(TableName=info.outputs["TableName"], Key={"pk": {"S": "kept"}})["Item"]
    queues = {queue.logical_id: queue for queue in stack.status().queues}
    assert queues["DeadLetters"].waiting == 1


CHANGED_QUEUE = "  DeadLetters:\n    Type: AWS::SQS::Queue\n    Properties: { VisibilityTimeout: 77 }\n"


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


def failure(deployment: Deployment) -> FaultbridgeError:
    with pytest.raises(FaultbridgeError) as error:
        up(deployment)
    assert "\n" not in str(error.value)
    return error.value


def test_a_template_that_cannot_be_deployed_leaves_nothing_running(home: Path, project: Deployment) -> None:
    text = project.template.read_text().replace(
        "  Topic:\n    Type: AWS::SNS::Topic", "  Topic:\n    Type: AWS::No::Such"
    )
    project.template.write_text(text)
    error = failure(project)
    assert isinstance(error, Transient)
    assert "sam" in str(error)
    assert "logs/sam-" in str(error)
    assert processes_of(home) == []
    assert local.stack_info() is None


def test_a_function_that_cannot_be_imported_is_found_by_up(home: Path, project: Deployment) -> None:
    handler = project.project / "functions" / "worker" / "handler.py"
    handler.write_text(handler.read_text().replace("import boto3", "import boto3\nimport no_such_package"))
    error = failure(project)
    assert isinstance(error, Misconfigured)
    assert "No module named 'no_such_package'" in str(error)
    assert processes_of(home) == []


def test_a_bad_change_to_a_stack_that_is_up_leaves_it_up(home: Path, project: Deployment) -> None:
    info, _ = up(project)
    text = project.template.read_text()
    project.template.write_text(text.replace("  Topic:\n", "  Odd:\n    Type: AWS::No::Such\n\n  Topic:\n"))
    failure(project)
    assert PrivateStack(home, info).status().up
    project.template.write_text(text)
    again, said = up(project)
    assert again == info
    assert said == ["nothing changed since the last deployment"]


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


def test_an_interrupted_up_leaves_nothing_running(
    home: Path, project: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(deploy, "build", interrupted)
    with pytest.raises(KeyboardInterrupt):
        up(project)
    assert processes_of(home) == []


def test_down_finds_what_a_killed_up_left(home: Path) -> None:
    folder = stack_folder("faultbridge")
    left = emulators.start(folder, "faultbridge", usual_ports=False)
    state.write(folder, left)
    assert not local.status().up
    assert local.down()
    assert not any(processes.is_running(emulator.process) for emulator in left.emulators)
