"""Log bundles over SSM: what the presigned URL is, and when a bundle counts as kept."""

from __future__ import annotations

import os
import subprocess
import tarfile
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.parse import parse_qs, urlsplit

import pytest

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.ec2.log_bundle import SsmLogCollector, script
from faultbridge.record.ports import Bundle, BundleState
from tests.adapters.stubs import ENVIRONMENT, stubbed

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
