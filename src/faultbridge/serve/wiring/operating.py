"""Build the services that react to new entries, run the sweep each minute, and list the backlog."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from faultbridge.model.dataclass import dataclass

if TYPE_CHECKING:
    from faultbridge.serve.ops.backlog import Backlog
    from faultbridge.serve.ops.react import React
    from faultbridge.serve.ops.sweep import ClusterSteps, Sweep, TickNode
    from faultbridge.serve.wiring.installation import Installation


@dataclass(frozen=True)
class Operations:
    """Builds the services that react to new entries, run the sweep each minute, and list the backlog."""

    installation: Installation

    @cached_property
    def react(self) -> React:
        """Return the service that isolates and repairs nodes soon after new timeline entries."""
        from faultbridge.serve.ops.react import React

        of = self.installation
        repair = of.repair
        return React(
            of.incidents.correlate,
            repair.breakers,
            repair.isolate,
            repair.cluster_status,
            repair.dispatch,
            of.jobs.impact,
            of.table,
        )

    @cached_property
    def sweep(self) -> Sweep:
        """Return the service that performs due and unfinished work each minute."""
        from faultbridge.serve.ops.missing_heartbeats import ProbeInstance
        from faultbridge.serve.ops.sweep import Sweep, TickNode

        of, ports, repair = self.installation, self.installation.ports, self.installation.repair
        tick_node = TickNode(of.ledger.append, of.rules.rulebook, repair.step_runner)
        return Sweep(
            table=of.table,
            clock=ports.clock,
            tick_node=tick_node,
            cluster_steps=self._cluster_steps(tick_node),
            heartbeat_monitor=of.ingestion.heartbeats,
            probe=ProbeInstance(repair.step_runner.tools),
            publish=of.ledger.publish.from_table,
            retry_reject=of.ingestion.rejects.retry_at,
            deliver_callbacks=of.jobs.deliver_callbacks.deliver,
            check_progress=of.jobs.progress.check,
        )

    def _cluster_steps(self, tick_node: TickNode) -> ClusterSteps:
        from faultbridge.decode.data.detectors import detectors
        from faultbridge.repair.findings.compare_peers import ComparePeers
        from faultbridge.serve.ops.sweep import ClusterSteps

        of, repair = self.installation, self.installation.repair
        return ClusterSteps(
            table=of.table,
            tick_node=tick_node,
            correlate=of.incidents.correlate,
            breakers=repair.breakers,
            isolate=repair.isolate,
            rollup=repair.cluster_status,
            dispatch=repair.dispatch,
            job_impact=of.jobs.impact,
            tools=repair.step_runner.tools,
            has_callbacks=of.jobs.deliver_callbacks.has_waiting,
            compare_peers=ComparePeers(of.ledger.append, of.rules.rulebook, detectors()).compare,
        )

    @cached_property
    def backlog(self) -> Backlog:
        """Return the service that lists the backlog: the waiting work, and how long it has waited."""
        from faultbridge.serve.ops.backlog import Backlog

        return Backlog(self.installation.ports.table, self.installation.ports.clock)
