"""Wire the services that several functions, or a function and commands, use.

A service that one Lambda function alone uses is wired in the module of its entry point. The imports are inside the
functions, because each caller needs few of these services.
"""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from faultbridge.serve.wiring.installation import once

if TYPE_CHECKING:
    from faultbridge.repair.attempt.step_runner import StepRunner
    from faultbridge.repair.breakers import Breakers
    from faultbridge.repair.case_orders import CaseOrders
    from faultbridge.repair.cluster_status import ClusterRollup
    from faultbridge.repair.controls import Controls
    from faultbridge.repair.dispatch import Dispatch
    from faultbridge.repair.incidents import Correlate, IncidentChanges, IncidentOrders
    from faultbridge.repair.isolate import Isolate
    from faultbridge.repair.jobs.callbacks import DeliverCallbacks
    from faultbridge.repair.jobs.job_impact import JobImpact
    from faultbridge.repair.jobs.jobs import Jobs
    from faultbridge.repair.jobs.progress import JobProgress
    from faultbridge.repair.node_orders import NodeOrders
    from faultbridge.repair.registry.registration import Registration
    from faultbridge.repair.registry.retirement import Retirement
    from faultbridge.serve.console.facts import Facts
    from faultbridge.serve.console.report import Reports
    from faultbridge.serve.ingest.heartbeat_log import HeartbeatLog
    from faultbridge.serve.ingest.heartbeat_monitor import HeartbeatMonitor
    from faultbridge.serve.ingest.rejects import Rejects
    from faultbridge.serve.ops.backlog import Backlog
    from faultbridge.serve.orders import Orders
    from faultbridge.serve.wiring.installation import Installation


@once
def wire_registration(app: Installation) -> Registration:
    """Return the service that registers clusters and nodes."""
    from faultbridge.repair.registry.registration import Registration

    return Registration(app.ports.table, app.append, app.ports.clock, app.ports.inventories)


@once
def wire_retirement(app: Installation) -> Retirement:
    """Return the service that removes nodes from their cluster."""
    from faultbridge.repair.registry.retirement import Retirement

    return Retirement(app.ports.table, app.append, app.rulebook)


@once
def wire_heartbeat_log(app: Installation) -> HeartbeatLog:
    """Return the service that stores the heartbeats of nodes."""
    from faultbridge.serve.ingest.heartbeat_log import HeartbeatLog

    return HeartbeatLog(app.table, app.ports.clock, app.rulebook)


@once
def wire_heartbeat_monitor(app: Installation) -> HeartbeatMonitor:
    """Return the service that reports missing heartbeats of nodes as faults."""
    from faultbridge.serve.ingest.heartbeat_monitor import HeartbeatMonitor

    return HeartbeatMonitor(wire_heartbeat_log(app), app.append)


@once
def wire_rejects(app: Installation) -> Rejects:
    """Return the service that stores and retries records that ingest refused."""
    from faultbridge.serve.ingest.rejects import Rejects

    return Rejects(app.ports.table, app.ports.objects, app.ports.queue, app.ports.clock, app.trust)


@once
def wire_backlog(app: Installation) -> Backlog:
    """Return the service that lists the backlog: the waiting work, and how long it has waited."""
    from faultbridge.serve.ops.backlog import Backlog

    return Backlog(app.ports.table, app.ports.clock)


@once
def wire_facts(app: Installation) -> Facts:
    """Return the service that reads the data of web pages and reports, such as nodes and cases."""
    from faultbridge.record.timeline import Timeline
    from faultbridge.repair.registry.views import Views
    from faultbridge.serve.console.facts import Facts

    table = app.ports.table
    return Facts(Views(table), Timeline(table), app.ports.clock, app.rulebook.policy)


@once
def wire_reports(app: Installation) -> Reports:
    """Return the writer of the report files of the console."""
    from faultbridge.serve.console.report import Reports

    return Reports(wire_facts(app))


@once
def wire_controls(app: Installation) -> Controls:
    """Return the service that pauses repairs, closes breakers, and stores what blocks new repairs."""
    from faultbridge.repair.controls import Controls

    return Controls(app.table, app.ports.clock, app.stack)


@once
def wire_breakers(app: Installation) -> Breakers:
    """Return the service that opens and closes the breakers, which stop repairs when many nodes fail."""
    from faultbridge.repair.breakers import Breakers

    return Breakers(app.table, app.rulebook, wire_controls(app))


@once
def wire_isolate(app: Installation) -> Isolate:
    """Return the service that keeps new work off a node."""
    from faultbridge.repair.isolate import Isolate
    from faultbridge.repair.isolation_permits import IsolationPermits

    permits = IsolationPermits(app.ports.table)  # a permit is given from what the table has now
    return Isolate(app.append, app.rulebook, app.ports.orchestrators, permits)


@once
def wire_cluster_status(app: Installation) -> ClusterRollup:
    """Return the service that computes the status of clusters."""
    from faultbridge.repair.cluster_status import ClusterRollup

    return ClusterRollup(app.table, app.ports.clock, app.stack, app.rulebook)


