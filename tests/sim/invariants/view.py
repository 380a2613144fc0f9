"""The view that invariants read: table, bus and fleet of the simulated system."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from faultbridge.model.nodes import NodeKey, NodeState
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.writes import Item
from tests.sim.fakes.stored_values import body_of

if TYPE_CHECKING:
    from tests.sim.simulated_system import SimulatedSystem


class SystemView:
    """A read-only view of a simulated system at one time; each property is computed once and then cached."""

    def __init__(self, system: SimulatedSystem) -> None:
        self.system = system
        self.ports = system.ports

    @cached_property
    def items(self) -> list[Item]:
        """Every item of the table in the order of the keys."""
        return list(self.ports.table.items())

    @cached_property
    def nodes(self) -> list[NodeState]:
        """The state of every node."""
        found = self.ports.table.items_at("NODE#", "STATE")
        return [items.read_state(_key(str(item["pk"])), item) for item in found]

    @cached_property
    def streams(self) -> dict[str, list[Item]]:
        """The entries by partition key, each list in the order of the sort keys."""
        found: dict[str, list[Item]] = {}
        for item in self.items:
            if str(item["sk"]).startswith(keys.ENTRY):
                found.setdefault(str(item["pk"]), []).append(item)
        return found

    @cached_property
    def bodies(self) -> dict[str, list[dict[str, Any]]]:
        """The decoded bodies of the entries by partition key, in the order of the entries."""
        return {pk: [body_of(item) for item in entries] for pk, entries in self.streams.items()}

    def entries_of(self, state: NodeState) -> list[dict[str, Any]]:
        """Return the decoded bodies of one node's entries, in order."""
        return self.bodies.get(keys.node_partition(state.key), [])

    def partition(self, pk: str, prefix: str = "") -> Iterator[Item]:
        """Yield the items of a partition whose sort keys start with a prefix."""
        return (item for item in self.items if item["pk"] == pk and str(item["sk"]).startswith(prefix))

    def at(self, pk: str, sk: str) -> Item | None:
        """Return the item at a key; None if no item has this key."""
        return next((item for item in self.items if item["pk"] == pk and item["sk"] == sk), None)


def _key(pk: str) -> NodeKey:
    _, cluster, node = pk.split("#", 2)
    return NodeKey(cluster, node)


@dataclass(frozen=True, slots=True)
class Invariant:
    """A named statement that is true in every correct run; `violations` yields the details of violations."""

    name: str
    violations: Callable[[SystemView], Iterator[str]]
