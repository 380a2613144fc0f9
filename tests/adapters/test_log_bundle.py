"""Log bundles over SSM: what the presigned URL is, and when a bundle counts as kept."""

from __future__ import annotations

import os
import subprocess
import tarfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.parse import parse_qs, urlsplit

import pytest

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.ec2.log_bundle import READ_SCRIPT, SsmLogCollector, script
from faultbridge.record.ports.compute import Bundle, BundleState, HostOutput
from tests.adapters.stubs import ENVIRONMENT, stubbed
from tests.builders import NOON

BUCKET = "amzn-s3-demo-bucket"
INSTANCE = "i-0123456789abcdef0"
COMMAND = "01234567-89ab-cdef-0123-456789abcdef"
KEY = f"bundles/{INSTANCE}/c-abc-1.tar.gz"


def presigned(region: str) -> str:
    with mock.patch.dict(os.environ, ENVIRONMENT, clear=True):
        clients = Clients(region=region)
        collector = SsmLogCollector(clients, clients, BUCKET)
        url: str = collector.presigned_url(KEY)
    return url


@pytest.mark.parametrize(
    ("region", "host"),
    [
        ("us-east-1", f"{BUCKET}.s3.us-east-1.amazonaws.com"),
        ("eu-west-1", f"{BUCKET}.s3.eu-west-1.amazonaws.com"),
        ("ap-southeast-4", f"{BUCKET}.s3.ap-southeast-4.amazonaws.com"),
        ("cn-north-1", f"{BUCKET}.s3.cn-north-1.amazonaws.com.cn"),
    ],
)
def test_the_url_names_the_bucket_in_its_region_and_has_signature_version_4(region: str, host: str) -> None:
    url = urlsplit(presigned(region))
    assert url.hostname == host
    assert parse_qs(url.query)["X-Amz-Algorithm"] == ["AWS4-HMAC-SHA256"]


def collected(answer: dict[str, Any] | None) -> Bundle:
    """The bundle after a command that succeeded; `answer` is that of HeadObject, None for a missing object."""
    succeeded = {"CommandId": COMMAND, "InstanceId": INSTANCE, "Status": "Success", "StatusDetails": "Success"}
    with stubbed("ssm") as (compute, ssm), stubbed("s3") as (storage, s3):
        ssm.add_response("list_commands", {"Commands": [{"CommandId": COMMAND, "Comment": "c-abc-1 bundle"}]})
        ssm.add_response("get_command_invocation", succeeded)
        if answer is None:
            s3.add_client_error("head_object", "404", http_status_code=404)
        else:
            s3.add_response("head_object", answer, {"Bucket": BUCKET, "Key": KEY})
        return SsmLogCollector(compute, storage, BUCKET).collect(INSTANCE, "c-abc-1")


def test_a_bundle_that_the_bucket_holds_is_kept() -> None:
    assert collected({"ContentLength": 5}) == Bundle(BundleState.KEPT, f"s3://{BUCKET}/{KEY}")


@pytest.mark.parametrize("answer", [None, {"ContentLength": 0}])
def test_a_command_that_succeeded_without_an_upload_keeps_nothing(answer: dict[str, Any] | None) -> None:
    assert collected(answer).state is BundleState.FAILED


def test_an_instance_that_never_registered_with_ssm_fails_with_the_reason() -> None:
    with stubbed("ssm") as (compute, ssm), stubbed("s3") as (storage, _):
        ssm.add_client_error("list_commands", "InvalidInstanceId")
        ssm.add_client_error("send_command", "InvalidInstanceId")
        found = SsmLogCollector(compute, storage, BUCKET).collect(INSTANCE, "c-abc-1")
    assert (found.state, found.reason) == (BundleState.FAILED, "the SSM agent does not respond")


def run_script(folder: Path, **programs: str) -> subprocess.CompletedProcess[str]:
    """Run the script on a host that has these programs, each with its shell text, besides those of the system."""
    for tool, text in programs.items():
        (folder / tool).write_text(f"#!/bin/sh\n{text}\n")
        (folder / tool).chmod(0o755)
    lines, path = "\n".join(script("https://bucket.example/key")), f"{folder}:/usr/bin:/bin"
    return subprocess.run(["sh", "-c", lines], env={"PATH": path}, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("status", "code"), [(200, 0), (204, 22), (307, 22), (400, 22), (403, 22)])
def test_the_script_succeeds_only_when_the_upload_is_answered_with_200(tmp_path: Path, status: int, code: int) -> None:
    assert run_script(tmp_path, curl=f"printf {status}", journalctl="echo NVRM: Xid").returncode == code


def test_the_bundle_contains_the_logs_and_is_packed_without_a_warning(tmp_path: Path) -> None:
    upload = f'while [ "$1" != -T ]; do shift; done; cp "$2" {tmp_path}/uploaded; printf 200'
    done = run_script(tmp_path, curl=upload, journalctl="echo NVRM: Xid")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    with tarfile.open(tmp_path / "uploaded") as bundle:
        assert {"./kernel.log", "./nvidia-smi.txt", "./dcgmi-health.json"} <= set(bundle.getnames())
        kernel = bundle.extractfile("./kernel.log")
        assert kernel is not None
        assert kernel.read() == b"NVRM: Xid\n"


