"""The sweep function: every minute, runs due timers, and work that other functions did not complete.

The function also confirms canary events. A canary is a test record that Faultbridge sends through its own pipeline.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from faultbridge.adapters.aws.telemetry import emit, emit_for_cluster
from faultbridge.decode.data.counters import detectors
from faultbridge.model.enums import EntryType
from faultbridge.model.log import Failures
from faultbridge.model.recorded import read_event
from faultbridge.repair.findings.compare_peers import ComparePeers
from faultbridge.serve.entrypoints.lambda_events import BusEvent, read
from faultbridge.serve.entrypoints.publish import wire_publish
from faultbridge.serve.ingest.canary import ReceiveCanary, SendCanary
from faultbridge.serve.ops.claim_checks import ClaimChecks
from faultbridge.serve.ops.coverage import UpdateCoverage
from faultbridge.serve.ops.metrics import node_gauges
from faultbridge.serve.ops.missing_heartbeats import ProbeInstance
from faultbridge.serve.ops.sweep import ClusterSteps, Sweep, SweepResult, TickNode
from faultbridge.serve.wiring.installation import once
from faultbridge.serve.wiring.services import (
    wire_backlog,
    wire_breakers,
    wire_cluster_status,
    wire_correlate,
    wire_dispatch,
    wire_heartbeat_monitor,
    wire_isolate,
    wire_job_callbacks,
    wire_job_impact,
    wire_job_progress,
    wire_registration,
    wire_rejects,
    wire_step_runner,
)

if TYPE_CHECKING:
    from faultbridge.serve.wiring.installation import Installation


def sweep(event: object, installation: Installation) -> SweepResult:
    """Run one sweep, but none for a stale event; for a canary event from the bus, only confirm that it arrived.

    The next sweep retries the steps that failed.
    """
    call = read(event, BusEvent)
    if call.detail_type == EntryType.NOTE:
        seconds = int(wire_receive_canary(installation).receive(read_event(call.detail)).total_seconds())
        emit({"CanariesReceived": 1, "CanarySeconds": seconds})
        return SweepResult(canary_seconds=seconds)
    if call.is_stale(installation.ports.clock.now()):
        return SweepResult()
    failures = Failures()
    with failures.collect("sending the canary"):
        wire_send_canary(installation).send()
    swept = wire_sweep(installation).run()
    failures.lines += swept.failures
    counts = {"Ticked": swept.ticked, "Republished": swept.published, "SweepFailures": len(failures.lines)}
    emit(counts | {"SweepUnfinished": int(swept.unfinished)})
    wire_backlog(installation).record_sweep(unfinished=swept.unfinished, failures=len(failures.lines))
    for cluster, nodes in swept.node_counts.items():
        emit_for_cluster(cluster, node_gauges(nodes))
    for cluster, found in swept.coverage.items():
        emit_for_cluster(cluster, {"NodesReporting": found["reporting"], "NodesWithoutData": found["no_data"]})
    swept.failures = failures.lines
    return swept


def wire_send_canary(app: Installation) -> SendCanary:
    """Return the service that sends canaries, which are test records."""
    return SendCanary(app.ports.queue, wire_registration(app), app.ports.clock)


def wire_receive_canary(app: Installation) -> ReceiveCanary:
    """Return the service that records the canaries (test records) that arrived from the event bus."""
    return ReceiveCanary(app.ports.table, app.ports.clock)


@once
def wire_sweep(app: Installation) -> Sweep:
    """Return the service that performs due and unfinished work each minute."""
    tools = wire_step_runner(app).tools
    tick_node = TickNode(app.append, app.rulebook, wire_step_runner(app))
    return Sweep(
        table=app.table,
        clock=app.ports.clock,
        tick_node=tick_node,
        cluster_steps=_wire_cluster_steps(app, tick_node),
        heartbeat_monitor=wire_heartbeat_monitor(app),
        probe=ProbeInstance(tools),
        publish=wire_publish(app).from_table,
        retry_reject=wire_rejects(app).retry_at,
        deliver_callbacks=wire_job_callbacks(app).deliver,
        check_progress=wire_job_progress(app).check,
    )


def _wire_cluster_steps(app: Installation, tick_node: TickNode) -> ClusterSteps:
    return ClusterSteps(
        table=app.table,
        tick_node=tick_node,
        correlate=wire_correlate(app),
        breakers=wire_breakers(app),
        isolate=wire_isolate(app),
        rollup=wire_cluster_status(app),
        dispatch=wire_dispatch(app),
        job_impact=wire_job_impact(app),
        tools=wire_step_runner(app).tools,
        has_callbacks=wire_job_callbacks(app).has_waiting,
        update_coverage=UpdateCoverage(app.append, app.rulebook).update,
        compare_peers=ComparePeers(app.append, app.rulebook, detectors(), detectors("jobs")).compare,
        check_claims=ClaimChecks(wire_step_runner(app).tools).check,
    )
