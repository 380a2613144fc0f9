"""Factories of the services that repair nodes and correlate incidents."""

from __future__ import annotations

from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING

from faultbridge.model.dataclass import dataclass

if TYPE_CHECKING:
    from faultbridge.repair.attempt.step_runner import StepRunner
    from faultbridge.repair.breakers import Breakers
    from faultbridge.repair.case_orders import CaseOrders
    from faultbridge.repair.cluster_status import ClusterRollup
    from faultbridge.repair.controls import Controls
    from faultbridge.repair.dispatch import Dispatch
    from faultbridge.repair.incidents.changes import IncidentChanges, IncidentOrders
    from faultbridge.repair.incidents.correlate import Correlate
    from faultbridge.repair.isolate import Isolate
    from faultbridge.repair.node_orders import NodeOrders
    from faultbridge.serve.wiring.installation import Installation


@dataclass(frozen=True)
class Repair:
    """Builds the services that limit and perform repairs and execute operators' orders."""

    installation: Installation

    @cached_property
    def controls(self) -> Controls:
        """Return the service that pauses repairs, closes breakers, and stores what blocks new repairs."""
        from faultbridge.repair.controls import Controls

        of = self.installation
        return Controls(of.table, of.ports.clock, of.stack)

    @cached_property
    def breakers(self) -> Breakers:
        """Return the service that opens and closes the breakers, which stop repairs when many nodes fail."""
        from faultbridge.repair.breakers import Breakers

        of = self.installation
        return Breakers(of.table, of.rulebook, self.controls)

    @cached_property
    def isolate(self) -> Isolate:
        """Return the service that keeps new work off a node."""
        from faultbridge.repair.isolate import Isolate
        from faultbridge.repair.isolation_permits import IsolationPermits

        of = self.installation
        permits = IsolationPermits(of.ports.table)  # a permit is given from what the table has now
        return Isolate(of.append, of.rulebook, of.ports.orchestrators, permits)

    @cached_property
    def cluster_status(self) -> ClusterRollup:
        """Return the service that computes the status of clusters."""
        from faultbridge.repair.cluster_status import ClusterRollup

        of = self.installation
        return ClusterRollup(of.table, of.ports.clock, of.stack, of.rulebook)

    @cached_property
    def dispatch(self) -> Dispatch:
        """Return the service that admits queued cases to repair."""
        from faultbridge.repair.dispatch import Dispatch

        of = self.installation
        ports = of.ports
        shared = of.append, self.isolate, ports.workflow, of.rulebook
        return Dispatch(of.table, ports.clock, *shared, of.table.forget)

    @cached_property
    def case_orders(self) -> CaseOrders:
        """Return the service that executes operators' orders about cases: approve, deny, cancel."""
        from faultbridge.repair.case_orders import CaseOrders

        of = self.installation
        return CaseOrders(of.table, of.append, of.rulebook)

    @cached_property
    def node_orders(self) -> NodeOrders:
        """Return the service that executes operators' orders about nodes: replace, quarantine, return, ignore."""
        from faultbridge.repair.node_orders import NodeOrders

        return NodeOrders(self.installation.append, self.installation.rulebook)

    @cached_property
    def step_runner(self) -> StepRunner:
        """Return the service that runs the steps of a repair attempt."""
        from faultbridge.repair.attempt.step_context import StepTools
        from faultbridge.repair.attempt.step_runner import StepRunner

        of, ports = self.installation, self.installation.ports
        tools = StepTools(
            table=of.table,
            clock=ports.clock,
            append=of.append,
            workflow=ports.workflow,
            rulebook=of.rulebook,
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
            probe_interval=timedelta(seconds=of.settings.probe_seconds),
            update_incidents=of.incidents.correlate_afresh,
        )
        return StepRunner(tools)


@dataclass(frozen=True)
class Incidents:
    """Builds the services that open and close cluster incidents."""

    installation: Installation

    @cached_property
    def changes(self) -> IncidentChanges:
        """Return the service that writes cluster incidents to the table."""
        from faultbridge.repair.incidents.changes import IncidentChanges

        return IncidentChanges(self.installation.table, self.installation.repair.controls)

    @cached_property
    def correlate(self) -> Correlate:
        """Return the service that finds the shared causes of the faults of many nodes."""
        from faultbridge.repair.incidents.correlate import Correlate, Onsets
        from faultbridge.repair.incidents.held import HeldCases

        of = self.installation
        held = HeldCases(of.table, of.append)
        onsets = Onsets(of.table, of.ports.clock)
        return Correlate(of.table, of.rulebook, self.changes, held, onsets)

    def correlate_afresh(self, cluster: str) -> None:
        """Update the incidents of a cluster from fresh reads of the table.

        Shared reads, which can be up to five seconds old, are not used.
        """
        self.installation.table.forget()
        self.correlate.update_incidents(cluster)

    @cached_property
    def orders(self) -> IncidentOrders:
        """Return the service that executes operators' orders about cluster incidents."""
        from faultbridge.repair.incidents.changes import IncidentOrders

        return IncidentOrders(self.changes, self.installation.rulebook)
