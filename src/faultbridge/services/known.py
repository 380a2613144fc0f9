"""Known nodes: what is stored of them, and what a warm worker knows beyond that because it was not worth a write."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from faultbridge.domain.nodes import NodeKey, NodeState
from faultbridge.services.lookups import Lookups
from faultbridge.storage import items, keys

MOST_KEPT = 5_000


@dataclass(frozen=True, slots=True)
class Known:
    """A node as it is stored, and as it is with the watermarks and counts that were not written."""

    stored: NodeState
    now: NodeState


@dataclass(frozen=True, slots=True)
class KnownNodes:
    """Reads nodes, consistently; what it knows beyond counts only while the stored node is what it was known beyond."""

    lookups: Lookups
    _beyond: dict[NodeKey, Known] = field(default_factory=dict)

    def read(self, nodes: Iterable[NodeKey]) -> Mapping[NodeKey, Known]:
        """Read nodes in one call; one that nobody registered has no status."""
        wanted = {node: keys.node_state(node) for node in nodes}
        found = self.lookups.read(wanted.values()) if wanted else {}
        return {node: self._known(items.read_state(node, found.get(key))) for node, key in wanted.items()}

    def keep(self, known: Known) -> None:
        """Remember what was not worth a write, and forget what is stored by now."""
        self._beyond.pop(known.stored.key, None)
        if known.now != known.stored:
            if len(self._beyond) >= MOST_KEPT:
                self._beyond.clear()
            self._beyond[known.stored.key] = known

    def _known(self, stored: NodeState) -> Known:
        known = self._beyond.get(stored.key)
        return known if known is not None and known.stored == stored else Known(stored, stored)
