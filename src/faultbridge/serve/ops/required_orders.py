"""Lists the nodes that wait for an operator's command, and the faulty nodes for which no case opens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from faultbridge.decide.required_order import NoRepair, RequiredOrder, no_repair, required_order
from faultbridge.model.nodes import NodeState
from faultbridge.record.ports import Clock
from faultbridge.repair.registry.views import Views


@dataclass(frozen=True, slots=True)
class StuckNode:
    """A node that waits for an operator, and the command after which Faultbridge continues with the node."""

    state: NodeState
    order: RequiredOrder


@dataclass(frozen=True, slots=True)
class StuckNodes:
    """Finds the nodes of a cluster that wait for an operator, and the faulty nodes without a case."""

    views: Views
    clock: Clock

    def __call__(self, cluster: str) -> Iterator[StuckNode]:
        """Yield the nodes that wait for an operator's command, sorted by name.

        Raises Rejected `unknown_cluster` if the cluster is not registered.
        """
        view, now = self.views.cluster(cluster), self.clock.now()
        for state in self.views.nodes(cluster):
            order = required_order(state, view.config, now, view.control)
            if order is not None:
                yield StuckNode(state, order)

    def unrepaired(self, cluster: str) -> Iterator[tuple[NodeState, NoRepair]]:
        """Yield the nodes in service that have faults but no case, sorted by name, with the reason for each."""
        config, now = self.views.cluster(cluster).config, self.clock.now()
        for state in self.views.unhealthy(cluster):
            found = no_repair(state, config, now)
            if found is not None:
                yield state, found