def run_read_script(folder: Path, dmesg: str, nvidia_smi: str) -> str:
    """Return what the script of `read` prints on a host with these programs."""
    for tool, text in {"dmesg": dmesg, "nvidia-smi": nvidia_smi}.items():
        (folder / tool).write_text(f"#!/bin/sh\n{text}\n")
        (folder / tool).chmod(0o755)
    path = f"{folder}:/usr/bin:/bin"
    done = subprocess.run(["sh", "-c", "\n".join(READ_SCRIPT)], env={"PATH": path}, capture_output=True, check=True)
    return done.stdout.decode()


def read(output: str, status: str = "Success") -> HostOutput | None:
    """Return the result of a command that ended with this status and output."""
    ended = {"CommandId": COMMAND, "InstanceId": INSTANCE, "Status": status, "StatusDetails": status}
    with stubbed("ssm") as (compute, ssm):
        ssm.add_response("list_commands", {"Commands": [{"CommandId": COMMAND, "Comment": "c-abc check 1"}]})
        ssm.add_response("get_command_invocation", ended | {"StandardOutputContent": output})
        asked = {"Commands": [{"CommandId": COMMAND, "RequestedDateTime": NOON}]}
        ssm.add_response("list_commands", asked, {"CommandId": COMMAND})
        return SsmLogCollector(compute, compute, BUCKET).read(INSTANCE, "c-abc check 1")


FIRST = "2026-02-03T04:05:06,123456+00:00 Linux version 6.1"
XID = "2026-02-03T05:05:06,123456+00:00 NVRM: Xid (PCI:0000:53:00): 79, GPU has fallen off the bus."


def test_the_output_has_the_lines_of_the_driver_and_the_time_since_which_they_are_complete(tmp_path: Path) -> None:
    other = "2026-02-03T04:30:06,123456+00:00 usb 1-1: new device"
    found = read(run_read_script(tmp_path, f"echo '{FIRST}'; echo '{other}'; echo '{XID}'", "echo '<nvidia_smi_log>'"))
    first = datetime(2026, 2, 3, 4, 5, 6, 123456, UTC)
    assert found == HostOutput(NOON, f"{FIRST}\n{XID}\n".encode(), first, b"<nvidia_smi_log>\n")


def test_an_output_of_many_lines_is_complete_only_since_its_first_line(tmp_path: Path) -> None:
    found = read(run_read_script(tmp_path, f"echo '{FIRST}'; yes '{XID}' | head -n 900", "exit 9"))
    assert found is not None
    assert found.log_from == datetime(2026, 2, 3, 5, 5, 6, 123456, UTC)
    assert len(found.kernel_log.splitlines()) == 200
    assert found.nvidia_smi == b""


@pytest.mark.parametrize("cut", [15, 60, 100])
def test_output_that_is_truncated_shows_nothing_of_what_is_missing(tmp_path: Path, cut: int) -> None:
    output = run_read_script(tmp_path, f"echo '{FIRST}'", "yes '<gpu>' | head -n 99")
    found = read(f"{output[:cut]}--output truncated--")
    assert found is not None
    assert found.nvidia_smi == b""


@pytest.mark.parametrize("status", ["Failed", "TimedOut", "Cancelled"])
def test_a_command_that_did_not_complete_shows_nothing(status: str) -> None:
    with stubbed("ssm") as (compute, ssm):
        ended = {"CommandId": COMMAND, "InstanceId": INSTANCE, "Status": status, "StatusDetails": status}
        ssm.add_response("list_commands", {"Commands": [{"CommandId": COMMAND, "Comment": "c-abc check 1"}]})
        ssm.add_response("get_command_invocation", ended)
        assert SsmLogCollector(compute, compute, BUCKET).read(INSTANCE, "c-abc check 1") == HostOutput()


def test_a_command_is_sent_with_short_time_limits_and_waits_while_it_runs() -> None:
    with stubbed("ssm") as (compute, ssm):
        ssm.add_response("list_commands", {"Commands": []})
        request = {
            "InstanceIds": [INSTANCE],
            "DocumentName": "AWS-RunShellScript",
            "Comment": "c-abc check 1",
            "TimeoutSeconds": 30,
            "Parameters": {"commands": list(READ_SCRIPT), "executionTimeout": ["20"]},
        }
        ssm.add_response("send_command", {"Command": {"CommandId": COMMAND}}, request)
        runs = {"CommandId": COMMAND, "InstanceId": INSTANCE, "Status": "InProgress", "StatusDetails": "InProgress"}
        ssm.add_response("get_command_invocation", runs)
        assert SsmLogCollector(compute, compute, BUCKET).read(INSTANCE, "c-abc check 1") is None


def test_an_instance_without_an_agent_of_ssm_shows_nothing() -> None:
    with stubbed("ssm") as (compute, ssm):
        ssm.add_client_error("list_commands", "InvalidInstanceId")
        ssm.add_client_error("send_command", "InvalidInstanceId")
        assert SsmLogCollector(compute, compute, BUCKET).read(INSTANCE, "c-abc check 1") == HostOutput()
