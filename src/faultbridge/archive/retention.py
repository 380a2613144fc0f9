"""Retention: sets the expiry time of the entries of a sealed day in the table."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from faultbridge.archive.manifests import Manifest, SealedRange
from faultbridge.dataclass import dataclass
from faultbridge.domain.nodes import Head, NodeKey
from faultbridge.domain.times import to_milliseconds
from faultbridge.errors import Conflict
from faultbridge.ledger.stream_seal import StreamSeal, place_text, read_seal, seal_item
from faultbridge.log import log_cause
from faultbridge.ports import Clock, Table
from faultbridge.storage import keys
from faultbridge.storage.writes import Absent, AnyOf, Below, Present, Put, Update


def sealed_head(table: Table, partition: str) -> Head | None:
    """Return the last sealed entry of a stream; None if no entry of the stream is sealed."""
    head = read_seal(table.get(keys.stream_anchor(partition))).head
    return head if head.sequence else None


@dataclass(frozen=True, slots=True)
class ExpireEntries:
    """Sets the expiry time of sealed entries in the table.

    `keep` is the time from the seal to the expiry. None means that entries never expire.
    """

    table: Table
    clock: Clock
    keep: timedelta | None

    def __call__(self, manifest: Manifest) -> int:
        """Set the expiry time of a manifest's entries, and store the last sealed entry of each stream.

        Returns the number of these entries, including entries that have already left the table. Ranges whose seal is
        already stored are skipped and not counted. If `keep` is None, no expiry time is set, and the result is 0.
        """
        count = 0
        for sealed in manifest.ranges:
            pk, end = _partition(manifest.cluster, sealed.node), (sealed.epoch, sealed.last)
            seal = read_seal(self.table.get(keys.stream_anchor(pk)))
            if seal.position >= end:
                continue
            if self.keep is not None:
                # Before the first expiry time, so that `verify` never finds one that the seal does not allow.
                seal = replace(seal, expires_to=end)
                moved = self._store(sealed, seal, manifest)
                count += self._set_expiry(pk, sealed, self.keep)
                if not moved:
                    continue
            head = Head(epoch=sealed.epoch, sequence=sealed.last, hash=sealed.hash)
            self._store(sealed, replace(seal, head=head), manifest)
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

    def _store(self, sealed: SealedRange, seal: StreamSeal, manifest: Manifest) -> bool:
        """Store the seal of a stream: its last sealed entry, and the last of its entries that may expire.

        Returns False, and stores nothing, if the stored seal already covers the range `sealed`.
        """
        item = seal_item(_partition(manifest.cluster, sealed.node), seal, manifest.day, self.clock.now())
        end = place_text((sealed.epoch, sealed.last))
        try:
            self.table.write(Put(item, when=AnyOf((Absent(), Below("place", end)))))
        except Conflict:
            log_cause("seal_not_moved", reason="a later seal is stored", stream=sealed.stream, day=manifest.day)
            return False
        return True


def _partition(cluster: str, node: str | None) -> str:
    return keys.cluster_partition(cluster) if node is None else keys.node_partition(NodeKey(cluster, node))
