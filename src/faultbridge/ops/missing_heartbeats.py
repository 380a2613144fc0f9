"""Missing heartbeats: report each overdue node, or none of them while no records arrive at all."""

from __future__ import annotations

from collections.abc import Sequence

from faultbridge.domain.nodes import NodeKey
from faultbridge.incidents.intake import Intake
from faultbridge.ingest.heartbeat_monitor import HeartbeatMonitor, Probe, unprobed
from faultbridge.log import log_cause
from faultbridge.ops.failures import Failures
from faultbridge.ops.silent_instances import MAX_PROBED


def report_missing_heartbeats(
    monitor: HeartbeatMonitor, overdue: Sequence[NodeKey], failures: Failures, probe: Probe = unprobed
) -> Intake | None:
    """Record a fault of each overdue node, unless no records arrive; the faults of many nodes become one incident.

    A few silent nodes are probed: `probe` distinguishes a lost instance from a failed agent or network path.
    Returns None, and records nothing, if it could not be determined whether records arrive.
    """
    checked: list[Intake] = []
    with failures.collect("checking that heartbeats arrive"):
        checked.append(Intake(failed=monitor.intake_failed(len(overdue)), overdue=tuple(sorted(overdue))))
    if not checked:
        return None
    (intake,) = checked
    if intake.failed:
        log_cause("missing_heartbeats_not_reported", reason=f"no records arrive: {len(overdue)} nodes are overdue")
        return intake
    for node in overdue:
        with failures.collect(f"checking the heartbeat of {node.stream}"):
            monitor.check(node, probe if len(overdue) <= MAX_PROBED else unprobed)
    return intake
