"""The sample job of `examples/checkpoint` on the embedded stack learns of a suspicion with its next heartbeat."""

from __future__ import annotations

import importlib.util
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from faultbridge.model.times import from_text
from faultbridge.serve.ingest.send import RawInput
from tests.e2e.harness.installation import Installation
from tests.e2e.harness.records import healthy_smi
from tests.waiting import BUSY_FACTOR, eventually

pytestmark = [pytest.mark.embedded, pytest.mark.nightly]

NODE = "node-000"
EXAMPLE = Path(__file__).parents[2] / "examples/checkpoint/checkpoints.py"
AT_RISK = (
    "NVRM: Xid (PCI:0000:31:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 14 "
    "(0x004001c6 0x00000000 0x00000000 0x00000000 0x00000000 0x00000000)"
)


def know_gpus(installation: Installation, cluster: str) -> None:
    """Let the node report its GPUs."""
    installation.send([RawInput("nvidia-smi-xml", cluster, healthy_smi().encode(), node=NODE)])
    eventually(lambda: installation.states(cluster)[NODE].devices, 60)


def of_type(installation: Installation, cluster: str, name: str) -> list[dict[str, Any]]:
    """Return the data of the recorded entries of one type, oldest first."""
    found = [one for one in installation.entries(cluster).values() if one["metadata"]["event_type"] == name]
    return [one["data"] for one in sorted(found, key=lambda one: one["metadata"]["recorded_at"])]


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
