"""GPU reset and reboot over SSM: the state for each command status, and the scripts on a host."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError
from botocore.stub import ANY

from faultbridge.adapters.ec2 import restart
from faultbridge.adapters.ec2.commands import THROTTLE_RETRY
from faultbridge.adapters.ec2.restart import SsmRestarter
from faultbridge.model.enums import ProviderFailure, RepairAction
from faultbridge.record.ports.compute import Restart, RestartState
from tests.adapters.stubs import client_error, failing, stubbed

INSTANCE = "i-0123456789abcdef0"
COMMAND = "01234567-89ab-cdef-0123-456789abcdef"
TOKEN = "c-abc-1"


def restart_status(status: str, details: str, output: str = "", error: str = "") -> Restart:
    listed = {"Commands": [{"CommandId": COMMAND, "Comment": f"{TOKEN} reboot_node"}]}
    answer = {
        "CommandId": COMMAND, "InstanceId": INSTANCE, "Status": status, "StatusDetails": details,
        "StandardOutputContent": output, "StandardErrorContent": error,
    }  # fmt: skip
    with stubbed("ssm") as (clients, stub):
        stub.add_response("list_commands", listed, {"InstanceId": INSTANCE})
        stub.add_response("get_command_invocation", answer, {"CommandId": COMMAND, "InstanceId": INSTANCE})
        return SsmRestarter(clients).status(RepairAction.REBOOT_NODE, INSTANCE, TOKEN)


def test_a_successful_reboot_returns_the_new_boot_id() -> None:
    found = restart_status("Success", "Success", "boot_id=6f1c\n")
    assert (found.state, found.boot_id, found.operation) == (RestartState.DONE, "6f1c", COMMAND)


@pytest.mark.parametrize("status", ["Pending", "InProgress", "Delayed"])
def test_a_command_in_progress_is_running(status: str) -> None:
    assert restart_status(status, status).state is RestartState.RUNNING


@pytest.mark.parametrize(
    ("status", "details"), [("Failed", "Failed"), ("TimedOut", "Delivery Timed Out"), ("Failed", "Undeliverable")]
)
def test_a_failed_command_has_failed_with_its_reason(status: str, details: str) -> None:
    found = restart_status(status, details, error="GPU is in use")
    assert found.state is RestartState.FAILED
    assert found.reason == f"reboot_node ended as {details.replace(' ', '')}: GPU is in use"


def test_an_instance_that_never_registered_with_ssm_was_sent_no_restart() -> None:
    with stubbed("ssm") as (clients, stub):
        stub.add_client_error("list_commands", "InvalidInstanceId")
        assert SsmRestarter(clients).status(RepairAction.RESET_GPU, INSTANCE, TOKEN).state is RestartState.ABSENT


def test_without_a_response_the_state_is_unknown() -> None:
    with failing("ssm", ReadTimeoutError(endpoint_url="https://ssm")) as clients:
        assert SsmRestarter(clients).status(RepairAction.RESET_GPU, INSTANCE, TOKEN).state is RestartState.UNKNOWN


@pytest.mark.parametrize(
    ("error", "failure", "calls"),
    [
        (client_error("InvalidInstanceId"), ProviderFailure.NOT_FOUND, 1),
        (client_error("AccessDeniedException"), ProviderFailure.PERMISSION_DENIED, 1),
        (client_error("ThrottlingException"), ProviderFailure.THROTTLED, THROTTLE_RETRY.attempts),
        (ReadTimeoutError(endpoint_url="https://ssm"), ProviderFailure.AMBIGUOUS, 1),
    ],
)
def test_a_failed_call_gives_the_reason_and_is_retried_only_if_it_was_throttled(
    error: Exception, failure: ProviderFailure, calls: int
) -> None:
    requests: list[Any] = []
    with stubbed("ssm") as (_, stub):
        stub.add_response("list_commands", {"Commands": []}, {"InstanceId": INSTANCE})
        with failing("ssm_no_retry", error, requests) as clients:
            assert SsmRestarter(clients).restart(RepairAction.RESET_GPU, INSTANCE, TOKEN).failure is failure
    assert len(requests) == calls


@pytest.mark.parametrize("repair_action", [RepairAction.VERIFY, RepairAction.REPLACE_NODE])
def test_an_action_that_is_no_restart_sends_nothing_to_the_instance(repair_action: RepairAction) -> None:
    with stubbed("ssm") as (clients, _), stubbed("ssm_no_retry"):
        refused = SsmRestarter(clients).restart(repair_action, INSTANCE, TOKEN)
    assert (refused.failure, repair_action.value in refused.reason) == (ProviderFailure.PROVIDER_ERROR, True)
    with pytest.raises(KeyError):
        restart.script(repair_action, TOKEN)


def test_a_restart_is_delivered_within_ten_minutes_or_never() -> None:
    expected = {"InstanceIds": [INSTANCE], "DocumentName": "AWS-RunShellScript", "Comment": ANY, "Parameters": ANY}
    with stubbed("ssm") as (clients, reading), stubbed("ssm_no_retry") as (_, sending):
        reading.add_response("list_commands", {"Commands": []}, {"InstanceId": INSTANCE})
        answer = {"Command": {"CommandId": COMMAND}}
        sending.add_response("send_command", answer, expected | {"TimeoutSeconds": 600})
        assert SsmRestarter(clients).restart(RepairAction.REBOOT_NODE, INSTANCE, TOKEN).operation == COMMAND


class Host:
    """A host (fake) in a folder: its tools log their arguments, its boot id is a file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.calls = folder / "calls"
        self.boot = folder / "boot_id"
        self.boot.write_text("first\n")
        self.calls.touch()
        for name in ("systemctl", "nvidia-smi"):
            self.tool(name, f'ulimit -S -f unlimited\necho "{name} $*" >> {self.calls}')

    def tool(self, name: str, script: str) -> None:
        """Put a tool into the path of the scripts, before the real one."""
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def run(self, repair_action: RepairAction, *, disk: str = "") -> tuple[int, str]:
        done = self._run(repair_action, disk, "sh")
        assert not done.stderr
        return done.returncode, done.stdout

    def refusal(self, repair_action: RepairAction, *, disk: str = "", shell: str = "sh") -> tuple[int, str]:
        """Run a script that is expected to do nothing; return its exit code and its last line on stderr."""
        done = self._run(repair_action, disk, shell)
        return done.returncode, done.stderr.splitlines()[-1]

    def _run(self, repair_action: RepairAction, disk: str, shell: str) -> subprocess.CompletedProcess[str]:
        """Run a script in a shell; `disk` is shell code that runs before it."""
        text = "\n".join((disk, *restart.script(repair_action, TOKEN)))
        text = text.replace(restart.FOLDER, str(self.folder / "state"))
        text = text.replace("/proc/sys/kernel/random/boot_id", str(self.boot))
        path = f"{self.folder}:{os.environ['PATH']}"
        # restore_signals=False: a write beyond `ulimit -f` then fails like one on a full disk, without a signal.
        return subprocess.run(
            [shell, "-c", text],
            env={"PATH": path},
            capture_output=True,
            text=True,
            check=False,
            restore_signals=False,
        )

    def resets(self) -> int:
        return self.calls.read_text().count("nvidia-smi --gpu-reset")


