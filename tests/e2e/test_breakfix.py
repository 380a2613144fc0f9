"""NVIDIA's validation suite itself proves break-fix capabilities of the embedded stack after a demo history.

The suite is a public repository (NVIDIA/ai-cloud-validation), of which nothing is here. FAULTBRIDGE_BREAKFIX_SUITE is a
checkout, FAULTBRIDGE_BREAKFIX_ISVCTL the program `isvctl` of an environment in which its packages are installed.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from faultbridge.model.times import to_text
from faultbridge.serve.ingest.send import RawInput
from tests.breakfix.demo import cards, retirement
from tests.e2e.harness.installation import Installation
from tests.e2e.harness.records import DOUBLE_BIT, GPU_LOST
from tests.waiting import eventually

pytestmark = [pytest.mark.embedded, pytest.mark.nightly]

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "breakfix"
WORKS = "node-001"
"""The node on which a job runs, and which the suite takes out of service and replaces."""

PROVEN = {
    "BmHardwareSerialCheck",
    "BmcKernelLogCheck",
    "CordonNodeCheck",
    "FailureNotificationCheck",
    "GpuResetCheck",
    "HostReplacementCheck",
    "MaintenanceEventsCheck",
    "NodeHealthAgentCheck",
    "PlannedMaintenanceNotificationCheck",
    "RepairHistoryCheck",
    "RetirementNoticesCheck",
    "ReturnNodeMaintenanceCheck",
}
NOT_SHOWN = {"NvSwitchFirmwareCheck", "ReturnRackMaintenanceCheck"}
"""What AWS does not show to a tenant, or does not let a tenant do."""


@pytest.fixture
def history(installation: Installation) -> str:
    """Return a cluster with a replaced node, a reset GPU, a scheduled retirement, a running job, and agents."""
    cluster = installation.register_cluster(4, fleet=4)
    for node, line in (("node-000", GPU_LOST), ("node-003", DOUBLE_BIT)):
        installation.send([RawInput("kernel-log", cluster, line.encode(), node=node)])
        eventually(lambda node=node: any(one for one in installation.cases(cluster)), 60)
        installation.wait_until_idle(cluster)
    later = to_text(datetime.now(UTC) + timedelta(days=14))
    retired = retirement(installation.instance_of(cluster, "node-002"), later)
    installation.send([RawInput("ec2-status", cluster, retired, node="node-002")])
    installation.send([RawInput("nvidia-smi-xml", cluster, cards(), node=WORKS)])
    installation.call_api(f"/clusters/{cluster}/jobs", {"change": "start", "job_id": "88213", "nodes": [WORKS]})
    return cluster


def send_heartbeats(installation: Installation, cluster: str) -> None:
    """Send what the agent of each node sends every minute, and wait until each one is the last report of its node."""
    beat = json.dumps({"heartbeat": 1, "at": to_text(datetime.now(UTC))}).encode()
    installation.send([RawInput("heartbeat", cluster, beat, node=node) for node in installation.states(cluster)])
    eventually(lambda: len(reporting(installation, cluster)) == len(installation.states(cluster)), 60)


def reporting(installation: Installation, cluster: str) -> list[str]:
    """Return the nodes whose last report is a heartbeat."""
    listed = installation.call_api(f"/clusters/{cluster}/nodes")["items"]
    return [one["node"] for one in listed if (one["last_report"] or {}).get("source") == "heartbeat"]


def results(kind: str, folder: Path, environment: dict[str, str]) -> dict[str, str]:
    """Run the suite with the provider, and return the result of each check by the name of its class."""
    suite = os.environ["FAULTBRIDGE_BREAKFIX_SUITE"]
    provider = folder / kind
    shutil.copytree(EXAMPLE, provider)
    config = provider / "config" / f"{kind}.yaml"
    config.write_text(config.read_text(encoding="utf-8").replace("CHECKOUT", suite), encoding="utf-8")
    junit = provider / "junit.xml"
    arguments = ("--label", "breakfix", "--no-upload", "--no-user-config", "--junitxml", str(junit))
    command = [os.environ["FAULTBRIDGE_BREAKFIX_ISVCTL"], "test", "run", "-f", str(config), *arguments]
    done = subprocess.run(
        command, cwd=suite, env={**os.environ, **environment}, capture_output=True, text=True, check=False, timeout=900
    )
    assert junit.is_file(), done.stdout[-2_000:] + done.stderr[-2_000:]
    found: dict[str, str] = {}
    for case in ET.parse(junit).iter("testcase"):  # noqa: S314 - as above
        name = next((one for one in PROVEN | NOT_SHOWN if one in str(case.get("name"))), None)
        if name is not None:
            states = {child.tag for child in case} & {"skipped", "failure", "error"}
            found[name] = next(iter(states), "passed") if found.get(name, "skipped") == "skipped" else found[name]
    return found


@pytest.mark.skipif("FAULTBRIDGE_BREAKFIX_SUITE" not in os.environ, reason="needs a checkout of the validation suite")
@pytest.mark.timeout(1_500)
def test_the_suite_proves_twelve_of_fourteen_and_skips_the_others(
    installation: Installation, history: str, tmp_path: Path
) -> None:
    environment = {
        "FAULTBRIDGE_API": installation.stack.outputs["ApiUrl"],
        "FAULTBRIDGE_CLUSTER": history,
        "FAULTBRIDGE_BREAKFIX_MUTATE": "1",
        "FAULTBRIDGE_BREAKFIX_NODE": WORKS,
        "FAULTBRIDGE_BREAKFIX_WAIT": "90",
    }
    found = results("kubernetes", tmp_path, environment)
    send_heartbeats(installation, history)
    found |= results("bare_metal", tmp_path, environment)
    assert {name for name, state in found.items() if state == "passed"} == PROVEN, found
    assert {name for name, state in found.items() if state == "skipped"} == NOT_SHOWN
