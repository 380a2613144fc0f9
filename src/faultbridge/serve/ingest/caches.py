"""Caches of a warm ingest process: nodes with unwritten changes, and items that rarely change.

A repeated fault increases a count without a write. `NodeCache` keeps that count until the next write of the node.

`ItemCache` keeps items such as aliases, registrations, and the pointers to the current policy and mappings for a
limited time. It reads them with eventually consistent reads. An outdated item does no harm, because the copy in another
process can be just as old. An alias or registration that is not found is read again consistently, because a node may
send directly after its registration.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import Struct, field

from faultbridge.decide.normalize.resolve import aliases_of, resolve
from faultbridge.decide.normalize.trust import Trust
from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.errors import Rejected
from faultbridge.model.nodes import Alias, AliasRow, NodeKey, NodeState
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.writes import Item, Key
from faultbridge.model.values import replace
from faultbridge.record.ports.table import Clock, Table, UnprocessedKeys
from faultbridge.record.rulebook import Rulebook
from faultbridge.serve.ingest.record_reader import RecordPart

MAX_CACHED_NODES = 5_000
MAX_CACHED_ITEMS = 50_000
MAX_BATCH_READ = 100
MAX_REFRESHED = 2
"""A read of nodes also renews the cached items that expire soon, if there are at most this many."""
ALIAS_TTL = timedelta(minutes=10)
DEFAULT_TTL = timedelta(seconds=15)
CACHED_WHEN_MISSING = frozenset({keys.CURRENT_POLICY, keys.CURRENT_MAPPING})
"""Keys of items that often do not exist. The cache also stores that such an item is missing."""


class CachedNode(Struct, frozen=True):
    """A node as the table stores it (`stored`), and with the changes not yet written (`current`)."""

    stored: NodeState
    current: NodeState


class NodesRead(Struct, frozen=True):
    """The nodes and other table items that one call read. An item that does not exist is None.

    `error` is None if everything was read. Otherwise, `unread` are the nodes that were not read, and items that were
    not read are missing from `items`.
    """

    nodes: Mapping[NodeKey, CachedNode]
    items: Mapping[Key, Item | None]
    unread: Sequence[NodeKey] = ()
    error: UnprocessedKeys | None = None


class ItemCache(Struct, frozen=True):
    """Caches items by key: aliases for ten minutes, all other items for 15 seconds."""

    table: Table
    clock: Clock
    _entries: dict[Key, tuple[datetime, Item | None]] = field(default_factory=dict)
    _expiring: set[Key] = field(default_factory=set)

    def get(self, key: Key) -> Item | None:
        """Return one table item, from the cache if possible; None if it does not exist."""
        return self.get_many((key,)).get(key)

    def get_many(self, wanted: Iterable[Key]) -> Mapping[Key, Item]:
        """Return the items that exist, from the cache if possible.

        One call reads the items that are not cached. A second, consistent call reads the items that the first call did
        not find, except those in `CACHED_WHEN_MISSING`.
        """
        now = self.clock.now()
        wanted = list(dict.fromkeys(wanted))
        missing = [key for key in wanted if key not in self._entries or self._entries[key][0] <= now]
        found = self._read(missing) if missing else {}
        for key in missing:
            self._store(key, found.get(key), now)
        cached = {key: self._entries[key] for key in wanted if key in self._entries}
        if len(self._entries) > MAX_CACHED_ITEMS:
            self._entries.clear()
        self._expiring.update(key for key, (expires, _) in cached.items() if expires - now <= _ttl(key) / 2)
        return {key: item for key, (_, item) in cached.items() if item is not None}

    def _read(self, missing: Sequence[Key]) -> Mapping[Key, Item]:
        found = self.table.get_many(missing, consistent=False)
        unfound = [key for key in missing if key not in found and key not in CACHED_WHEN_MISSING]
        return found | (self.table.get_many(unfound) if unfound else {})

    def read_fresh(self, wanted: Iterable[Key]) -> Mapping[Key, Item]:
        """Read items from the table, never from the cache, and return those that exist.

        If at most two cached items expire soon, and the call then reads at most 100 items, it also reads, renews and
        returns these items. If such an item cannot be read, the cached item is kept. Raises UnprocessedKeys if one of
        the `wanted` items was not read.
        """
        wanted, now = list(dict.fromkeys(wanted)), self.clock.now()
        expiring = sorted(self._expiring.difference(wanted))
        refreshed = expiring if len(expiring) <= min(MAX_REFRESHED, MAX_BATCH_READ - len(wanted)) else []
        error: UnprocessedKeys | None = None
        try:
            found = self.table.get_many([*wanted, *refreshed])
        except UnprocessedKeys as unprocessed:
            error, found = unprocessed, unprocessed.found
        unread = error.unread if error else frozenset()
        self._expiring.clear()
        for key in refreshed:
            if key not in unread:
                self._store(key, found.get(key), now)
        if error and not unread.isdisjoint(wanted):
            raise error
        return found

    def _store(self, key: Key, item: Item | None, now: datetime) -> None:
        self._entries.pop(key, None)
        if item is not None or key in CACHED_WHEN_MISSING:
            self._entries[key] = (now + _ttl(key), item)


class NodeCache(Struct, frozen=True):
    """Reads nodes consistently and adds the unwritten changes of this process.

    Unwritten changes apply only while the table still stores the node state from which they were computed.
    """

    item_cache: ItemCache
    _unwritten: dict[NodeKey, CachedNode] = field(default_factory=dict)

    def read(self, nodes: Iterable[NodeKey], also: Iterable[Key] = ()) -> NodesRead:
        """Read nodes, and the items in `also`, with one call; without nodes, nothing is read.

        The state of an unregistered node has no status.
        """
        state_keys, also = {node: keys.node_state(node) for node in nodes}, tuple(also)
        found: Mapping[Key, Item] = {}
        error: UnprocessedKeys | None = None
        try:
            found = self.item_cache.read_fresh([*state_keys.values(), *also]) if state_keys else {}
        except UnprocessedKeys as unprocessed:
            found, error = unprocessed.found, unprocessed
        unread = error.unread if error else frozenset()
        read = {
            node: self._with_unwritten(items.read_state(node, found.get(key)))
            for node, key in state_keys.items()
            if key not in unread
        }
        others = {key: found.get(key) for key in also if key not in unread}
        return NodesRead(read, others, [node for node in state_keys if node not in read], error)

    def update(self, node: CachedNode) -> None:
        """Keep the unwritten changes of a node in memory, or drop the node from the cache if it has none.

        A cache with 5,000 nodes is emptied before another node is added; the unwritten changes are then lost.
        """
        self._unwritten.pop(node.stored.key, None)
        if node.current != node.stored:
            if len(self._unwritten) >= MAX_CACHED_NODES:
                self._unwritten.clear()
            self._unwritten[node.stored.key] = node

    def unwritten_snapshots(self, node: NodeKey) -> Mapping[str, datetime]:
        """Return, by reporter, the times of a node's health snapshots that are only in this process's memory."""
        cached = self._unwritten.get(node)
        current, stored = (cached.current.snapshots, cached.stored.snapshots) if cached is not None else ({}, {})
        return {key: at for key, at in current.items() if at != stored.get(key)}

    def _with_unwritten(self, stored: NodeState) -> CachedNode:
        cached = self._unwritten.get(stored.key)
        return cached if cached is not None and cached.stored == stored else CachedNode(stored, stored)


def _ttl(key: Key) -> timedelta:
    return ALIAS_TTL if keys.is_alias(key) else DEFAULT_TTL


ACCOUNT_WIDE_SOURCES = frozenset({"ec2-event"})
"""Sources that report every instance of an AWS account. Records of unregistered instances are ignored."""

FoundNode = tuple[ClusterConfig, AliasRow]


class NodeLookup(Struct, frozen=True):
    """Finds the nodes of many records. Their aliases and registrations are read together."""

    item_cache: ItemCache
    rulebook: Rulebook
    trust: Trust

    def find_nodes(self, parts: Sequence[RecordPart]) -> Iterator[tuple[RecordPart, FoundNode | Rejected | None]]:
        """Yield each part of a record with its node, with the reason of its rejection, or with None.

        A part contains the observations about one node. None means that the part is ignored. A part is ignored if it
        has neither a cluster nor observations, or if a source of a whole AWS account reports an unknown instance.
        """
        aliases = {part: aliases_of(part.record, part.named) for part in parts}
        rows = self._read_aliases(
            (alias for found in aliases.values() for alias in found), {part.record.cluster for part in parts}
        )
        for part, candidates in aliases.items():
            found = self._find(part, candidates, rows)
            yield (self._marked(part, *found, candidates, rows) if isinstance(found, tuple) else part), found

    def _find(
        self, part: RecordPart, candidates: Sequence[Alias], rows: Mapping[Alias, AliasRow]
    ) -> FoundNode | Rejected | None:
        cluster, any_cluster = part.record.cluster, part.record.cluster == keys.NO_CLUSTER
        if any_cluster and not part.observations:
            return None
        row = resolve(tuple(candidates), rows, None if any_cluster else cluster)
        config = self.rulebook.config(row.key.cluster if row and any_cluster else cluster)
        if config is None and not any_cluster:
            return Rejected("unknown_cluster", cluster)
        if config is not None:
            others = [rows[alias] for alias in candidates if alias in rows]
            objection = self.trust.refusal(part.record, config, row, others)
            if objection is not None:
                return Rejected("untrusted", objection)
        if row is not None and config is not None:
            return config, row
        if part.record.source in ACCOUNT_WIDE_SOURCES:
            return None
        return Rejected("unknown_node", _stated_name(part))

    def _marked(
        self,
        part: RecordPart,
        config: ClusterConfig,
        row: AliasRow,
        candidates: Sequence[Alias],
        rows: Mapping[Alias, AliasRow],
    ) -> RecordPart:
        others = [rows[alias] for alias in candidates if alias in rows]
        if not self.trust.is_claim(part.record, config, row, others):
            return part
        return replace(part, record=replace(part.record, claimed=True))

    def _read_aliases(self, aliases: Iterable[Alias], clusters: Iterable[str]) -> Mapping[Alias, AliasRow]:
        """Return the rows of those aliases that exist, by alias.

        The same call reads the registrations of `clusters` and the pointer to the current policy into the item cache,
        because they are needed next.
        """
        wanted = {keys.alias(*alias): alias for alias in aliases}
        registered = [keys.cluster_config(cluster) for cluster in clusters if cluster != keys.NO_CLUSTER]
        found = self.item_cache.get_many([*wanted, *registered, keys.CURRENT_POLICY])
        return {alias: items.read_alias(found[key]) for key, alias in wanted.items() if key in found}


def _stated_name(part: RecordPart) -> str:
    return part.record.node or part.named or part.record.instance_id or "the record names no node"
