"""What an invariant looks at: the table, the bus and the world as they are once all is quiet."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

from faultbridge.domain.nodes import NodeKey, NodeState
from faultbridge.storage import items, keys
from faultbridge.storage.writes import Item

if TYPE_CHECKING:
    from faultbridge.simulation.scene import Scene


class View:
    """Reads the table past its seam; nothing in it writes."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.ports = scene.ports

    @cached_property
    def items(self) -> list[Item]:
        """Every item, in key order."""
        return list(self.ports.table.items())

    @cached_property
    def nodes(self) -> list[NodeState]:
        """Every node's state."""
        states = [item for item in self.items if item["sk"] == "STATE" and str(item["pk"]).startswith("NODE#")]
        return [self._read(str(item["pk"]), item) for item in states]

    def _read(self, pk: str, item: Item) -> NodeState:
        """Read a node's state, once for as long as the same item stands in the table."""
        known = self.scene.states.get(pk)
        if known is None or known[0] is not item:
            known = self.scene.states[pk] = item, items.read_state(_key(pk), item)
        return known[1]

    @cached_property
    def streams(self) -> dict[str, list[Item]]:
        """The entries of each partition, in the order of their sort keys."""
        found: dict[str, list[Item]] = {}
        for item in self.items:
            if str(item["sk"]).startswith(keys.ENTRY):
                found.setdefault(str(item["pk"]), []).append(item)
        return found

    @cached_property
    def bodies(self) -> dict[str, list[dict[str, Any]]]:
        """The bodies of each stream's entries, in order."""
        return {pk: [json.loads(str(item["body"])) for item in entries] for pk, entries in self.streams.items()}

    def entries_of(self, state: NodeState) -> list[dict[str, Any]]:
        """Return the bodies of one node's entries, in order."""
        return self.bodies.get(keys.node_partition(state.key), [])

    def partition(self, pk: str, prefix: str = "") -> Iterator[Item]:
        """Yield the items of a partition whose sort keys begin so."""
        return (item for item in self.items if item["pk"] == pk and str(item["sk"]).startswith(prefix))

    def at(self, pk: str, sk: str) -> Item | None:
        """Return the item at a key."""
        return next((item for item in self.items if item["pk"] == pk and item["sk"] == sk), None)


def _key(pk: str) -> NodeKey:
    _, cluster, node = pk.split("#", 2)
    return NodeKey(cluster, node)
