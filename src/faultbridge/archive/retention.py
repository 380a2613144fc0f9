"""Retention: sets the expiry time of the entries of a sealed day in the table."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from faultbridge.archive.manifests import Manifest, SealedRange
from faultbridge.domain.nodes import Head, NodeKey
from faultbridge.domain.times import to_milliseconds
from faultbridge.errors import Conflict
from faultbridge.log import log_cause
from faultbridge.ports import Clock, Table
from faultbridge.storage import items, keys
from faultbridge.storage.writes import Absent, AnyOf, Below, Present, Put, Update


def sealed_head(table: Table, partition: str) -> Head | None:
    """Return the last sealed entry of a stream, or None when none of it is sealed."""
    found = table.get(keys.stream_anchor(partition))
    if found is None:
        return None
    return Head(epoch=int(str(found["epoch"])), sequence=int(str(found["seq"])), hash=str(found["hash"]))


@dataclass(frozen=True, slots=True)
class ExpireEntries:
    """Sets the expiry time of sealed entries in the table.

    `keep` is the time from the seal to the expiry. None keeps entries forever.
    """

    table: Table
    clock: Clock
    keep: timedelta | None

    def __call__(self, manifest: Manifest) -> int:
        """Set the expiry of a manifest's entries, then move each stream's seal; return the number of entries."""
        count = 0
        for sealed in manifest.ranges:
            pk = _partition(manifest.cluster, sealed.node)
            done = sealed_head(self.table, pk)
            if done is not None and (done.epoch, done.sequence) >= (sealed.epoch, sealed.last):
                continue
            if self.keep is not None:
                count += self._set_expiry(pk, sealed, self.keep)
            self._move_seal(pk, sealed, manifest.day)
        return count

    def _set_expiry(self, pk: str, sealed: SealedRange, keep: timedelta) -> int:
        expires_at = to_milliseconds(self.clock.now() + keep) // 1000
        missing = 0
        for sequence in range(sealed.first, sealed.last + 1):
            key = keys.entry(pk, sealed.epoch, sequence)
            try:
                self.table.write(Update(key, set={("expires_at",): expires_at}, when=Present()))
            except Conflict:
                missing += 1
        if missing:
            reason = f"{missing} sealed entries have left the table already"
            log_cause("expiry_skipped", reason=reason, stream=sealed.stream, epoch=sealed.epoch)
        return sealed.last - sealed.first + 1

    def _move_seal(self, pk: str, sealed: SealedRange, day: str) -> None:
        place = f"{sealed.epoch:04d}#{sealed.last:012d}"
        attributes = {
            "epoch": sealed.epoch,
            "seq": sealed.last,
            "hash": sealed.hash,
            "place": place,
            "segment": day,
            "expiring": self.keep is not None,
        }
        item = items.item(keys.stream_anchor(pk), self.clock.now(), attributes)
        try:
            self.table.write(Put(item, when=AnyOf((Absent(), Below("place", place)))))
        except Conflict:
            log_cause("seal_not_moved", reason="a later seal is stored", stream=sealed.stream, day=day)


def _partition(cluster: str, node: str | None) -> str:
    return keys.cluster_partition(cluster) if node is None else keys.node_partition(NodeKey(cluster, node))
