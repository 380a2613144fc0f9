"""Anchor: where every stream of a cluster stands, put each hour where no writer of the table can reach it."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from faultbridge.domain.clusters import ClusterConfig
from faultbridge.domain.edges import Actor
from faultbridge.domain.entries import canonical_json
from faultbridge.domain.nodes import Head
from faultbridge.domain.times import to_text, truncate
from faultbridge.errors import Conflict, Rejected
from faultbridge.ledger.append import Stack
from faultbridge.ledger.cluster_stream import append_to_cluster, next_writes
from faultbridge.ledger.streams import heads_of
from faultbridge.pipeline import entry_builder
from faultbridge.ports import Clock, Table
from faultbridge.ports.objects import Vault
from faultbridge.storage import items, keys
from faultbridge.storage.wire import archive_lines as layout
from faultbridge.storage.writes import Absent, Equals, Put


@dataclass(frozen=True, slots=True)
class Anchored:
    """The anchor of an hour as it was kept; `heads` is epoch, sequence and hash by stream."""

    key: str
    stack_id: str
    cluster: str
    at: str
    root: str
    heads: Mapping[str, tuple[int, int, str]]


@dataclass(frozen=True, slots=True)
class Anchor:
    """Writes anchors; the first one of an hour stands and is returned again."""

    table: Table
    vault: Vault
    clock: Clock
    stack: Stack

    def __call__(self, config: ClusterConfig) -> Anchored:
        """Anchor a cluster's heads; `bad_object` when what stands for this hour is no anchor."""
        now = self.clock.now()
        key = layout.anchor_key(config.cluster, f"{now:%Y-%m-%dT%H}")
        known = self.vault.get(key)
        if known is not None:
            return read_anchor(key, known)
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
        except Conflict:
            body = self.vault.get(key) or b""
        return read_anchor(key, body)


def read_anchor(key: str, body: bytes) -> Anchored:
    """Read an anchor; `bad_object` when it is none or when its root is not that of its heads."""
    try:
        found: dict[str, Any] = json.loads(gzip.decompress(body))
        heads = {name: (int(one[0]), int(one[1]), str(one[2])) for name, one in found["heads"].items()}
        anchored = Anchored(key, found["stack_id"], found["cluster"], found["at"], found["root"], heads)
    except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError):
        raise Rejected("bad_object", "it is no anchor") from None
    told = [leaf(name, Head(epoch=one[0], sequence=one[1], hash=one[2])) for name, one in sorted(heads.items())]
    if merkle_root(told) != anchored.root:
        raise Rejected("bad_object", "the root is not that of the heads")
    return anchored


def leaf(stream: str, head: Head) -> bytes:
    """Hash where one stream stands."""
    return hashlib.sha256(b"\x00" + canonical_json([stream, head.epoch, head.sequence, head.hash]).encode()).digest()


def merkle_root(leaves: Sequence[bytes]) -> str:
    """Return the root over leaves in their order; an odd one moves up as it is, nodes differ from leaves by a byte."""
    level = list(leaves)
    if not level:
        return hashlib.sha256(b"").hexdigest()
    while len(level) > 1:
        pairs = [level[at : at + 2] for at in range(0, len(level), 2)]
        level = [hashlib.sha256(b"\x01" + b"".join(pair)).digest() if len(pair) > 1 else pair[0] for pair in pairs]
    return level[0].hex()


@dataclass(frozen=True, slots=True)
class PutOnChain:
    """Records anchors; each one once, whoever else records it at the same time."""

    table: Table
    clock: Clock
    stack: Stack

    def __call__(self, anchored: Anchored) -> bool:
        """Record an anchor unless it is on the record; tells whether it is new. Raises Conflict after 20 lost races."""
        return append_to_cluster(lambda: self._once(anchored))

    def _once(self, anchored: Anchored) -> bool:
        place = keys.cluster_anchored(anchored.cluster)
        last = self.table.get(place)
        if last is not None and last["key"] == anchored.key:
            return False
        now = truncate(self.clock.now())
        state = items.read_cluster(anchored.cluster, self.table.get(keys.cluster_state(anchored.cluster)))
        note = entry_builder.note(
            kind="anchor",
            text=f"the heads of {len(anchored.heads)} streams are anchored",
            at=now,
            facts={"anchor": anchored.key, "root": anchored.root, "streams": len(anchored.heads)},
        )
        _, writes = next_writes(self.stack, state, state, (note,), actor=Actor.ARCHIVE, severity=None, now=now)
        unchanged = Absent() if last is None else Equals("key", str(last["key"]))
        self.table.transact([*writes, Put(items.item(place, now, {"key": anchored.key}), when=unchanged)])
        return True
