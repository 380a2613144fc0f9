"""Item table: an in-memory table for the few items that repair steps read and write besides nodes.

Items are not copied when they are written or read. The table has no indexes and no stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from faultbridge.model.errors import Conflict
from faultbridge.model.nodes import NodeState
from faultbridge.model.storage import items
from faultbridge.model.storage.projections import UNHEALTHY, unhealthy_row
from faultbridge.model.storage.writes import Index, Item, Key, Page, Write
from tests.lab.scenario import BEGIN
from tests.sim.fakes.table_rules import applied, holds


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


class ItemTable:
    """Implements `Table` for items that are read by key: repair slots, claims and aliases.

    A claim reserves an instance as the successor of one node. An alias is another name of a node. Callers must not
    change an item.
    """

    def __init__(self) -> None:
        """Start with an empty table."""
        self.items: dict[Key, Item] = {}
        self.unhealthy = UnhealthyNodes()

    def get(self, key: Key) -> Item | None:
        """Return the item at a key; None if it does not exist."""
        return self.items.get(key)

    def get_many(self, keys: Iterable[Key], *, consistent: bool = True) -> dict[Key, Item]:
        """Return the items that exist at these keys, by key."""
        return {key: self.items[key] for key in keys if key in self.items}

    def query(
        self,
        pk: str,
        *,
        prefix: str = "",
        after: str | None = None,
        up_to: str | None = None,
        limit: int | None = None,
        start: str | None = None,
        index: Index | None = None,
        newest_first: bool = False,
    ) -> Page:
        """Return the rows of the unhealthy nodes; all else, such as the queue and the timers, is not stored here."""
        return Page(self.unhealthy.rows() if prefix == UNHEALTHY else (), None)

    def write(self, write: Write) -> None:
        """Perform one conditional write; a failed condition raises `Conflict`."""
        self.transact((write,))

    def transact(self, writes: Sequence[Write], token: str | None = None) -> None:
        """Perform all writes or none; a failed condition raises `Conflict`."""
        olds = [self.items.get(write.key) for write in writes]
        if not all(holds(write.when, old) for write, old in zip(writes, olds, strict=True)):
            raise Conflict("a condition does not hold")
        for write, old in zip(writes, olds, strict=True):
            new = applied(write, old)
            if new is None:
                self.items.pop(write.key, None)
            else:
                self.items[write.key] = new