def test_the_reset_script_resets_once_in_several_runs(tmp_path: Path) -> None:
    host = Host(tmp_path)
    assert [host.run(RepairAction.RESET_GPU)[0] for _ in range(3)] == [0, 0, 0]
    assert host.resets() == 1


def test_the_reset_script_stops_gpu_services_and_starts_them_again(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.run(RepairAction.RESET_GPU)
    calls = host.calls.read_text().splitlines()
    at = calls.index("nvidia-smi --gpu-reset")
    stopped = [call.split()[-1] for call in calls[:at] if " stop " in call]
    assert stopped == list(restart.GPU_SERVICES)
    assert [call.split()[-1] for call in calls[at + 1 :]] == list(reversed(restart.GPU_SERVICES))


def test_a_failed_reset_is_reported_again_without_a_second_reset(tmp_path: Path) -> None:
    host = Host(tmp_path)
    (tmp_path / "nvidia-smi").write_text(f'#!/bin/sh\necho "nvidia-smi $*" >> {host.calls}\nexit 9\n')
    assert [host.run(RepairAction.RESET_GPU)[0] for _ in range(2)] == [9, 9]
    assert host.resets() == 1


def test_the_reboot_script_requests_a_reboot_until_one_happened(tmp_path: Path) -> None:
    host = Host(tmp_path)
    assert [host.run(RepairAction.REBOOT_NODE)[0] for _ in range(2)] == [restart.REBOOT_NOW] * 2
    host.boot.write_text("second\n")
    assert [host.run(RepairAction.REBOOT_NODE) for _ in range(2)] == [(0, "boot_id=second\n")] * 2
    host.boot.write_text("third\n")
    assert host.run(RepairAction.REBOOT_NODE) == (0, "boot_id=third\n")


FULL = "ulimit -S -f 0"
"""Shell code after which no file can grow, as on a full disk."""


@pytest.mark.parametrize("shell", ["sh", "bash"])
@pytest.mark.parametrize("repair_action", [RepairAction.RESET_GPU, RepairAction.REBOOT_NODE])
def test_on_a_full_disk_a_script_does_nothing_in_any_run(
    repair_action: RepairAction, shell: str, tmp_path: Path
) -> None:
    host = Host(tmp_path)
    runs = [host.refusal(repair_action, disk=FULL, shell=shell) for _ in range(2)]
    assert {code for code, _ in runs} == {restart.CANNOT_RECORD}
    assert all(reason.endswith("cannot be written; nothing was done") for _, reason in runs)
    assert host.calls.read_text() == ""


@pytest.mark.parametrize("shell", ["sh", "bash"])
@pytest.mark.parametrize("repair_action", [RepairAction.RESET_GPU, RepairAction.REBOOT_NODE])
def test_without_a_folder_for_its_marker_a_script_does_nothing(
    repair_action: RepairAction, shell: str, tmp_path: Path
) -> None:
    host = Host(tmp_path)
    (tmp_path / "state").write_text("a file where the folder belongs")
    code, reason = host.refusal(repair_action, shell=shell)
    assert (code, reason.endswith("is not writable; nothing was done")) == (restart.CANNOT_RECORD, True)
    assert host.calls.read_text() == ""


@pytest.mark.parametrize(
    ("tool", "script", "problem"),
    [
        ("flock", "exit 1", "locked"),
        ("sync", 'case "$1" in *.new) exit 1;; esac', "written"),
        ("sync", 'case "$1" in */state) exit 1;; esac', "written"),
    ],
    ids=["no lock", "marker not on disk", "folder not on disk"],
)
@pytest.mark.parametrize("repair_action", [RepairAction.RESET_GPU, RepairAction.REBOOT_NODE])
def test_a_script_does_nothing_before_it_has_its_lock_and_its_marker_is_on_disk(
    repair_action: RepairAction, tool: str, script: str, problem: str, tmp_path: Path
) -> None:
    host = Host(tmp_path)
    host.tool(tool, script)
    code, reason = host.refusal(repair_action)
    assert (code, reason.endswith(f"cannot be {problem}; nothing was done")) == (restart.CANNOT_RECORD, True)
    assert host.calls.read_text() == ""


def test_a_reset_that_did_not_finish_is_not_repeated(tmp_path: Path) -> None:
    host = Host(tmp_path)
    (tmp_path / "nvidia-smi").write_text(
        f'#!/bin/sh\necho "nvidia-smi $*" >> {host.calls}\nkill -9 $(ps -o ppid= $PPID)\n'
    )
    assert host.run(RepairAction.RESET_GPU)[0] == -9
    code, reason = host.refusal(RepairAction.RESET_GPU)
    assert code == restart.UNFINISHED_BEFORE
    assert reason == "an earlier run of this reset did not finish; nothing was done"
    assert host.resets() == 1


def test_a_reset_whose_result_cannot_be_written_is_reported_once_and_not_repeated(tmp_path: Path) -> None:
    host = Host(tmp_path)
    marker = tmp_path / "state" / f"{TOKEN}.reset_gpu"
    # The disk becomes full during the reset: the next marker cannot be written.
    (tmp_path / "nvidia-smi").write_text(f'#!/bin/sh\necho "nvidia-smi $*" >> {host.calls}\nmkdir {marker}.new\n')
    code, reason = host.refusal(RepairAction.RESET_GPU)
    assert (code, reason.endswith("the reset is not repeated")) == (0, True)
    assert host.refusal(RepairAction.RESET_GPU)[0] == restart.UNFINISHED_BEFORE
    assert host.resets() == 1


def test_a_node_without_a_lasting_folder_is_not_rebooted(tmp_path: Path) -> None:
    host = Host(tmp_path)
    stat = tmp_path / "stat"
    stat.write_text("#!/bin/sh\necho tmpfs\n")
    stat.chmod(0o755)
    code, reason = host.refusal(RepairAction.REBOOT_NODE)
    assert (code, reason.endswith("does not survive a reboot; nothing was done")) == (restart.CANNOT_RECORD, True)
