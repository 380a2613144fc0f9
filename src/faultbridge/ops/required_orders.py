"""Stuck nodes: lists the nodes and cases that wait for an operator's command, each with the exact command."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from faultbridge.domain.nodes import NodeState
from faultbridge.pipeline.decide.required_order import RequiredOrder, required_order
from faultbridge.ports import Clock
from faultbridge.registry.views import Views


@dataclass(frozen=True, slots=True)
class StuckNode:
    """A node that cannot continue by itself, and the command that lets it continue."""

    state: NodeState
    order: RequiredOrder


@dataclass(frozen=True, slots=True)
class StuckNodes:
    """Reads the nodes of a cluster; writes nothing."""

    views: Views
    clock: Clock

    def __call__(self, cluster: str) -> Iterator[StuckNode]:
        """Yield the stuck nodes of a cluster, by name. Raises `unknown_cluster` if it is not registered."""
        view, now = self.views.cluster(cluster), self.clock.now()
        for state in self.views.nodes(cluster):
            order = required_order(state, view.config, now, view.control)
            if order is not None:
                yield StuckNode(state, order)