@once
def wire_dispatch(app: Installation) -> Dispatch:
    """Return the service that admits queued cases to repair."""
    from faultbridge.repair.dispatch import Dispatch

    ports = app.ports
    shared = app.append, wire_isolate(app), ports.workflow, app.rulebook
    return Dispatch(app.table, ports.clock, *shared, app.table.forget)


@once
def wire_case_orders(app: Installation) -> CaseOrders:
    """Return the service that executes operators' orders about cases: approve, deny, cancel."""
    from faultbridge.repair.case_orders import CaseOrders

    return CaseOrders(app.table, app.append, app.rulebook)


@once
def wire_node_orders(app: Installation) -> NodeOrders:
    """Return the service that executes operators' orders about nodes: replace, quarantine, return, ignore."""
    from faultbridge.repair.node_orders import NodeOrders

    return NodeOrders(app.append, app.rulebook)


@once
def wire_step_runner(app: Installation) -> StepRunner:
    """Return the service that runs the steps of a repair attempt."""
    from faultbridge.repair.attempt.step_context import StepTools
    from faultbridge.repair.attempt.step_runner import StepRunner

    ports = app.ports
    tools = StepTools(
        table=app.table,
        clock=ports.clock,
        append=app.append,
        workflow=ports.workflow,
        rulebook=app.rulebook,
        objects=ports.objects,
        providers=ports.providers,
        launchers=ports.launchers,
        restarters=ports.restarters,
        collector=ports.collector,
        orchestrators=ports.orchestrators,
        verifiers=ports.verifiers,
        volumes=ports.volumes,
        volume_attachments=ports.volume_attachments,
        compute_of_cluster=ports.for_cluster,
        probe_interval=timedelta(seconds=app.settings.probe_seconds),
        update_incidents=partial(correlate_afresh, app),
    )
    return StepRunner(tools)


@once
def wire_incident_changes(app: Installation) -> IncidentChanges:
    """Return the service that writes cluster incidents to the table."""
    from faultbridge.repair.incidents import IncidentChanges

    return IncidentChanges(app.table, wire_controls(app))


@once
def wire_correlate(app: Installation) -> Correlate:
    """Return the service that finds the shared causes of the faults of many nodes."""
    from faultbridge.repair.incidents import Correlate, HeldCases, Onsets

    held = HeldCases(app.table, app.append)
    onsets = Onsets(app.table, app.ports.clock)
    return Correlate(app.table, app.rulebook, wire_incident_changes(app), held, onsets)


def correlate_afresh(app: Installation, cluster: str) -> None:
    """Update the incidents of a cluster from fresh reads of the table.

    Shared reads, which can be up to five seconds old, are not used.
    """
    app.table.forget()
    wire_correlate(app).update_incidents(cluster)


@once
def wire_incident_orders(app: Installation) -> IncidentOrders:
    """Return the service that executes operators' orders about cluster incidents."""
    from faultbridge.repair.incidents import IncidentOrders

    return IncidentOrders(wire_incident_changes(app), app.rulebook)


@once
def wire_orders(app: Installation) -> Orders:
    """Return the services behind every order that a person gives outside of the command line."""
    from faultbridge.repair.registry.views import Views
    from faultbridge.serve.orders import Orders

    return Orders(
        directory=Views(app.ports.table),
        cases=wire_case_orders(app),
        nodes=wire_node_orders(app),
        controls=wire_controls(app),
        incidents=wire_incident_orders(app),
        clock=app.ports.clock,
    )


@once
def wire_jobs(app: Installation) -> Jobs:
    """Return the service that records the starts and ends of training jobs."""
    from faultbridge.repair.jobs.jobs import Jobs

    return Jobs(app.append)


@once
def wire_api_jobs(app: Installation) -> Jobs:
    """Return the service that records job reports; the sweep stores the job ids in the states of nodes."""
    from faultbridge.repair.jobs.jobs import Jobs

    return Jobs(app.append, marks_nodes=False)


@once
def wire_job_progress(app: Installation) -> JobProgress:
    """Return the service that stores heartbeats of jobs, and records stalls and abnormal training losses."""
    from faultbridge.repair.jobs.progress import JobProgress

    return JobProgress(wire_jobs(app))


@once
def wire_job_callbacks(app: Installation) -> DeliverCallbacks:
    """Return the service that notifies other systems, such as schedulers, that a job may resume."""
    from faultbridge.repair.jobs.callbacks import DeliverCallbacks

    return DeliverCallbacks(wire_jobs(app), app.ports.job_callbacks)


@once
def wire_job_impact(app: Installation) -> JobImpact:
    """Return the service that adds the faults of a node to the records of its jobs."""
    from faultbridge.repair.jobs.callbacks import DeliverCallbacks
    from faultbridge.repair.jobs.checkpoints import JobCheckpoints
    from faultbridge.repair.jobs.job_impact import JobImpact

    callbacks = DeliverCallbacks(wire_jobs(app), app.ports.checkpoint_callbacks)
    checkpoints = JobCheckpoints(wire_jobs(app), app.rulebook, callbacks)
    return JobImpact(wire_jobs(app), checkpoints, wire_job_progress(app))
