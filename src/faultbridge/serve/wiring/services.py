"""Wire the services that several functions, or a function and commands, use.

A service that one Lambda function alone uses is wired in the module of its entry point. The imports are inside the
functions, because each caller needs few of these services.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from faultbridge.serve.wiring.installation import once

if TYPE_CHECKING:
    from faultbridge.repair.registry.registration import Registration
    from faultbridge.repair.registry.retirement import Retirement
    from faultbridge.serve.console.facts import Facts
    from faultbridge.serve.console.report import Reports
    from faultbridge.serve.ingest.heartbeat_log import HeartbeatLog
    from faultbridge.serve.ingest.heartbeat_monitor import HeartbeatMonitor
    from faultbridge.serve.ingest.rejects import Rejects
    from faultbridge.serve.ops.backlog import Backlog
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
