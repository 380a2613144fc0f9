"""The smoke test of a real account, run from start to end on the embedded stack."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest

from infra.smoke.plan import CALLS
from infra.smoke.steps import STEPS
from tests.local.stack import PrivateStack
from tests.waiting import BUSY_FACTOR

pytestmark = [pytest.mark.embedded, pytest.mark.nightly]

ROOT = Path(__file__).resolve().parents[2]


def smoke(stack: PrivateStack, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the smoke test with what a running stack has deployed, whose emulators take all calls."""
    settings = {
        "FAULTBRIDGE_SMOKE": "run",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
    }
    (packaged,) = (stack.home / ".packages").iterdir()
    command = [sys.executable, "-m", "infra.smoke", "--packaged", str(packaged), *arguments]
    environment = {**os.environ, **stack.environment, **settings}
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=500 * BUSY_FACTOR
    )


def existing(stack: PrivateStack, name: str) -> list[str]:
    """Return what has this name on the emulators."""
    buckets = [bucket["Name"] for bucket in stack.client("s3").list_buckets()["Buckets"]]
    tables = stack.client("dynamodb").list_tables()["TableNames"]
    groups = [
        one["AutoScalingGroupName"]
        for one in stack.client("auto-scaling").describe_auto_scaling_groups()["AutoScalingGroups"]
    ]
    queues = stack.client("sqs").list_queues().get("QueueUrls", [])
    roles = [one["RoleName"] for one in stack.client("iam").list_roles()["Roles"]]
    logs = [one["logGroupName"] for one in stack.client("logs").describe_log_groups()["logGroups"]]
    return [one for one in (*buckets, *tables, *groups, *queues, *roles, *logs) if name in one]


def test_the_smoke_test_replaces_an_instance_and_leaves_nothing(embedded_stack: PrivateStack) -> None:
    name = f"fb-smoke-{uuid.uuid4().hex[:6]}"
    done = smoke(embedded_stack, "--name", name, "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    results = {row["step"]: row["result"] for row in found["steps"]}
    assert results == {step.name: "only on AWS" if step.only_on_aws else "passed" for step in STEPS} | {
        "cleanup": "passed"
    }
    assert set(found["calls"]) <= set(CALLS), "the plan does not list every call"
    old, _, new = next(row["detail"] for row in found["steps"] if row["step"] == "replacement").partition(" -> ")
    assert old.startswith("i-")
    assert new.startswith("i-")
    assert existing(embedded_stack, name) == []


def test_cleanup_removes_what_an_interrupted_run_left(embedded_stack: PrivateStack) -> None:
    name = f"fb-smoke-{uuid.uuid4().hex[:6]}"
    s3 = embedded_stack.client("s3")
    for bucket in (f"{name}-rawbucket-1", f"{name}0-other"):
        s3.create_bucket(Bucket=bucket)
    s3.put_bucket_versioning(Bucket=f"{name}-rawbucket-1", VersioningConfiguration={"Status": "Enabled"})
    for body in (b"first", b"second"):
        s3.put_object(Bucket=f"{name}-rawbucket-1", Key="raw/1", Body=body)
    s3.delete_object(Bucket=f"{name}-rawbucket-1", Key="raw/1")
    embedded_stack.client("dynamodb").create_table(
        TableName=f"{name}-Table-1",
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
    )
    refused = smoke(embedded_stack, "--name", name)
    assert (refused.returncode, f"{name} is in use" in refused.stderr) == (1, True)
    assert smoke(embedded_stack, "--cleanup", name).returncode == 0
    assert existing(embedded_stack, name) == [f"{name}0-other"], "another name with the same start is kept"
    s3.delete_bucket(Bucket=f"{name}0-other")
