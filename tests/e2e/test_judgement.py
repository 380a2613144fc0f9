"""One double-bit error that five sources report, and a job that learns of a suspicion with its next heartbeat."""

from __future__ import annotations

import importlib.util
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from faultbridge.model.enums import RepairAction
from faultbridge.model.times import from_text, to_text
from faultbridge.serve.ingest.send import RawInput
from tests.e2e.harness.installation import Installation
from tests.e2e.harness.records import DOUBLE_BIT, healthy_smi
from tests.waiting import BUSY_FACTOR, eventually

pytestmark = [pytest.mark.embedded, pytest.mark.nightly]

NODE, GPU, PCI = "node-000", 3, "31"
EXAMPLE = Path(__file__).parents[2] / "examples/checkpoint/checkpoints.py"
AT_RISK = (
    "NVRM: Xid (PCI:0000:31:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 14 "
    "(0x004001c6 0x00000000 0x00000000 0x00000000 0x00000000 0x00000000)"
)
CODES = ["agent.double_bit_error", "dcgm.dbe_violation", "dcgm.volatile_dbe_detected", "train.cuda_ecc", "xid.48"]


def five_reports(now: datetime) -> dict[str, str]:
    """Return the reports of one double-bit error by source; two of them name no GPU."""
    overflow = [f"A volatile double-bit ECC error was detected on GPU {GPU}."]
    watch = {"children": {"Errors": {"children": {"Memory system": {"value": "Failure", "overflow": overflow}}}}}
    gpus = {"children": {str(GPU): {**watch, "value": "Failure"}}, "value": "Failure"}
    condition = {"type": "AcceleratedHardwareReady", "status": "False", "reason": "NvidiaDoubleBitError"}
    return {
        "training-log": "RuntimeError: CUDA error: uncorrectable ECC error encountered",
        "eks-node-condition": json.dumps([{**condition, "lastTransitionTime": to_text(now)}]),
        "dcgm-health": json.dumps({"body": {"GPU": gpus}, "header": ["Health Monitor Report"]}),
        "kernel-log": DOUBLE_BIT.replace("0000:1b", f"0000:{PCI}"),
        "dcgm-policy": "A double-bit ECC error has violated policy manager values.\nDBE error count: 1\n",
    }


def know_gpus(installation: Installation, cluster: str) -> None:
    """Let the node report its GPUs, so that a report by number and one by PCI address are about the same GPU."""
    installation.send([RawInput("nvidia-smi-xml", cluster, healthy_smi().encode(), node=NODE)])
    eventually(lambda: installation.states(cluster)[NODE].devices, 60)


def of_type(installation: Installation, cluster: str, name: str) -> list[dict[str, Any]]:
    """Return the data of the recorded entries of one type, oldest first."""
    found = [one for one in installation.entries(cluster).values() if one["metadata"]["event_type"] == name]
    return [one["data"] for one in sorted(found, key=lambda one: one["metadata"]["recorded_at"])]


def test_five_sources_that_report_one_error_are_one_condition_one_event_and_one_reset(
    installation: Installation,
) -> None:
    cluster = installation.register_cluster(1, fleet=1)
    know_gpus(installation, cluster)
    reports = five_reports(datetime.now(UTC)).items()
    installation.send([RawInput(source, cluster, text.encode(), node=NODE) for source, text in reports])
    eventually(lambda: installation.cases(cluster), 60)
    installation.wait_until_idle(cluster, 180)
    detected = of_type(installation, cluster, "Node Fault Detected")
    assert [one["failure_mode"] for one in detected] == ["gpu.ecc_uncorrectable"]
    added = [one["added_code"] for one in of_type(installation, cluster, "Node Fault Updated") if one.get("added_code")]
    assert sorted([detected[0]["code"], *added]) == CODES
    (case,) = installation.cases(cluster)
    assert case.repair_action is RepairAction.RESET_GPU
    steps = of_type(installation, cluster, "Node Replacement Step")
    assert [one["outcome"] for one in steps if one["step"] == "repair_in_place"] == ["begun", "back"]
    events = [seen[0]["detail"] for seen in installation.events.deliveries(cluster).values()]
    assert sum(one["metadata"]["event_type"] == "Node Fault Detected" for one in events) == 1


@pytest.fixture
def client() -> ModuleType:
    spec = importlib.util.spec_from_file_location("checkpoints", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_sample_job_saves_once_at_the_first_heartbeat_two_seconds_after_a_suspicion(
    installation: Installation, client: ModuleType
) -> None:
    cluster = installation.register_cluster(1, fleet=1)
    know_gpus(installation, cluster)
    path = f"/clusters/{cluster}/jobs"
    installation.call_api(path, {"change": "start", "job_id": "88213", "nodes": [NODE]})
    installation.run_sweep()
    job = client.Checkpoints(f"{installation.stack.outputs['ApiUrl']}{path}", "88213", "token")
    beats: list[tuple[datetime, bool]] = []
    saved: list[datetime] = []

    def beat() -> bool:
        at = datetime.now(UTC)
        job.report("heartbeat", step=len(beats) + 1)
        beats.append((at, job.requested()))
        if beats[-1][1]:
            saved.append(at)
            job.answer()
        return bool(saved)

    assert not beat()
    installation.send([RawInput("kernel-log", cluster, AT_RISK.encode(), node=NODE)])
    eventually(beat, 60)
    installation.wait_until_idle(cluster, 180)
    for _ in range(3):
        beat()
    assert len(saved) == 1
    (found,) = [
        one["metadata"]["recorded_at"]
        for one in installation.entries(cluster).values()
        if one["metadata"]["event_type"] == "Node Fault Detected"
    ]
    # Two seconds of an idle host; a busy one takes some times as long for the same work.
    late = from_text(found) + timedelta(seconds=2 * BUSY_FACTOR)
    assert [at for at, asked in beats if late <= at < saved[0]] == []
    (asked,) = of_type(installation, cluster, "Job Checkpoint Requested")
    changes = [one["change"] for one in of_type(installation, cluster, "Job Change") if one["job_id"] == "88213"]
    assert (asked["risk"]["node"], changes.count("checkpointed")) == (NODE, 1)
