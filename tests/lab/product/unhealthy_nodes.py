"""Unhealthy nodes: the rows of the nodes of a fleet that are neither healthy nor retired, in memory."""

from __future__ import annotations

from faultbridge.model.nodes import NodeState
from faultbridge.model.storage import items
from faultbridge.model.storage.projections import unhealthy_row
from faultbridge.model.storage.writes import Item
from tests.lab.scenario import BEGIN


class UnhealthyNodes:
    """The rows of unhealthy nodes, made by the product's own function when they are read."""

    def __init__(self) -> None:
        """Start with no unhealthy node."""
        self._rows: dict[str, Item] = {}
        self._changed: dict[str, NodeState] = {}
        self._version = 0

    def update(self, state: NodeState) -> None:
        """Note the new state of a node."""
        self._changed[state.key.node] = state

    @property
    def version(self) -> int:
        """Return a number that rises with each change of a row."""
        for node, state in self._changed.items():
            found = unhealthy_row(state)
            row = items.row_item(*found, BEGIN) if found else None  # nothing reads when a row was written
            if row != self._rows.get(node):
                self._version += 1
                if row is None:
                    del self._rows[node]
                else:
                    self._rows[node] = row
        self._changed.clear()
        return self._version

    def rows(self) -> tuple[Item, ...]:
        """Return the rows in the order of a query of the table."""
        return tuple(self._rows[node] for node in sorted(self._rows)) if self.version else ()
