"""The sweep function: every minute, runs due timers, and work that other functions did not complete.

The function also confirms canary events. A canary is a test record that Faultbridge sends through its own pipeline.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from faultbridge.adapters.aws.telemetry import emit, emit_for_cluster
from faultbridge.model.entries import EntryType
from faultbridge.model.log import Failures
from faultbridge.serve.ops.metrics import node_gauges

if TYPE_CHECKING:
    from faultbridge.serve.wiring.installation import Installation


def sweep(event: Mapping[str, Any], installation: Installation) -> dict[str, Any]:
    """Run one sweep; if `event` is a canary event from the bus, only confirm that the canary arrived.

    The next sweep retries the steps that failed. The result contains only JSON values, because Lambda fails a call
    whose result it cannot convert to JSON.
    """
    if event.get("detail-type") == EntryType.NOTE:
        return _confirm_canary(event["detail"], installation)
    failures = Failures()
    with failures.collect("sending the canary"):
        installation.ingestion.send_canary()
    swept = installation.ops.sweep()
    failures.lines += swept.failures
    counts = {"Ticked": swept.ticked, "Republished": swept.published, "SweepFailures": len(failures.lines)}
    emit(counts | {"SweepUnfinished": int(swept.unfinished)})
    installation.ops.backlog.record_sweep(unfinished=swept.unfinished, failures=len(failures.lines))
    for cluster, nodes in swept.node_counts.items():
        emit_for_cluster(cluster, node_gauges(nodes))
    intake = swept.intake and {"failed": swept.intake.failed, "overdue": [key.stream for key in swept.intake.overdue]}
    return asdict(swept) | {"failures": failures.lines, "intake": intake}


def _confirm_canary(detail: Mapping[str, Any], installation: Installation) -> dict[str, Any]:
    seconds = int(installation.ingestion.receive_canary(detail).total_seconds())
    emit({"CanariesReceived": 1, "CanarySeconds": seconds})
    return {"canary_seconds": seconds}
