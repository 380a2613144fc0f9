"""Verify: detects missing, added and changed timeline entries.

The table alone proves only the absence of accidental damage: a principal that can write the table can also write a
consistent chain. An anchor is an hourly record of where every stream ends, which this principal cannot change.
Comparison with the hashes in anchors (`AnchoredHashes`) therefore also detects a forged chain, up to the latest anchor.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

from faultbridge.dataclass import dataclass
from faultbridge.domain.cluster.config import ClusterConfig
from faultbridge.domain.nodes import NodeKey
from faultbridge.errors import Rejected, UnknownName
from faultbridge.ledger.append import Stack
from faultbridge.ledger.hash_chain import Break, BreakKind
from faultbridge.ledger.queries import node_names
from faultbridge.ledger.stream_verification import AnchoredHashes, StreamVerification, row_break
from faultbridge.ports import Table
from faultbridge.storage import items, keys

__all__ = ["AnchoredHashes", "Break", "BreakKind", "Verified", "Verify"]


@dataclass(slots=True)
class Verified:
    """The result of a verification: the number of streams and entries read, and the defects found."""

    streams: int = 0
    entries: int = 0
    breaks: list[Break] = field(default_factory=list)

    @property
    def whole(self) -> bool:
        """Return whether the verification found no defect."""
        return not self.breaks


@dataclass(frozen=True, slots=True)
class Verify:
    """Verifies the entry streams of a cluster in the table."""

    table: Table
    stack: Stack

    def __call__(self, cluster: str, node: str | None = None, anchored: AnchoredHashes | None = None) -> Verified:
        """Verify one node's stream, or all streams of a cluster if no node is given.

        `anchored` are the hashes in the vault with which the entries are compared. If it is None, only the table is
        checked. Raises Rejected `unknown_cluster` or `unknown_node` if the given cluster or node is not registered.
        """
        verified = Verified()
        for _ in self.stream_by_stream(cluster, node, verified, anchored):
            pass
        return verified

    def stream_by_stream(
        self, cluster: str, node: str | None, verified: Verified, anchored: AnchoredHashes | None = None
    ) -> Iterator[str]:
        """Verify each stream, add its result to `verified`, and yield the name of the finished stream.

        If `node` is None, all streams of the cluster are verified. `anchored` are the hashes in the vault, or None if
        only the table is checked. Raises Rejected `unknown_cluster` or `unknown_node` if the given cluster or node is
        not registered.
        """
        key = keys.cluster_config(cluster)
        stored = self.table.get(key)
        if stored is None:
            raise UnknownName("cluster", cluster)
        verified.breaks += anchored.breaks if anchored else ()
        config, names = items.read_config(stored), set[str]()
        if stored.get("version") != config.version:
            verified.breaks.append(row_break(cluster, key, "version: the registration has another version"))
        for name in [node] if node else [None, *node_names(self.table, config)]:
            names.add(self.stack.stream(cluster, name).name)
            try:
                self._verify(config, name, verified, anchored)
            except Rejected as error:
                if name == node:
                    raise
                state = keys.node_state(NodeKey(cluster, str(name)))
                verified.breaks.append(row_break(f"{cluster}/{name}", state, f"no state: {error.detail}"))
            yield self.stack.stream(cluster, name).name
        if node is None:
            verified.breaks += _missing_streams(anchored, names) if anchored else ()

    def cluster_stream(self, cluster: str, anchored: AnchoredHashes | None = None) -> Verified:
        """Verify only the cluster's own stream."""
        verified = Verified()
        self._verify(ClusterConfig(cluster), None, verified, anchored)
        return verified

    def _verify(
        self, config: ClusterConfig, node: str | None, verified: Verified, anchored: AnchoredHashes | None
    ) -> None:
        one = StreamVerification(self.table, self.stack.stream(config.cluster, node), anchored)
        verified.breaks += one.breaks()
        verified.streams += 1
        verified.entries += one.entries


def _missing_streams(anchored: AnchoredHashes, names: set[str]) -> list[Break]:
    return [
        Break(name, *min(known), BreakKind.ANCHOR, f"{known[min(known)].anchor} recorded a stream that is missing")
        for name, known in sorted(anchored.known.items())
        if known and name not in names
    ]
