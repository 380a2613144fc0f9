"""Expire: entries of a sealed day get the time at which the table forgets them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from faultbridge.archive.manifests import Manifest, Stretch
from faultbridge.domain.nodes import Head, NodeKey
from faultbridge.domain.times import to_milliseconds
from faultbridge.errors import Conflict
from faultbridge.ports import Clock, Table
from faultbridge.storage import items, keys
from faultbridge.storage.writes import Absent, AnyOf, Below, Key, Present, Put, Update


def sealed_up_to(table: Table, partition: str) -> Head | None:
    """Return up to where a stream is sealed, or None where it never was."""
    found = table.get(keys.stream_anchor(partition))
    if found is None:
        return None
    return Head(epoch=int(str(found["epoch"])), sequence=int(str(found["seq"])), hash=str(found["hash"]))


@dataclass(frozen=True, slots=True)
class Expire:
    """Marks what a proven manifest holds; `keep` is how long an entry stays in the table after its seal."""

    table: Table
    clock: Clock
    keep: timedelta | None

    def __call__(self, manifest: Manifest) -> int:
        """Give every entry of the manifest its end, then move each stream's anchor; returns how many were marked."""
        marked = 0
        for stretch in manifest.stretches:
            pk = _partition(manifest.cluster, stretch.node)
            done = sealed_up_to(self.table, pk)
            if done is not None and (done.epoch, done.sequence) >= (stretch.epoch, stretch.last):
                continue
            if self.keep is not None:
                marked += self._mark(pk, stretch)
            self._anchor(pk, stretch, manifest.day)
        return marked

    def _mark(self, pk: str, stretch: Stretch) -> int:
        end = to_milliseconds(self.clock.now() + (self.keep or timedelta())) // 1000
        for key in _keys(pk, stretch):
            try:
                self.table.write(Update(key, set={("expires_at",): end}, when=Present()))
            except Conflict:
                continue  # it is gone already
        return stretch.last - stretch.first + 1

    def _anchor(self, pk: str, stretch: Stretch, day: str) -> None:
        place = f"{stretch.epoch:04d}#{stretch.last:012d}"
        attributes = {
            "epoch": stretch.epoch,
            "seq": stretch.last,
            "hash": stretch.hash,
            "place": place,
            "segment": day,
            "expiring": self.keep is not None,
        }
        item = items.item(keys.stream_anchor(pk), self.clock.now(), attributes)
        try:
            self.table.write(Put(item, when=AnyOf((Absent(), Below("place", place)))))
        except Conflict:
            return  # a later seal was here before us


def _keys(pk: str, stretch: Stretch) -> Iterable[Key]:
    return (keys.entry(pk, stretch.epoch, sequence) for sequence in range(stretch.first, stretch.last + 1))


def _partition(cluster: str, node: str | None) -> str:
    return keys.cluster_partition(cluster) if node is None else keys.node_partition(NodeKey(cluster, node))
