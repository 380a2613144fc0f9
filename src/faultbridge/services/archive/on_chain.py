"""On the chain: each anchor is an entry of its cluster's own stream; the record names what vouches for it."""

from __future__ import annotations

from dataclasses import dataclass

from faultbridge.domain.edges import Actor
from faultbridge.domain.times import truncate
from faultbridge.ports import Clock, Table
from faultbridge.services.append import Stack
from faultbridge.services.archive.anchor import Anchored
from faultbridge.services.cluster_stream import next_writes, until_it_holds
from faultbridge.stages import narrate
from faultbridge.storage import items, keys
from faultbridge.storage.writes import Absent, Equals, Put


@dataclass(frozen=True, slots=True)
class PutOnChain:
    """Records anchors; each one once, whoever else records it at the same time."""

    table: Table
    clock: Clock
    stack: Stack

    def __call__(self, anchored: Anchored) -> bool:
        """Record an anchor unless it is on the record; tells whether it is new. Raises Conflict after 20 lost races."""
        return until_it_holds(lambda: self._once(anchored))

    def _once(self, anchored: Anchored) -> bool:
        place = keys.cluster_anchored(anchored.cluster)
        last = self.table.get(place)
        if last is not None and last["key"] == anchored.key:
            return False
        now = truncate(self.clock.now())
        state = items.read_cluster(anchored.cluster, self.table.get(keys.cluster_state(anchored.cluster)))
        note = narrate.note(
            kind="anchor",
            text=f"the heads of {len(anchored.heads)} streams are anchored",
            at=now,
            facts={"anchor": anchored.key, "root": anchored.root, "streams": len(anchored.heads)},
        )
        _, writes = next_writes(self.stack, state, state, (note,), actor=Actor.ARCHIVE, severity=None, now=now)
        unchanged = Absent() if last is None else Equals("key", str(last["key"]))
        self.table.transact([*writes, Put(items.item(place, now, {"key": anchored.key}), when=unchanged)])
        return True
