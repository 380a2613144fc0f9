"""Known nodes: what is stored of them, and what a warm worker knows beyond that because it was not worth a write."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from faultbridge.domain.nodes import NodeKey, NodeState
from faultbridge.ports import Clock, Table
from faultbridge.storage import items, keys
from faultbridge.storage.writes import Item, Key

MAX_CACHED_NODES = 5_000


@dataclass(frozen=True, slots=True)
class Known:
    """A node as it is stored, and as it is with the watermarks and counts that were not written."""

    stored: NodeState
    now: NodeState


@dataclass(frozen=True, slots=True)
class NodeCache:
    """Reads nodes, consistently; what it knows beyond counts only while the stored node is what it was known beyond."""

    item_cache: ItemCache
    _beyond: dict[NodeKey, Known] = field(default_factory=dict)

    def read(self, nodes: Iterable[NodeKey]) -> Mapping[NodeKey, Known]:
        """Read nodes in one call; one that nobody registered has no status."""
        wanted = {node: keys.node_state(node) for node in nodes}
        found = self.item_cache.read(wanted.values()) if wanted else {}
        return {node: self._known(items.read_state(node, found.get(key))) for node, key in wanted.items()}

    def keep(self, known: Known) -> None:
        """Remember what was not worth a write, and forget what is stored by now."""
        self._beyond.pop(known.stored.key, None)
        if known.now != known.stored:
            if len(self._beyond) >= MAX_CACHED_NODES:
                self._beyond.clear()
            self._beyond[known.stored.key] = known

    def _known(self, stored: NodeState) -> Known:
        known = self._beyond.get(stored.key)
        return known if known is not None and known.stored == stored else Known(stored, stored)


ALIAS_KEPT = timedelta(minutes=10)
OTHERS_KEPT = timedelta(seconds=15)
MAX_CACHED_ITEMS = 50_000
_POINTERS = frozenset({keys.CURRENT_POLICY, keys.CURRENT_MAPPING})
MAX_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class ItemCache:
    """Remembers items by key: aliases for ten minutes at most, registrations and policies for fifteen seconds."""

    table: Table
    clock: Clock
    _kept: dict[Key, tuple[datetime, Item | None]] = field(default_factory=dict)
    _ageing: set[Key] = field(default_factory=set)

    def get(self, key: Key) -> Item | None:
        """Read one item."""
        return self.get_many((key,)).get(key)

    def get_many(self, wanted: Iterable[Key]) -> Mapping[Key, Item]:
        """Read items, those that are not remembered in one call."""
        now = self.clock.now()
        wanted = list(dict.fromkeys(wanted))
        asked = [key for key in wanted if key not in self._kept or self._kept[key][0] <= now]
        found = self.table.get_many(asked) if asked else {}
        if len(self._kept) > MAX_CACHED_ITEMS:
            self._kept.clear()
        for key in asked:
            self._keep(key, found.get(key), now)
        remembered = {key: self._kept[key] for key in wanted if key in self._kept}
        self._ageing.update(key for key, (until, _) in remembered.items() if until - now <= _kept_for(key) / 2)
        return {key: item for key, (_, item) in remembered.items() if item is not None}

    def read(self, wanted: Iterable[Key]) -> Mapping[Key, Item]:
        """Read items as they are stored now; with the same call renews what it remembers and will soon forget."""
        wanted, now = list(dict.fromkeys(wanted)), self.clock.now()
        room = max(0, MAX_AT_ONCE - len(wanted))
        renewed = sorted(self._ageing.difference(wanted))[:room]
        found = self.table.get_many([*wanted, *renewed])
        self._ageing.clear()
        for key in renewed:
            self._keep(key, found.get(key), now)
        return found

    def _keep(self, key: Key, item: Item | None, now: datetime) -> None:
        self._kept.pop(key, None)
        if item is not None or key in _POINTERS:
            self._kept[key] = (now + _kept_for(key), item)


def _kept_for(key: Key) -> timedelta:
    return ALIAS_KEPT if keys.is_alias(key) else OTHERS_KEPT
