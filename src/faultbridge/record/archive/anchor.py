"""Anchor: stores the hash of the last entry of each stream of a cluster in the locked vault, every hour."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct

from faultbridge.decide import entry_builder
from faultbridge.model.canonical_json import canonical_json
from faultbridge.model.cluster.config import ClusterConfig
from faultbridge.model.enums import Actor, NoteKind
from faultbridge.model.errors import Conflict, Rejected
from faultbridge.model.log import log_cause
from faultbridge.model.nodes import Head
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.wire import archive_lines as layout
from faultbridge.model.storage.writes import Absent, Equals, Put
from faultbridge.model.times import to_text, truncate
from faultbridge.record.append import Stack
from faultbridge.record.cluster_stream import append_to_cluster, cluster_writes, heads_of
from faultbridge.record.ports.objects import Vault
from faultbridge.record.ports.table import Clock, Table


class AnchorDocument(Struct, frozen=True):
    """One hour's anchor: epoch, sequence and hash of each stream's last entry, and their Merkle root."""

    key: str
    stack_id: str
    cluster: str
    at: str
    root: str
    heads: Mapping[str, tuple[int, int, str]]


class Anchor(Struct, frozen=True):
    """Writes one anchor for each cluster and hour to the vault; an existing anchor is never replaced."""

    table: Table
    vault: Vault
    clock: Clock
    stack: Stack

    def __call__(self, config: ClusterConfig) -> AnchorDocument:
        """Return the anchor of the current hour, and write it if it is missing; a damaged one raises `Rejected`."""
        now = self.clock.now()
        key = layout.anchor_key(config.cluster, f"{now:%Y-%m-%dT%H}")
        stored = self.vault.get(key)
        if stored is not None:
            return read_anchor(key, stored)
        heads = {name: head for name, head in heads_of(self.table, self.stack, config).items() if head.sequence}
        root = merkle_root([leaf(name, head) for name, head in sorted(heads.items())])
        document = {
            "version": 1,
            "stack": self.stack.name,
            "stack_id": self.stack.id,
            "cluster": config.cluster,
            "at": to_text(now),
            "root": root,
            "heads": {name: [head.epoch, head.sequence, head.hash] for name, head in heads.items()},
        }
        body = gzip.compress(canonical_json(document).encode(), mtime=0)
        try:
            self.vault.put(key, body)
        except Conflict as conflict:
            log_cause("anchor_already_stored", reason=str(conflict), cluster=config.cluster, anchor=key)
            body = self.vault.get(key) or b""
        return read_anchor(key, body)


def read_anchor(key: str, body: bytes) -> AnchorDocument:
    """Parse a stored anchor; raises `Rejected` (`bad_object`) if it is damaged or its root does not match."""
    try:
        anchor = msgspec.convert(json.loads(gzip.decompress(body)) | {"key": key}, AnchorDocument)
    except (OSError, EOFError, ValueError, TypeError):
        raise Rejected("bad_object", "the object is not an anchor; restore its first version") from None
    leaves = [
        leaf(name, Head(epoch=one[0], sequence=one[1], hash=one[2])) for name, one in sorted(anchor.heads.items())
    ]
    if merkle_root(leaves) != anchor.root:
        raise Rejected("bad_object", "the Merkle root does not match the heads; restore the object's first version")
    return anchor


def leaf(stream: str, head: Head) -> bytes:
    """Return the Merkle leaf for the head (last entry) of a stream, as a SHA-256 digest."""
    return hashlib.sha256(b"\x00" + canonical_json([stream, head.epoch, head.sequence, head.hash]).encode()).digest()


def merkle_root(leaves: Sequence[bytes]) -> str:
    """Return the root of the Merkle tree over `leaves` in hexadecimal; an odd last hash rises unchanged."""
    level = list(leaves)
    if not level:
        return hashlib.sha256(b"").hexdigest()
    while len(level) > 1:
        pairs = [level[first : first + 2] for first in range(0, len(level), 2)]
        level = [hashlib.sha256(b"\x01" + b"".join(pair)).digest() if len(pair) > 1 else pair[0] for pair in pairs]
    return level[0].hex()


class RecordAnchor(Struct, frozen=True):
    """Records an anchor as an entry in the stream of its cluster, unless it is the last recorded anchor."""

    table: Table
    clock: Clock
    stack: Stack

    def __call__(self, anchor: AnchorDocument) -> bool:
        """Record an anchor as an entry; returns False if the last anchor entry of the cluster has it already."""
        return append_to_cluster(lambda: self._record(anchor))

    def _record(self, anchor: AnchorDocument) -> bool:
        key = keys.cluster_anchored(anchor.cluster)
        last = self.table.get(key)
        if last is not None and last["key"] == anchor.key:
            return False
        now = truncate(self.clock.now())
        state = items.read_cluster(anchor.cluster, self.table.get(keys.cluster_state(anchor.cluster)))
        note = entry_builder.note(
            kind=NoteKind.ANCHOR,
            text=f"the heads of {len(anchor.heads)} streams are anchored",
            at=now,
            facts={"anchor": anchor.key, "root": anchor.root, "streams": len(anchor.heads)},
        )
        _, writes = cluster_writes(self.stack, state, state, (note,), actor=Actor.ARCHIVE, severity=None, now=now)
        unchanged = Absent() if last is None else Equals("key", str(last["key"]))
        self.table.transact([*writes, Put(items.item(key, now, {"key": anchor.key}), when=unchanged)])
        return True
